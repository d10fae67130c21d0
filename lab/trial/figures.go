package trial

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Spread is the spread of a figure over the rounds that have it.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
	// MedianInterval is the 95 % confidence interval of the median of very many rounds; nil if there are too few rounds.
	MedianInterval *Interval `json:"ci95,omitempty"`
}

// Interval is an interval of values.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// SpreadOf is the spread of values; it is zero without values.
func SpreadOf(v []float64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	out := Spread{
		Median: (s[(n-1)/2] + s[n/2]) / 2,
		Min:    s[0],
		Max:    s[n-1],
		N:      n,
	}
	if k := rank(n); k > 0 {
		out.MedianInterval = &Interval{s[k-1], s[n-k]}
	}
	return out
}

// rank is k such that the k-th least and the k-th greatest of n figures bound the median with a confidence of at least
// 95 %; 0 if no k does: below six figures. Each figure is on either side of the true median with the same chance, so
// the number of figures below it follows the binomial distribution, whatever the distribution of the figures: this is
// the interval by order statistics, as in Conover, Practical Nonparametric Statistics, 3rd edition, Wiley 1999.
func rank(n int) int {
	const outside = 0.05
	logFactorial := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
	k, below := 0, 0.0
	for ; 2*k < n; k++ {
		// k of n lie below the median
		below += math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) - float64(n)*math.Ln2)
		if 2*below > outside {
			break
		}
	}
	return k
}

// Scaled is the spread in another unit.
func (s Spread) Scaled(by float64) Spread {
	s.Median, s.Min, s.Max = s.Median*by, s.Min*by, s.Max*by
	if s.MedianInterval != nil {
		s.MedianInterval = &Interval{s.MedianInterval.Low * by, s.MedianInterval.High * by}
	}
	return s
}

// Times are quantiles of a time, µs, each with its spread.
type Times struct {
	P50  Spread `json:"p50"`
	P99  Spread `json:"p99"`
	P999 Spread `json:"p999"`
}

// Ratio is a figure over another figure of the same round.
type Ratio struct {
	Reference string `json:"to"` // name of the other thing
	Spread
}

// Figures are the figures of one thing, by their names in its report; those of an inner object are "object.name".
type Figures map[string]float64

// Flatten collects the numbers of a JSON object. It leaves out lists.
func Flatten(text []byte) Figures {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return nil
	}
	out := Figures{}
	for name, value := range object {
		var number float64
		switch {
		case len(value) == 0 || string(value) == "null":
		case value[0] == '{':
			for inner, v := range Flatten(value) {
				out[name+"."+inner] = v
			}
		case json.Unmarshal(value, &number) == nil:
			out[name] = number
		}
	}
	return out
}

// Round has the figures of one round, by thing.
type Round map[string]Figures

// Rounds in their order.
type Rounds []Round

// values lists a figure over the rounds that have it.
func (r Rounds) values(thing, figure string) []float64 {
	var out []float64
	for _, one := range r {
		if v, ok := one[thing][figure]; ok {
			out = append(out, v)
		}
	}
	return out
}

// ratios lists the ratios of two figures of the same round.
func (r Rounds) ratios(thing, figure, other, otherFigure string) []float64 {
	var out []float64
	for _, one := range r {
		v, ok := one[thing][figure]
		if by := one[other][otherFigure]; ok && by > 0 && !math.IsInf(v, 0) {
			out = append(out, v/by)
		}
	}
	return out
}

// Ratio is the ratio to the first of the others that was measured beside the thing, or nil.
func (r Rounds) Ratio(thing, figure string, others ...string) *Ratio {
	for _, other := range others {
		if v := r.ratios(thing, figure, other, figure); v != nil {
			return &Ratio{other, SpreadOf(v)}
		}
	}
	return nil
}

// Measured says whether any round has measured the thing.
func (r Rounds) Measured(thing string) bool {
	return slices.ContainsFunc(r, func(one Round) bool { return one[thing] != nil })
}

// Fill sets the fields of a row that are spreads or times, each from the figure of its JSON name. A pointer stays nil
// if no round has the figure.
func (r Rounds) Fill(thing string, row any) {
	v := reflect.ValueOf(row).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		at := func(quantile string) Spread { return SpreadOf(r.values(thing, name+quantile)) }
		switch f := v.Field(i).Addr().Interface().(type) {
		case *Spread:
			*f = at("")
		case **Spread:
			if s := at(""); s.N > 0 {
				*f = &s
			}
		case *Times:
			*f = Times{at(".p50"), at(".p99"), at(".p999")}
		case **Times:
			if s := at(".p50"); s.N > 0 {
				*f = &Times{s, at(".p99"), at(".p999")}
			}
		}
	}
}

// Turn is one thing in one round.
type Turn struct {
	Round int // from 0
	Thing int
}

// DrawOrder draws the order in which n things are measured: each once in each round, in a random order for each round.
// An interruption then leaves whole rounds and a part of one, and a machine that grows slower within an hour affects
// every thing alike. The same seed gives the same order.
//
// Blocks keep things together that are compared: block i has the things up to blocks[i]. Nil makes each thing a block.
func DrawOrder(n, rounds int, seed uint64, blocks []int) []Turn {
	if blocks == nil {
		for i := range n {
			blocks = append(blocks, i+1)
		}
	}
	var out []Turn
	for round := range rounds {
		draw := rand.New(rand.NewPCG(seed, uint64(round)))
		for _, b := range draw.Perm(len(blocks)) {
			first := 0
			if b > 0 {
				first = blocks[b-1]
			}
			for _, i := range permute(draw, blocks[b]-first) {
				out = append(out, Turn{round, first + i})
			}
		}
	}
	return out
}

// permute permutes a block; a block of one needs no draw.
func permute(draw *rand.Rand, n int) []int {
	if n == 1 {
		return []int{0}
	}
	return draw.Perm(n)
}

// Text formats the median, and in brackets the least and the most if they differ.
func (s Spread) Text(format string, scale float64) string {
	one := func(v float64) string { return fmt.Sprintf(format, v*scale) }
	if one(s.Min) == one(s.Max) {
		return one(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", one(s.Median), one(s.Min), one(s.Max))
}

// Text95 formats the interval of the median, if there is one.
func (s Spread) Text95(format string, scale float64) string {
	if s.MedianInterval == nil {
		return NoFigure
	}
	return fmt.Sprintf(format+"–"+format, s.MedianInterval.Low*scale, s.MedianInterval.High*scale)
}

// Short formats a number with three significant digits, or with all digits before the point.
func Short(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return Trimmed(v, min(max(digits, 0), 6))
}

// Trimmed formats a number with at most the given number of digits behind the point, and without zeros at the end.
func Trimmed(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
