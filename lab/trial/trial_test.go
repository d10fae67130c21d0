package trial

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 1, 20).Draw(t, "figures")
		s := SpreadOf(v)
		below, above := 0, 0
		for _, x := range v {
			if x <= s.Median {
				below++
			}
			if x >= s.Median {
				above++
			}
		}
		if s.Min != slices.Min(v) || s.Max != slices.Max(v) || 2*below < len(v) || 2*above < len(v) || s.N != len(v) {
			t.Fatalf("%v of %v", s, v)
		}
	})
	if s := SpreadOf(nil); s != (Spread{}) {
		t.Errorf("%v of nothing", s)
	}
}

// The ranks are those of printed tables: Conover's, as everybody's.
func TestIntervalOfTheMedian(t *testing.T) {
	for n, want := range map[int]int{
		0: 0, 1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 17: 5, 20: 6, 50: 18, 100: 40, 1000: 469,
	} {
		if got := rank(n); got != want {
			t.Errorf("of %d figures the interval begins at the %d., want %d", n, got, want)
		}
	}
	s := SpreadOf([]float64{9, 1, 2, 3, 8, 4, 7, 5, 6}).Scaled(10)
	if *s.MedianInterval != (Interval{20, 80}) || s.Text95("%.1f", 0.1) != "2.0–8.0" {
		t.Errorf("%+v, %+v", s, s.MedianInterval)
	}
	if s := SpreadOf([]float64{1, 2}).Scaled(2); s.MedianInterval != nil || s.Text95("%g", 1) != NoFigure {
		t.Errorf("%+v", s)
	}
	// Of many medians of few figures nineteen of twenty have the true one in their interval, or more.
	draw, hit := rand.New(rand.NewPCG(1, 2)), 0
	const times = 4000
	for range times {
		var v []float64
		for range 9 {
			v = append(v, math.Exp(draw.NormFloat64())) // skewed; its median is 1
		}
		if in := SpreadOf(v).MedianInterval; in.Low <= 1 && 1 <= in.High {
			hit++
		}
	}
	if hit < times*95/100 {
		t.Errorf("%d of %d", hit, times)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234.5: "1234", 12.34: "12.3", 0.001234: "0.00123", 5: "5",
		-2.5: "-2.5"} {
		if got := Short(v); got != want {
			t.Errorf("%q of %g, want %q", got, v, want)
		}
	}
}

// Every thing is measured once in each round; those of a block stay together; the same seed gives the same order.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var blocks []int
		n := 0
		for _, size := range rapid.SliceOfN(rapid.IntRange(1, 5), 1, 5).Draw(t, "sizes") {
			n += size
			blocks = append(blocks, n)
		}
		rounds, seed := rapid.IntRange(1, 4).Draw(t, "rounds"), rapid.Uint64().Draw(t, "seed")
		turns := DrawOrder(n, rounds, seed, blocks)
		if len(turns) != n*rounds || !slices.Equal(turns, DrawOrder(n, rounds, seed, blocks)) {
			t.Fatalf("%v", turns)
		}
		blockOf := func(thing int) int { return slices.IndexFunc(blocks, func(end int) bool { return thing < end }) }
		for round := range rounds {
			var things, order []int
			for _, turn := range turns[round*n : round*n+n] {
				if turn.Round != round {
					t.Fatalf("%v in round %d", turn, round)
				}
				things, order = append(things, turn.Thing), append(order, blockOf(turn.Thing))
			}
			slices.Sort(things)
			if len(slices.Compact(things)) != n || len(slices.Compact(order)) != len(blocks) {
				t.Fatalf("%v: %v", turns, order)
			}
		}
	})
	if one := DrawOrder(5, 1, 1, nil); len(one) != 5 {
		t.Errorf("%v", one)
	}
}

func TestFlatten(t *testing.T) {
	got := Flatten([]byte(`{"a": 1.5, "b": {"p50": 2, "c": {"d": 3}}, "e": [4], "f": "5", "g": null, "h": true}`))
	if len(got) != 3 || got["a"] != 1.5 || got["b.p50"] != 2 || got["b.c.d"] != 3 {
		t.Errorf("%v", got)
	}
	if got := Flatten([]byte("[1]")); got != nil {
		t.Errorf("%v", got)
	}
}

func TestJudge(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	rounds := Rounds{
		{"a": {"rate": 8, "lost": 0}, "b": {"rate": 10}, "slow": {"rate": 0}},
		{"a": {"rate": 9, "lost": 0}, "b": {"rate": 10}, "slow": {"rate": 0}},
		{"a": {"rate": 10}}, // of this round there is no ratio
		{"a": {"rate": math.Inf(1)}, "b": {"rate": 1}},
	}
	for want, b := range map[string]Bound{
		"reached 0.85 (0.80–0.90) ≥ 0.8 × b a": {
			Thing: "a", Figure: "rate", ComparedWith: []string{"b"}, Least: at(0.8),
		},
		"not reached 0.85 (0.80–0.90) ≤ 0.8 × the other path": {
			Path: "path", Thing: "a", Figure: "rate", ComparedWith: []string{"none", "b"}, Most: at(0.8),
			Says: "the other",
		},
		"not reached 0.43 (0.40–0.45) ≥ 0.8 × b a": {
			Thing: "a", Figure: "rate", Multiplier: 0.5, ComparedWith: []string{"b"}, Least: at(0.8),
		},
		"reached 0 ≤ 0 B lost a": {
			Thing: "a", Figure: "lost", Unit: "B", Most: at(0), Says: "lost",
		},
		"reached 10.00 ≤ 11 µs, seen b": {
			Thing: "b", Figure: "rate", Unit: "µs", Most: at(11), Says: ", seen", Multiplier: 1,
		},
		"not measured – ≥ 1 × slow a": {
			Thing: "a", Figure: "rate", ComparedWith: []string{"slow"}, Least: at(1),
		},
		"not measured – ≥ 1 × none a": {
			Thing: "a", Figure: "rate", ComparedWith: []string{"none"}, Least: at(1),
		},
		"not measured – ≥ 1 Gbit/s c": {
			Thing: "c", Figure: "rate", Unit: "Gbit/s", Least: at(1),
		},
		"reached 0.85 (0.80–0.90) ≥ 0.5 × twice a": {
			Thing: "a", Figure: "rate", ComparedWith: []string{"b"}, ComparedFigure: "rate", Least: at(0.5),
			Says: "twice",
		},
	} {
		r := rounds
		if b.Thing == "b" {
			r = rounds[:2]
		}
		if got := strings.Join(r.judge(b).row(), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFill(t *testing.T) {
	var row struct {
		Rate  Spread  `json:"rate"`
		Maybe *Spread `json:"maybe,omitempty"`
		Never *Spread `json:"never,omitempty"`
		Trip  Times   `json:"trip_us"`
		Other *Times  `json:"other_us"`
		Name  string  `json:"name"`
	}
	Rounds{{"a": {"rate": 1, "maybe": 0, "trip_us.p99": 7}}, {"a": {"rate": 3}}, {}}.Fill("a", &row)
	if row.Rate != (Spread{Median: 2, Min: 1, Max: 3, N: 2}) || row.Maybe == nil || row.Never != nil ||
		row.Trip.P99.Max != 7 || row.Other != nil {
		t.Errorf("%+v", row)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	err := Table(&b, "T", []string{"a", "bc"}, [][]string{{"long", "1"}})
	if err != nil || b.String() != "\nT\n  a     bc\n  long  1\n" {
		t.Errorf("%q, %v", &b, err)
	}
	b.Reset()
	if err := Table(&b, "T", []string{"a"}, nil); err != nil || b.Len() > 0 {
		t.Errorf("%q, %v", &b, err)
	}
}

func TestRatioAndVerdicts(t *testing.T) {
	rounds := Rounds{{"a": {"rate": 4}, "b": {"rate": 8}}, {"a": {"rate": 6}, "b": {"rate": 8}}}
	if r := rounds.Ratio("a", "rate", "none", "b"); r == nil || r.Reference != "b" || r.Median != 0.625 || r.N != 2 {
		t.Errorf("%+v", r)
	}
	if r := rounds.Ratio("a", "rate", "none"); r != nil {
		t.Errorf("%+v", r)
	}
	least := 5.0
	all := Judge([]Bound{{Thing: "a", Figure: "rate", Unit: "kHz", Least: &least}, {Thing: "b", Figure: "rate"}}, rounds)
	if rows := VerdictRows(all); len(rows) != 2 || len(rows[0]) != len(VerdictHead) || rows[0][1] != "5.00 (4.00–6.00)" {
		t.Errorf("%q", rows)
	}
	if none := Judge(nil, rounds); none == nil || len(none) != 0 {
		t.Errorf("%v is null in JSON", none)
	}
}
