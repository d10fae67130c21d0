package study

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"ringlet/internal/decimal"
)

// A Dimension is what a Quantity counts; its name is the unit of Quantity.Value.
type Dimension string

// The dimensions of parameters and results.
const (
	Count     Dimension = ""
	Time      Dimension = "s"
	Bytes     Dimension = "B"
	Rate      Dimension = "Hz"
	Bandwidth Dimension = "B/s"
	Points    Dimension = "points" // of per cent: the difference of two shares
)

// A unit with its size.
type unit struct {
	name      string
	dimension Dimension
	factor    float64
}

// units are in the order in which a value picks one. M is 10^6 and Mi 2^20: L1-farm, SCI-bridge and NIC-crossbar mean
// 2^20 bytes by MByte, and a file writes MiB for these.
var units = []unit{
	{"ps", Time, 1e-12}, {"ns", Time, 1e-9}, {"µs", Time, 1e-6}, {"us", Time, 1e-6}, {"ms", Time, 1e-3}, {"s", Time, 1},
	{"h", Time, 3600},
	{"B", Bytes, 1}, {"kB", Bytes, 1e3}, {"MB", Bytes, 1e6}, {"GB", Bytes, 1e9},
	{"KiB", Bytes, 1 << 10}, {"MiB", Bytes, 1 << 20}, {"GiB", Bytes, 1 << 30},
	{"Hz", Rate, 1}, {"/s", Rate, 1}, {"kHz", Rate, 1e3}, {"MHz", Rate, 1e6}, {"GHz", Rate, 1e9},
	{"B/s", Bandwidth, 1}, {"MB/s", Bandwidth, 1e6}, {"GB/s", Bandwidth, 1e9}, {"MiB/s", Bandwidth, 1 << 20},
	{"Mbit/s", Bandwidth, 1e6 / 8}, {"Gbit/s", Bandwidth, 1e9 / 8}, {"Tbit/s", Bandwidth, 1e12 / 8},
	{"%", Count, 0.01}, {"points", Points, 0.01},
}

// Quantity is a number with a dimension, such as a time. The zero value is the number 0 without a dimension.
type Quantity struct {
	Value     float64 // in the unit of the dimension
	Dimension Dimension
	unit      string // as written; "" = a suitable one
}

// Number is the value in the unit that it was written with.
func (q Quantity) Number() float64 {
	for _, u := range units {
		if u.name == q.unit && u.dimension == q.Dimension {
			return q.Value / u.factor
		}
	}
	return q.Value
}

// Q is a quantity of a model's outcome.
func Q(value float64, of Dimension) Quantity { return Quantity{Value: value, Dimension: of} }

// Share is a part of a whole, written in per cent.
func Share(part float64) Quantity { return Quantity{Value: part, unit: "%"} }

// UnmarshalText reads a number with a unit, such as "60 ns", "1.38 MHz", "25 %" or "26".
func (q *Quantity) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	end := strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || r == '%' || r == '/' || r == ' ' })
	if i := strings.IndexAny(s, "eE"); i > 0 && end == i { // an exponent is not a unit
		end = i + 1 + strings.IndexFunc(s[i+1:]+" ", func(r rune) bool { return !strings.ContainsRune("+-0123456789", r) })
	}
	number, name := s, ""
	if end >= 0 && end < len(s) {
		number, name = s[:end], strings.TrimSpace(s[end:])
	}
	v, err := decimal.Float(number)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%q is no number with a unit, such as 60 ns, 1.38 MHz or 25 %%", s)
	}
	*q = Quantity{Value: v, unit: name}
	if name == "" {
		return nil
	}
	for _, u := range units {
		if u.name == name {
			q.Value, q.Dimension = v*u.factor, u.dimension
			return nil
		}
	}
	return fmt.Errorf("%q has the unit %q; there are ps to h, B to GiB, Hz to GHz, B/s to Tbit/s, %% and points", s, name)
}

// String formats the quantity in the unit that it was written with, or in a suitable one.
func (q Quantity) String() string { return q.inUnit(q.unit) }

// inUnit formats the quantity in the named unit; "" = a suitable one.
func (q Quantity) inUnit(name string) string {
	best, found := unit{factor: 1}, false
	for _, u := range units {
		switch {
		case u.dimension != q.Dimension || u.name == "us" || u.name == "h" && name != "h":
		case name == u.name:
			return digits(q.Value/u.factor) + " " + u.name
		case name == "" && u.dimension != Count && !strings.Contains(u.name, "i") && // nor bits
			u.name != "/s" &&
			(!found || math.Abs(q.Value) >= u.factor):
			best, found = u, true
		}
	}
	return strings.TrimSpace(digits(q.Value/best.factor) + " " + best.name)
}

// digits formats a number with four significant digits, and without an exponent if possible.
func digits(v float64) string {
	if a := math.Abs(v); a >= 1e4 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
