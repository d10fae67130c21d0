package readoutunit

import "time"

// A Step is one burst of a unit in time, or a phase in which it had nothing to send.
type Step struct {
	Phase uint64 // number of the phase, which is the barrier's epoch; 0 where there are no phases
	BU    int    // Dummy: nothing to send
	MEP   uint64 // the first
	MEPs  int    // whose parts went together

	// µs since the Unix epoch by this host's clock; 0: not yet.
	Begin    int64 // its write was given to the network, or the phase began with nothing to send
	Sent     int64 // its write had its outcome; of a dummy, as Begin
	Released int64 // its phase was left; without phases, as Sent
}

// timeline keeps the last steps of a unit. Without room it keeps none, and looks at no clock.
type timeline struct {
	kept []Step // step n at n modulo its length; immutable length
	next uint64 // number of the step to come
}

func newTimeline(steps int) timeline { return timeline{kept: make([]Step, max(0, steps))} }

// recordBegin notes that a burst was given to the network.
func (l *timeline) recordBegin(phase uint64, bu int, mep uint64, meps int) {
	if len(l.kept) == 0 {
		return
	}
	s := Step{
		Phase: phase,
		BU:    bu,
		MEP:   mep,
		MEPs:  meps,
		Begin: time.Now().UnixMicro(),
	}
	if bu == Dummy {
		s.Sent = s.Begin
	}
	l.kept[l.next%uint64(len(l.kept))] = s
	l.next++
}

// eachNewestFirst tells the steps from the newest to the oldest that is kept, until more is false.
func (l *timeline) eachNewestFirst(more func(*Step) bool) {
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
	l.eachNewestFirst(func(s *Step) bool {
		if s.BU != bu || s.MEP != mep || s.Sent != 0 {
			return true
		}
		s.Sent = now
		if s.Released == 0 {
			s.Released = now
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
	l.eachNewestFirst(func(s *Step) bool {
		if s.Phase == phase {
			s.Released = now
		}
		return s.Phase == phase
	})
}

// steps returns a copy of what is kept, oldest first.
func (l *timeline) steps() []Step {
	size := uint64(len(l.kept))
	kept := make([]Step, 0, min(size, l.next))
	for n := l.next - min(size, l.next); n < l.next; n++ {
		kept = append(kept, l.kept[n%size])
	}
	return kept
}
