package readoutunit

import "time"

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

// timeline keeps the last steps of a unit. Without room it keeps none, and looks at no clock.
type timeline struct {
	kept []TimelineStep // step n at n modulo its length; immutable length
	next uint64         // number of the step to come
}

func newTimeline(steps int) timeline { return timeline{kept: make([]TimelineStep, max(0, steps))} }

// recordBegin notes that a burst was given to the network.
func (l *timeline) recordBegin(phase uint64, bu int, mep uint64, meps int) {
	if len(l.kept) == 0 {
		return
	}
	s := TimelineStep{
		Phase:       phase,
		BU:          bu,
		MEP:         mep,
		MEPs:        meps,
		BeginMicros: time.Now().UnixMicro(),
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
func (l *timeline) recordSent(bu int, mep uint64) {
	if len(l.kept) == 0 {
		return
	}
	now := time.Now().UnixMicro()
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
func (l *timeline) recordReleased(phase uint64) {
	if len(l.kept) == 0 {
		return
	}
	now := time.Now().UnixMicro()
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
