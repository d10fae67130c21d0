package readoutunit

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/barrier"
)

// BarrierStats is what a unit has learnt in its barriers.
type BarrierStats struct {
	TimeInBarrier time.Duration  `count:"barrier_us" help:"time in the barrier"`
	BarrierWaits  *hdr.Histogram // time in the barrier per epoch, µs

	// Every unit leaves an epoch knowing who held it. The unit with index 0 alone keeps that, so that an epoch is counted
	// once.
	EpochSkews *hdr.Histogram // from the first to enter to the last, µs per epoch
	// by readout unit: how much later than the last but one it was, µs per epoch it held; nil: it held none
	HoldTimesByRU []*hdr.Histogram
}

func newBarrierStats(ru, rus int) BarrierStats {
	w := BarrierStats{BarrierWaits: newTimeHistogram()}
	if ru == 0 {
		w.EpochSkews, w.HoldTimesByRU = newTimeHistogram(), make([]*hdr.Histogram, rus)
	}
	return w
}

// newTimeHistogram is a histogram of times in µs, to 1 %. To 0.1 % it would take eight times as much memory, and there
// may be hundreds, which each report copies.
func newTimeHistogram() *hdr.Histogram { return hdr.New(1, maxMicros, 2) }

// recordWait takes a time in the barrier.
func (w *BarrierStats) recordWait(waited time.Duration) error {
	w.TimeInBarrier += waited
	return w.BarrierWaits.RecordValue(min(maxMicros, max(1, waited.Microseconds())))
}

// recordHolder takes an epoch that was left. Nobody holds those that Enter leaves open; Finish reports them.
func (w *BarrierStats) recordHolder(held barrier.Straggler) error {
	if held.Rank < 0 || held.Rank >= len(w.HoldTimesByRU) {
		return nil
	}
	if w.HoldTimesByRU[held.Rank] == nil {
		w.HoldTimesByRU[held.Rank] = newTimeHistogram()
	}
	if err := w.HoldTimesByRU[held.Rank].RecordValue(min(maxMicros, held.AfterSecondLast.Microseconds())); err != nil {
		return err
	}
	return w.EpochSkews.RecordValue(min(maxMicros, held.AfterFirst.Microseconds()))
}

// clone is a copy that no unit writes to.
func (w *BarrierStats) clone() BarrierStats {
	c := BarrierStats{TimeInBarrier: w.TimeInBarrier, BarrierWaits: w.BarrierWaits.Clone()}
	if w.EpochSkews != nil {
		c.EpochSkews, c.HoldTimesByRU = w.EpochSkews.Clone(), make([]*hdr.Histogram, len(w.HoldTimesByRU))
	}
	for ru, h := range w.HoldTimesByRU {
		if h != nil {
			c.HoldTimesByRU[ru] = h.Clone()
		}
	}
	return c
}
