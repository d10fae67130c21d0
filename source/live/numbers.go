package live

import "time"

// sourceNumbers is one source: how far its numbers have come, which of its fragments are in their place, wait for one,
// or are suspect, and the accounts of all its fragments.
type sourceNumbers struct {
	// immutable
	name    string
	index   int
	ordered bool
	// counterBits is how many bits its counter has; 0: its numbers are taken as they are
	counterBits uint8
	window      *window
	rules       *Rules
	dropped     *[]DroppedFragment // fragments to be given back to the caller

	started           bool          // a fragment has come, even if it was thrown away
	hasAccepted       bool          // a number was accepted
	isOver            bool          // the source gives no more fragments
	stopped           bool          // the caller takes no more fragments, though the source may have some
	stalled           bool          // the caller takes no fragments now: the readout unit has no room
	since             time.Duration // when the first fragment came
	resumed           time.Duration // when the first fragment came, or the last stall ended
	nextNumber        uint64        // after the highest accepted number
	gapEnd            uint64        // the first number after those that it left out last
	emptyRunSteps     int           // how often in a row it left out minEmptyRun numbers or more: it counts in steps
	lateNumber        uint64        // a late number beyond nextNumber; noFragment if there is none
	offered           uint64        // the number offered last
	guessesLap        bool          // the lap of the number offered last follows from the run only
	guessedAt         uint64        // the last number whose lap was guessed; noFragment if there is none
	wrapBits          uint8         // not 0: the numbers look like a counter of this many bits that wrapped around
	beyondWindow      pendingList   // accepted, beyond the window, in order
	suspects          pendingList   // not accepted: in the order in which they came
	unconfirmedCount  int           // unordered: fragments in a row at or beyond seenBelow
	unconfirmedSince  time.Duration // when the first of them came
	lowestUnconfirmed uint64        // the lowest of them
	highestPlaced     uint64        // unordered: the highest number whose fragment is in a place
	fragments         []FragmentRef // by event
	counts            Counts
	missingBefore     uint64 // counts.Missing before the cut that is being finished
	history           History
}

// noFragment marks a slot without a fragment.
const noFragment = NoEvent

// maxSuspects is how many fragments of a source may be suspect: one that is garbage, and one that is right.
const maxSuspects = 2

func (s *sourceNumbers) begin() {
	s.fragments = make([]FragmentRef, s.rules.Window)
	s.beyondWindow, s.suspects = make(pendingList, 0, 2*maxSuspects), make(pendingList, 0, maxSuspects)
	s.lateNumber, s.guessedAt = noFragment, noFragment
	for i := range s.fragments {
		s.fragments[i].Event = noFragment
	}
}

// holds says whether the source has a fragment of an event in its place.
func (s *sourceNumbers) holds(e uint64) bool {
	w := s.window
	return e >= w.low && !w.isBeyond(e) && s.fragments[e&w.mask].Event == e
}

// checkNumber says what is wrong with a number whatever numbers follow, and with which number it disagrees.
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

// countThrown counts a fragment that was thrown away.
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

// noteLate notes how far a source has come whose fragment is late: as far as its numbers follow one another, or as two
// of them are near. A single number far ahead does not count.
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

// faultError returns the error for a fragment's number.
func (s *sourceNumbers) faultError(event uint64, fault Fault, at uint64) error {
	e := &FragmentError{
		Source:    s.name,
		Event:     event,
		Fault:     fault,
		Reference: at,
	}
	switch {
	case fault == FaultGap && event == s.guessedAt:
		e.GuessedBits = s.counterBits
	case s.wraps():
	case fault == FaultBackwards || fault == FaultLate:
		e.CounterBits = s.wrapBits
	}
	return e
}

// place puts a fragment, which is counted as waiting, into its place.
func (s *sourceNumbers) place(p FragmentRef) {
	s.fragments[p.Event&s.window.mask] = p
	s.window.put(p)
}

// leavePlace gives back the fragment in the place of an event: as used (why is 0), or with the fault.
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

// drop gives back a fragment that was counted as waiting and is not used.
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

// dropJump gives back a fragment whose number was not confirmed.
func (s *sourceNumbers) dropJump(p pendingFragment) { s.drop(p.FragmentRef, FaultJump, s.nextNumber) }

// addSuspect keeps a fragment as suspect. It drops the oldest suspect if there are too many.
func (s *sourceNumbers) addSuspect(p pendingFragment) {
	if len(s.suspects) == maxSuspects {
		s.dropJump(s.suspects.remove(0))
	}
	s.suspects = append(s.suspects, p)
	s.counts.WaitingFragments++
}

// dropSuspects throws away the suspects from a number on: the fragments after them had lower numbers.
func (s *sourceNumbers) dropSuspects(from uint64) {
	for i := 0; i < len(s.suspects); {
		if s.suspects[i].Event < from {
			i++
		} else {
			s.dropJump(s.suspects.remove(i))
		}
	}
}

// acceptSuspects accepts suspects up to a number: the one with that number, and each that is near the number before
// it. It drops the others up to that number.
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

// acceptNear accepts the suspects that are near a number, and throws the others away.
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

// acceptLower accepts the lower of two numbers that are near each other, and keeps the higher one as suspect.
func (s *sourceNumbers) acceptLower(p pendingFragment) {
	if lower := min(p.Event, s.suspects.lowestNear(p.Event, s.rules.MaxLeap)); lower < p.Event {
		s.acceptNear(lower, 0)
		s.addSuspect(p)
		return
	}
	s.acceptNew(p)
}

// noteAccepted notes that a number is accepted.
func (s *sourceNumbers) noteAccepted(e uint64) {
	if s.wraps() {
		s.noteLap(e)
	}
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

// acceptNew accepts a fragment that is not yet counted as waiting.
func (s *sourceNumbers) acceptNew(p pendingFragment) {
	s.counts.WaitingFragments++
	s.accept(p)
}

// accept accepts a fragment that is counted as waiting.
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

// acceptPlaced accepts a number whose fragment is in its place already.
func (s *sourceNumbers) acceptPlaced(e uint64, arrived time.Duration) {
	s.noteAccepted(e)
	s.window.extendSeen(e+1, arrived)
}

// acceptHighest accepts the highest number in a place, if it is at or beyond seenBelow and near it.
func (s *sourceNumbers) acceptHighest(now time.Duration) {
	if s.highestPlaced >= s.window.seenBelow && s.highestPlaced-s.window.seenBelow <= s.rules.MaxLeap {
		s.acceptPlaced(s.highestPlaced, now)
	}
}

// addUnconfirmed notes a fragment in its place whose event does not count as existing yet.
func (s *sourceNumbers) addUnconfirmed(p pendingFragment) {
	if s.unconfirmedCount++; s.unconfirmedCount == 1 {
		s.unconfirmedSince, s.lowestUnconfirmed = p.arrived, p.Event
	}
	s.highestPlaced = max(s.highestPlaced, p.Event)
}

// hasPersisted says that a source has gone on beyond seenBelow for FragmentTimeout while no other source has followed.
func (s *sourceNumbers) hasPersisted(now time.Duration) bool {
	return s.unconfirmedCount > maxSuspects && now >= s.unconfirmedSince+s.rules.FragmentTimeout
}

// resolveSuspects decides the suspects when no source gives more fragments. A suspect near the last number of its
// source is accepted, and so is the only number that a source gave.
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
		if least > 0 { // it came after a higher one, which was wrong then
			s.dropSuspects(0)
		}
	}
}

// placePending puts fragments that were too far ahead into their places, and drops those that are too late now.
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
			i = 0 // noteLate may have changed the suspects
		case !s.ordered && !w.isBeyond(d.Event):
			s.suspects.remove(i)
			s.place(d.FragmentRef)
			s.addUnconfirmed(d)
		default:
			i++
		}
	}
}

// giveUpTime is when an event is decided without a source that has no fragment of it; if the source has a suspect one,
// when that is accepted.
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
