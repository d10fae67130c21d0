package live

import "time"

// sourceNumbers is one source: where its numbers have come to, what of it is in its place, waits for one, or is
// suspect, and what has become of each fragment.
type sourceNumbers struct {
	// immutable
	name    string
	index   int
	ordered bool
	window  *window
	rules   *Rules
	dropped *[]DroppedFragment // what the caller is given back

	started           bool          // a fragment came, whatever became of it
	hasAccepted       bool          // a number was accepted
	isOver            bool          // nothing more will come
	stopped           bool          // nothing more is taken from it, though it may have more
	stalled           bool          // nothing is taken from it: the readout unit has no room
	since             time.Duration // when it began
	resumed           time.Duration // when it began, or was stalled last
	nextNumber        uint64        // behind the highest number that is accepted
	gapEnd            uint64        // the last number behind those that it left out
	emptyRunSteps     int           // times in a row that it left out minEmptyRun numbers or more: it counts in steps
	lateNumber        uint64        // a number beyond next that came too late; none
	wrapBits          uint8         // its numbers look like a counter of so many bits that began anew; 0
	beyondWindow      pendingList   // accepted, and beyond the window: in order
	suspects          pendingList   // not accepted: in the order in which they came
	unconfirmedCount  int           // unordered: fragments in a row beyond what is known
	unconfirmedSince  time.Duration // when the first of them came
	lowestUnconfirmed uint64        // the lowest of them
	highestPlaced     uint64        // unordered: the highest number that is in a place
	fragments         []FragmentRef // by event
	counts            Counts
}

// noFragment marks a slot without a fragment.
const noFragment = NoEvent

// maxSuspects is how many fragments of a source may be suspect: one that is garbage, and one that is not.
const maxSuspects = 2

// begin prepares for fragments.
func (s *sourceNumbers) begin() {
	s.fragments = make([]FragmentRef, s.rules.Window)
	s.beyondWindow, s.suspects = make(pendingList, 0, 2*maxSuspects), make(pendingList, 0, maxSuspects)
	s.lateNumber = noFragment
	for i := range s.fragments {
		s.fragments[i].Event = noFragment
	}
}

// holds tells whether the source has a fragment of an event in its place.
func (s *sourceNumbers) holds(e uint64) bool {
	w := s.window
	return e >= w.low && !w.isBeyond(e) && s.fragments[e&w.mask].Event == e
}

// checkNumber says what is wrong with a number, whatever comes before and after it.
func (s *sourceNumbers) checkNumber(e uint64) (Fault, uint64) {
	last := s.nextNumber - 1
	switch {
	case e >= NoEvent:
		return FaultJump, s.nextNumber
	case s.holds(e), s.beyondWindow.includes(e), s.suspects.includes(e), s.hasAccepted && s.ordered && e == last:
		return FaultRepeat, 0
	case s.hasAccepted && s.ordered && e < last:
		return FaultBackwards, last
	case e < s.window.low:
		return FaultLate, s.window.low
	case e < s.window.decidedBelow:
		return FaultLate, s.window.decidedBelow
	}
	return 0, 0
}

func (s *sourceNumbers) throwAway(p FragmentRef, fault Fault, at uint64) (OfferResult, error) {
	s.countThrown(fault)
	switch fault {
	case FaultLate:
		s.noteLate(p.Event)
	case FaultBackwards:
		if bits := counterBits(at, p.Event); bits > 0 {
			s.wrapBits = bits
		}
	}
	return OfferThrown, s.faultError(p.Event, fault, at)
}

// countThrown counts a fragment that is not used.
func (s *sourceNumbers) countThrown(why Fault) {
	switch why {
	case FaultRepeat:
		s.counts.Repeats++
	case FaultBackwards:
		s.counts.Backwards++
	case FaultLate:
		s.counts.Late++
	default:
		s.counts.Jumps++
	}
}

// noteLate notes how far a source has come that is late: as far as its numbers follow one another, or two of them are
// near. A single one far ahead does not count.
func (s *sourceNumbers) noteLate(e uint64) {
	switch {
	case !s.ordered:
		if bits := counterBits(s.nextNumber-1, e); s.hasAccepted && bits > 0 {
			s.wrapBits = bits
		}
	case s.hasAccepted && e == s.nextNumber || !s.hasAccepted && e == 0:
		s.noteAccepted(e)
		s.dropSuspects(0)
	case s.lateNumber < e && e-s.lateNumber <= s.rules.MaxLeap:
		s.noteAccepted(e)
	default:
		s.lateNumber = e
	}
}

// faultError says what is wrong with the number of a fragment of this source.
func (s *sourceNumbers) faultError(event uint64, fault Fault, at uint64) error {
	e := &FragmentError{
		Source:    s.name,
		Event:     event,
		Fault:     fault,
		Reference: at,
	}
	if fault == FaultBackwards || fault == FaultLate {
		e.CounterBits = s.wrapBits
	}
	return e
}

// place puts a fragment that is counted as held into its place.
func (s *sourceNumbers) place(p FragmentRef) {
	s.fragments[p.Event&s.window.mask] = p
	s.window.put(p)
}

// leavePlace gives back the fragment in the place of an event: used, or why not.
func (s *sourceNumbers) leavePlace(e uint64, why Fault, at uint64) {
	p := &s.fragments[e&s.window.mask]
	s.window.remove(*p)
	if why == 0 {
		s.counts.Used++
		s.counts.Missing--
		s.counts.WaitingFragments--
		*s.dropped = append(*s.dropped, DroppedFragment{Source: s.index, FragmentRef: *p})
	} else {
		s.drop(*p, why, at)
	}
	p.Event = noFragment
}

// drop gives a fragment back that was held and is not used.
func (s *sourceNumbers) drop(p FragmentRef, why Fault, at uint64) {
	s.countThrown(why)
	s.counts.WaitingFragments--
	*s.dropped = append(*s.dropped, DroppedFragment{
		Source:      s.index,
		FragmentRef: p,
		Fault:       why,
		Reference:   at,
	})
}

// dropJump gives a fragment back whose number nothing speaks for.
func (s *sourceNumbers) dropJump(p pendingFragment) { s.drop(p.FragmentRef, FaultJump, s.nextNumber) }

// addSuspect keeps a fragment that is not accepted. The oldest one has had its time.
func (s *sourceNumbers) addSuspect(p pendingFragment) {
	if len(s.suspects) == maxSuspects {
		s.dropJump(s.suspects.remove(0))
	}
	s.suspects = append(s.suspects, p)
	s.counts.WaitingFragments++
}

// dropSuspects throws away the suspects from a number on: what came behind them is below.
func (s *sourceNumbers) dropSuspects(from uint64) {
	for i := 0; i < len(s.suspects); {
		if s.suspects[i].Event < from {
			i++
		} else {
			s.dropJump(s.suspects.remove(i))
		}
	}
}

// acceptSuspects accepts the suspects up to a number: each that is not too far from the one before it, or is that
// number.
func (s *sourceNumbers) acceptSuspects(upTo uint64) {
	for i := s.suspects.lowest(upTo); i >= 0; i = s.suspects.lowest(upTo) {
		d := s.suspects.remove(i)
		behind := upTo - d.Event
		if s.hasAccepted {
			behind = d.Event - min(d.Event, s.nextNumber)
		}
		if d.Event == upTo || behind <= s.rules.MaxLeap {
			s.accept(d)
		} else {
			s.dropJump(d)
		}
	}
}

// acceptNear accepts the suspects as far as they are near a number, and throws the rest away.
func (s *sourceNumbers) acceptNear(about, within uint64) {
	for len(s.suspects) > 0 {
		if d := s.suspects.remove(0); distance(d.Event, about) <= within {
			s.accept(d)
		} else {
			s.dropJump(d)
		}
	}
}

// acceptFar accepts a number beyond the window, of a source without an order.
func (s *sourceNumbers) acceptFar(p pendingFragment) {
	s.acceptNear(p.Event, s.window.mask)
	s.acceptNew(p)
}

// acceptLower accepts the lower one of two numbers that are near.
func (s *sourceNumbers) acceptLower(p pendingFragment) {
	if lower := min(p.Event, s.suspects.lowestNear(p.Event, s.rules.MaxLeap)); lower < p.Event {
		s.acceptNear(lower, 0)
		s.addSuspect(p)
		return
	}
	s.acceptNew(p)
}

// noteAccepted notes a number that is accepted.
func (s *sourceNumbers) noteAccepted(e uint64) {
	switch {
	case !s.hasAccepted:
		s.counts.FirstEvent = e
	case e >= s.nextNumber+minEmptyRun:
		s.emptyRunSteps++
	case e >= s.nextNumber:
		s.emptyRunSteps = 0
	}
	s.hasAccepted, s.nextNumber, s.lateNumber = true, max(s.nextNumber, e+1), noFragment
	s.counts.FirstEvent, s.counts.NewestEvent = min(s.counts.FirstEvent, e), e
}

// acceptNew accepts a fragment that is not counted yet.
func (s *sourceNumbers) acceptNew(p pendingFragment) {
	s.counts.WaitingFragments++
	s.accept(p)
}

// accept accepts a fragment that is counted as held.
func (s *sourceNumbers) accept(p pendingFragment) {
	e := p.Event
	if s.hasAccepted && s.ordered && e > s.nextNumber {
		s.counts.Gaps++
		s.gapEnd = e
	}
	s.noteAccepted(e)
	if s.window.isBeyond(e) {
		s.beyondWindow.insert(p)
		return
	}
	s.place(p.FragmentRef)
	s.window.extendSeen(e+1, p.arrived)
}

// acceptPlaced accepts a number whose fragment is in its place.
func (s *sourceNumbers) acceptPlaced(e uint64, arrived time.Duration) {
	s.noteAccepted(e)
	s.window.extendSeen(e+1, arrived)
}

// acceptHighest accepts the highest number in a place, if it is not known to be, and not too far.
func (s *sourceNumbers) acceptHighest(now time.Duration) {
	if s.highestPlaced >= s.window.seenBelow && s.highestPlaced-s.window.seenBelow <= s.rules.MaxLeap {
		s.acceptPlaced(s.highestPlaced, now)
	}
}

// addUnconfirmed notes a fragment that is in its place, and whose event is not known to be.
func (s *sourceNumbers) addUnconfirmed(p pendingFragment) {
	if s.unconfirmedCount++; s.unconfirmedCount == 1 {
		s.unconfirmedSince, s.lowestUnconfirmed = p.arrived, p.Event
	}
	s.highestPlaced = max(s.highestPlaced, p.Event)
}

// hasPersisted tells that a source has gone on beyond what is known for as long as an event waits, and nobody followed.
func (s *sourceNumbers) hasPersisted(now time.Duration) bool {
	return s.unconfirmedCount > maxSuspects && now >= s.unconfirmedSince+s.rules.FragmentTimeout
}

// resolveSuspects decides on the suspects when nothing more is taken from any source. What is not far from where the
// source has come to is kept; and the only number that it gave.
func (s *sourceNumbers) resolveSuspects(now time.Duration) {
	if !s.ordered && s.holds(s.highestPlaced) {
		s.acceptHighest(now)
	}
	for len(s.suspects) > 0 {
		least := s.suspects.lowest(NoEvent)
		d := s.suspects.remove(least)
		if s.hasAccepted && distance(d.Event, s.nextNumber) > s.rules.MaxLeap {
			s.dropJump(d)
			continue
		}
		s.accept(d)
		if least > 0 { // it came behind a higher one, which was wrong then
			s.dropSuspects(0)
		}
	}
}

// placePending puts fragments into their places that were too far ahead, and lets go of those for which it is too late.
func (s *sourceNumbers) placePending(now time.Duration) {
	w := s.window
	for len(s.beyondWindow) > 0 && !w.isBeyond(s.beyondWindow[0].Event) {
		if p := s.beyondWindow.remove(0); p.Event < w.low {
			s.drop(p.FragmentRef, FaultLate, w.low)
		} else {
			s.place(p.FragmentRef)
			w.extendSeen(p.Event+1, now)
		}
	}
	for i := 0; i < len(s.suspects); {
		switch d := s.suspects[i]; {
		case d.Event < w.low:
			s.suspects.remove(i)
			s.drop(d.FragmentRef, FaultLate, w.low)
			s.noteLate(d.Event)
			i = 0 // what is suspect may have changed
		case !s.ordered && !w.isBeyond(d.Event):
			s.suspects.remove(i)
			s.place(d.FragmentRef)
			s.addUnconfirmed(d)
		default:
			i++
		}
	}
}

// giveUpTime is when a source is given up that has no fragment of an event; or, if it has a suspect one, when that is
// accepted.
func (s *sourceNumbers) giveUpTime(e uint64, first time.Duration) time.Duration {
	wait := s.rules.FragmentTimeout
	switch suspected := s.suspects.includes(e); {
	case s.isOver, (s.ordered || s.emptyRunSteps > maxSuspects) && s.hasAccepted && s.nextNumber > e,
		s.stopped && suspected:
		return alreadyDue
	case suspected:
	case s.rules.OnMissing == WaitForMissing, s.stopped, s.stalled && len(s.beyondWindow) == 0 && s.nextNumber <= e &&
		(s.ordered || s.highestPlaced <= e):
		return Never
	case !s.started:
		wait = max(wait, s.rules.FirstFragmentTimeout)
	}
	return max(first, s.resumed) + wait
}
