package readoutunit

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/barrier"
)

// A TimelineStep is one burst of a unit in time, or a phase in which the unit had nothing to send.
type TimelineStep struct {
	Phase uint64 // number of the phase, which is the barrier's epoch; 0 in a discipline without phases
	BU    int    // Dummy: nothing to send
	MEP   uint64 // the first MEP of the burst
	MEPs  int    // how many parts the burst has

	// µs since the Unix epoch by this host's clock; 0: has not happened yet.
	BeginMicros    int64 // the burst was passed to the network, or the phase with nothing to send began
	OutcomeMicros  int64 // the write had its outcome; of a dummy, as BeginMicros
	ReleasedMicros int64 // the unit left the phase; without phases, as OutcomeMicros
}

// timeline keeps the last steps of a unit. With length 0 it keeps none.
type timeline struct {
	kept []TimelineStep // step n at n modulo the length, which never changes
	next uint64         // number of the next step
}

func newTimeline(steps int) timeline { return timeline{kept: make([]TimelineStep, max(0, steps))} }

// recordBegin records that a burst was passed to the network.
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

// eachNewestFirst calls more with the kept steps, newest first, until it returns false.
func (l *timeline) eachNewestFirst(more func(*TimelineStep) bool) {
	size := uint64(len(l.kept))
	for n := l.next; n > 0 && l.next-n < size && more(&l.kept[(n-1)%size]); n-- {
	}
}

// recordSent records the outcome of a burst, named by its first MEP.
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

// recordReleased records that the unit left a phase.
func (l *timeline) recordReleased(at time.Time, phase uint64) {
	now := at.UnixMicro()
	l.eachNewestFirst(func(s *TimelineStep) bool {
		if s.Phase == phase {
			s.ReleasedMicros = now
		}
		return s.Phase == phase
	})
}

// steps returns a copy of the kept steps, oldest first.
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

// BarrierStats is what a unit has measured at its barriers.
type BarrierStats struct {
	TimeInBarrier time.Duration  `count:"barrier_us" help:"time in the barrier"`
	BarrierWaits  *hdr.Histogram // time in the barrier per epoch, µs

	// Every unit leaves an epoch knowing its straggler. Only the unit with index 0 records it, so that each epoch counts
	// once.
	EpochSkews *hdr.Histogram // µs per epoch from the first unit to enter to the last
	// by readout unit: µs by which the straggler was later than the last but one, per epoch; nil: the unit never was the
	// straggler
	HoldTimesByRU []*hdr.Histogram
}

func newBarrierStats(ru, rus int) BarrierStats {
	w := BarrierStats{BarrierWaits: newTimeHistogram()}
	if ru == 0 {
		w.EpochSkews, w.HoldTimesByRU = newTimeHistogram(), make([]*hdr.Histogram, rus)
	}
	return w
}

// newTimeHistogram is a histogram of times in µs, to 1 %. To 0.1 % it would take eight times the memory, and a unit may
// have hundreds of them, which each report copies.
func newTimeHistogram() *hdr.Histogram { return hdr.New(1, maxMicros, 2) }

// recordWait records a time in the barrier.
func (w *BarrierStats) recordWait(waited time.Duration) error {
	w.TimeInBarrier += waited
	return w.BarrierWaits.RecordValue(min(maxMicros, max(1, waited.Microseconds())))
}

// recordHolder records the straggler of an epoch that was left. An epoch that Enter leaves open has none yet; Finish
// returns it later.
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

// clone returns a copy for a report. The unit does not write to the copy.
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
