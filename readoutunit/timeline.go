package readoutunit

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/barrier"
)

// A TimelineStep is one burst of a unit in time, or a phase in which it had nothing to send.
type TimelineStep struct {
	Phase uint64 // number of the phase, which is the barrier's epoch; 0 where there are no phases
	BU    int    // Dummy: nothing to send
	MEP   uint64 // the first
	MEPs  int    // whose parts went together

	// µs since the Unix epoch by this host's clock; 0: not yet.
	BeginMicros    int64 // its write was given to the network, or the phase began with nothing to send
	OutcomeMicros  int64 // its write had its outcome; of a dummy, as Begin
	ReleasedMicros int64 // its phase was left; without phases, as Sent
}

// timeline keeps the last steps of a unit. Without room it keeps none.
type timeline struct {
	kept []TimelineStep // step n at n modulo its length; immutable length
	next uint64         // number of the step to come
}

func newTimeline(steps int) timeline { return timeline{kept: make([]TimelineStep, max(0, steps))} }

// recordBegin notes that a burst was given to the network.
func (l *timeline) recordBegin(now time.Time, phase uint64, bu int, mep uint64, meps int) {
	if len(l.kept) == 0 {
		return
	}
	s := TimelineStep{
		Phase:       phase,
		BU:          bu,
		MEP:         mep,
		MEPs:        meps,
		BeginMicros: now.UnixMicro(),
	}
	if bu == Dummy {
		s.OutcomeMicros = s.BeginMicros
	}
	l.kept[l.next%uint64(len(l.kept))] = s
	l.next++
}

// eachNewestFirst tells the steps from the newest to the oldest that is kept, until more is false.
func (l *timeline) eachNewestFirst(more func(*TimelineStep) bool) {
	size := uint64(len(l.kept))
	for n := l.next; n > 0 && l.next-n < size && more(&l.kept[(n-1)%size]); n-- {
	}
}

// recordSent notes the outcome of a burst, known by its first MEP.
func (l *timeline) recordSent(at time.Time, bu int, mep uint64) {
	now := at.UnixMicro()
	l.eachNewestFirst(func(s *TimelineStep) bool {
		if s.BU != bu || s.MEP != mep || s.OutcomeMicros != 0 {
			return true
		}
		s.OutcomeMicros = now
		if s.ReleasedMicros == 0 {
			s.ReleasedMicros = now
		}
		return false
	})
}

// recordReleased notes that a phase was left.
func (l *timeline) recordReleased(at time.Time, phase uint64) {
	now := at.UnixMicro()
	l.eachNewestFirst(func(s *TimelineStep) bool {
		if s.Phase == phase {
			s.ReleasedMicros = now
		}
		return s.Phase == phase
	})
}

// steps returns a copy of what is kept, oldest first.
func (l *timeline) steps() []TimelineStep {
	size := uint64(len(l.kept))
	kept := make([]TimelineStep, 0, min(size, l.next))
	for n := l.next - min(size, l.next); n < l.next; n++ {
		kept = append(kept, l.kept[n%size])
	}
	return kept
}

// maxMicros is the largest time a histogram holds: one hour.
const maxMicros = int64(time.Hour / time.Microsecond)

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
