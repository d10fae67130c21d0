package readoutunit

import (
	"errors"
	"testing"
	"time"

	"ringlet/barrier"
)

func TestWaitsAreCountedOnce(t *testing.T) {
	epochs := []struct {
		waited time.Duration
		held   barrier.Straggler
	}{
		{3 * time.Millisecond, barrier.Straggler{Rank: 2, AfterSecondLast: time.Millisecond,
			AfterFirst: 2 * time.Millisecond}},
		{0, barrier.Straggler{Rank: 2, AfterSecondLast: 0, AfterFirst: 5 * time.Microsecond}},
		{time.Millisecond, barrier.Straggler{Rank: 1, AfterSecondLast: 40 * time.Microsecond, AfterFirst: time.Millisecond}},
		// more than a histogram holds
		{2 * time.Hour, barrier.Straggler{Rank: 1, AfterSecondLast: 2 * time.Hour, AfterFirst: 2 * time.Hour}},
		{time.Microsecond, barrier.Straggler{Rank: barrier.Nobody}},
		{time.Microsecond, barrier.Straggler{Rank: 7}}, // no such unit
	}
	first, other := newBarrierStats(0, 3), newBarrierStats(1, 3)
	for _, e := range epochs {
		for _, w := range []*BarrierStats{&first, &other} {
			if err := errors.Join(w.recordWait(e.waited), w.recordHolder(e.held)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if first.BarrierWaits.TotalCount() != 6 || other.BarrierWaits.TotalCount() != 6 ||
		first.TimeInBarrier != other.TimeInBarrier {
		t.Errorf("%d and %d epochs, %v and %v in the barrier", first.BarrierWaits.TotalCount(),
			other.BarrierWaits.TotalCount(), first.TimeInBarrier, other.TimeInBarrier)
	}
	if other.EpochSkews != nil || other.HoldTimesByRU != nil {
		t.Error("unit 1 keeps who held the epochs, too: each would be counted twice")
	}
	kept := first.clone()
	if err := first.recordHolder(epochs[0].held); err != nil {
		t.Fatal(err)
	}
	if kept.EpochSkews.TotalCount() != 4 || kept.HoldTimesByRU[0] != nil || kept.HoldTimesByRU[1].TotalCount() != 2 ||
		kept.HoldTimesByRU[2].TotalCount() != 2 {
		t.Errorf("%d epochs with a holder, by %v", kept.EpochSkews.TotalCount(), kept.HoldTimesByRU)
	}
	if most := kept.HoldTimesByRU[2].Max(); most < 990 || most > 1010 {
		t.Errorf("unit 2 held by %d µs at most", most)
	}
}

func TestWaitsAllocateNothing(t *testing.T) {
	w := newBarrierStats(0, 2)
	held := barrier.Straggler{Rank: 1, AfterSecondLast: time.Millisecond, AfterFirst: time.Millisecond}
	if err := w.recordHolder(held); err != nil { // the first epoch that a unit holds makes its histogram
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = w.recordWait(time.Millisecond), w.recordHolder(held) }); n != 0 {
		t.Errorf("%v allocations per epoch", n)
	}
}
