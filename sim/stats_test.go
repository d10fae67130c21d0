package sim_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/sim"
)

// TestHistogram: counts, sums and extremes are exact, quantiles are within a bin.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 127), rapid.Int64Range(0, math.MaxInt64)), 1, 200).
			Draw(t, "values")
		var h sim.Histogram
		for _, v := range values {
			h.Add(v)
		}
		slices.Sort(values)
		if h.Count() != uint64(len(values)) || h.Min() != values[0] || h.Max() != values[len(values)-1] {
			t.Fatal("count or extremes are wrong")
		}
		for _, q := range []float64{0, 0.25, 0.5, 0.9, 1} {
			want := values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
			got := h.Quantile(q)
			if got > want || float64(want-got) > float64(want)/64 || want < 128 && got != want {
				t.Fatalf("quantile %v is %d, want %d", q, got, want)
			}
		}
		var n uint64
		for low, count := range h.Bins() {
			if n += count; low > h.Max() {
				t.Fatalf("bin %d is above the maximum %d", low, h.Max())
			}
		}
		if n != h.Count() {
			t.Fatalf("bins hold %d of %d", n, h.Count())
		}
	})
}

func TestLevel(t *testing.T) {
	var l sim.Level
	l.Set(10, 4)
	l.Add(20, -3)
	if l.Mean(40) != (0*10+4*10+1*20)/40.0 || l.Peak() != 4 || l.Value() != 1 {
		t.Error(l.Mean(40), l.Peak(), l.Value())
	}
	l.Restart(40)
	if l.Add(60, 1); l.Mean(80) != 1.5 || l.Peak() != 2 {
		t.Error(l.Mean(80), l.Peak())
	}
	// Sums go beyond 64 bits.
	l = sim.Level{}
	l.Set(0, 1e9)
	if got := l.Mean(100 * 3600 * sim.Second); math.Abs(got/1e9-1) > 1e-12 {
		t.Error(got)
	}
}

// TestSeries: a curve samples an instant after its events, and stays bounded by sampling less often.
func TestSeries(t *testing.T) {
	s := sim.New(1)
	var count int64
	var tick sim.Func
	tick = func(int64, int64) {
		count++
		s.ScheduleAfter(sim.Nanosecond, tick, 0, 0)
	}
	s.ScheduleAt(sim.Nanosecond, tick, 0, 0)
	few := s.Watch("few", 10*sim.Nanosecond, func() int64 { return count })
	many := s.Watch("many", 3*sim.Nanosecond, func() int64 { return count })
	s.Run(context.Background(), sim.Limits{Until: 55 * sim.Nanosecond})
	if d := cmp.Diff([]int64{10, 20, 30, 40, 50}, few.Values); d != "" {
		t.Error(d)
	}
	s.Run(context.Background(), sim.Limits{Until: 100 * sim.Microsecond})
	if n := len(many.Values); n < 512 || n > 1024 {
		t.Errorf("%d points", n)
	}
	for i, v := range many.Values {
		if sim.Time(v)*sim.Nanosecond != sim.Time(i+1)*many.Every {
			t.Fatalf("point %d at %v is %d", i, sim.Time(i+1)*many.Every, v)
		}
	}
}

func TestTraceIsBoundedJSON(t *testing.T) {
	var out strings.Builder
	trace := sim.NewTrace(&out, 3)
	track := trace.Track(`bus "A"`)
	trace.Span(track, "burst", 1, 465*sim.Nanosecond, 7)
	trace.Instant(track, "retry", 2*sim.Microsecond, 8)
	trace.Count("queue", 3*sim.Microsecond, 5)
	trace.Instant(track, "too much", 4*sim.Microsecond, 9)
	if dropped, err := trace.Close(); dropped != 1 || err != nil {
		t.Fatal(dropped, err)
	}
	var events []struct {
		Ph   string
		Ts   float64
		Dur  float64
		Args map[string]any
	}
	if err := json.Unmarshal([]byte(out.String()), &events); err != nil {
		t.Fatal(err, out.String())
	}
	if len(events) != 5 || events[2].Ts != 0.000001 || events[2].Dur != 0.464999 || events[1].Args["name"] != `bus "A"` {
		t.Error(out.String())
	}
	var none *sim.Trace
	none.Span(none.Track("x"), "y", 0, 1, 2)
	if _, err := none.Close(); err != nil {
		t.Error(err)
	}
}

func TestTimes(t *testing.T) {
	for text, v := range map[string]sim.Time{
		"3 ns":    3 * sim.Nanosecond,
		"40 ps":   40,
		"1.4 µs":  1400 * sim.Nanosecond,
		"2.5 s":   2500 * sim.Millisecond,
		"-465 ns": -465 * sim.Nanosecond,
	} {
		if v.String() != text {
			t.Errorf("%d is written %q, want %q", v, v, text)
		}
	}
	if sim.FromDuration(time.Second) != sim.Second || sim.Period(2e6) != 500*sim.Nanosecond || sim.Second.Micros() != 1e6 {
		t.Error("conversions")
	}
}
