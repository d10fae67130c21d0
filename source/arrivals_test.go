package source

import (
	"testing"
	"time"

	"ringlet/source/live"
)

// TestArrivals: sizes and intervals are counted, also the largest, and a copy does not follow.
func TestArrivals(t *testing.T) {
	a := newArrivals()
	of := func(sizes ...int) (out []live.Fragment) {
		for _, n := range sizes {
			out = append(out, live.Fragment{Data: make([]byte, n)})
		}
		return out
	}
	a.record(of(0, 100, 65535), -1)
	a.record(of(100), 3*time.Millisecond)
	a.record(of(100, 100), 8*time.Millisecond)
	a.record(of(100), 48*time.Hour)
	a.record(nil, time.Second)
	c := a.clone()
	a.record(of(7), 0)
	if n := c.sizes.TotalCount(); n != 7 || c.sizes.Min() != 0 || !c.sizes.ValuesAreEquivalent(c.sizes.Max(), 65535) {
		t.Errorf("%d sizes from %d to %d", n, c.sizes.Min(), c.sizes.Max())
	}
	if n := c.intervals.TotalCount(); n != 4 || !c.intervals.ValuesAreEquivalent(c.intervals.ValueAtQuantile(50), 4000) {
		t.Errorf("%d intervals, p50 %d", n, c.intervals.ValueAtQuantile(50))
	}
	if a.sizes.TotalCount() != 8 {
		t.Error("the copy and its origin are one")
	}
}
