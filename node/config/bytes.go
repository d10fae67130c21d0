package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size in bytes. Its text form is a number with an optional unit: B, kB, MB, GB, TB are powers of 1000, KiB,
// MiB, GiB, TiB powers of 1024; case and a space before the unit do not matter. "4MiB", "1.5GB", "4096".
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// ParseBytes reads the text form. A fraction is allowed; the number of bytes is rounded down.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	unit := int64(1)
	for _, u := range byteUnits {
		if n := len(text) - len(u.name); n > 0 && strings.EqualFold(text[n:], u.name) {
			unit, text = u.size, strings.TrimSpace(text[:n])
			break
		}
	}
	if value, err := strconv.ParseInt(text, 10, 64); err == nil {
		if value < 0 || value > math.MaxInt64/unit {
			return 0, fmt.Errorf("size %q is negative or too large", s)
		}
		return Bytes(value * unit), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xXpPeEnN_") {
		return 0, fmt.Errorf("size %q is not a number with a unit such as 4096, 64KiB, 1.5GB", s)
	}
	if f *= float64(unit); f < 0 || f >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is negative or too large", s)
	}
	return Bytes(f), nil
}

// UnmarshalText reads the text form, for kong and YAML.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := ParseBytes(string(text))
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// MarshalText writes the text form.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String writes the size exactly, in the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
