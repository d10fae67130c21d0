package readoutunit

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/barrier"
)

// BarrierStats is what a unit has learnt in its barriers.
type BarrierStats struct {
	InBarrier time.Duration  `count:"barrier_us" help:"time in the barrier"`
	Barriers  *hdr.Histogram // time in the barrier per epoch, µs

	// Every unit leaves an epoch knowing who held it. The unit with index 0 alone keeps that, so that an epoch is counted
	// once.
	Skews *hdr.Histogram // from the first to enter to the last, µs per epoch
	// by readout unit: how much later than the last but one it was, µs per epoch it held; nil: it held none
	Holders []*hdr.Histogram
}

func newBarrierStats(ru, rus int) BarrierStats {
	w := BarrierStats{Barriers: newTimeHistogram()}
	if ru == 0 {
		w.Skews, w.Holders = newTimeHistogram(), make([]*hdr.Histogram, rus)
	}
	return w
}

// newTimeHistogram is a histogram of times in µs, to 1 %. To 0.1 % it would take eight times as much memory, and there
// may be hundreds, which each report copies.
func newTimeHistogram() *hdr.Histogram { return hdr.New(1, maxMicros, 2) }

// recordWait takes a time in the barrier.
func (w *BarrierStats) recordWait(waited time.Duration) error {
	w.InBarrier += waited
	return w.Barriers.RecordValue(min(maxMicros, max(1, waited.Microseconds())))
}

// recordHolder takes an epoch that was left. Nobody holds those that Enter leaves open; Finish reports them.
func (w *BarrierStats) recordHolder(held barrier.Straggler) error {
	if held.Rank < 0 || held.Rank >= len(w.Holders) {
		return nil
	}
	if w.Holders[held.Rank] == nil {
		w.Holders[held.Rank] = newTimeHistogram()
	}
	if err := w.Holders[held.Rank].RecordValue(min(maxMicros, held.Behind.Microseconds())); err != nil {
		return err
	}
	return w.Skews.RecordValue(min(maxMicros, held.Span.Microseconds()))
}

// clone is a copy that no unit writes to.
func (w *BarrierStats) clone() BarrierStats {
	c := BarrierStats{InBarrier: w.InBarrier, Barriers: w.Barriers.Clone()}
	if w.Skews != nil {
		c.Skews, c.Holders = w.Skews.Clone(), make([]*hdr.Histogram, len(w.Holders))
	}
	for ru, h := range w.Holders {
		if h != nil {
			c.Holders[ru] = h.Clone()
		}
	}
	return c
}
