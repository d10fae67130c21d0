package live

import "time"

// numbering decides which numbers of the sources of a readout unit are accepted.
//
// A number that follows the one before it is accepted. Any other may be garbage, from a faulty front-end or from a
// host that sends datagrams to the port. Such a number is suspect, and changes neither which events exist nor how far
// its source has come.
//
// A source that keeps the order confirms its own numbers. If the number after a suspect is near it (Rules.MaxLeap),
// the suspect is accepted; if the source goes on where it was, the suspect is thrown away. Two fragments may be
// suspect at a time; the third decides between them. A suspect is also accepted when its event is decided because
// other sources have the event.
//
// A source without an order is one to which any host may have sent. It confirms its own numbers only while no other
// source could, and only as far as Rules.MaxLeap; otherwise another source must have the number, or have come further.
// Meanwhile a fragment within the window is in its place, but its event does not count as existing.
type numbering struct {
	window  window
	sources []sourceNumbers
	dropped []DroppedFragment
}

// offerOrdered offers a fragment of a source that keeps the order; checkNumber found no fault in its number.
func (n *numbering) offerOrdered(s *sourceNumbers, p pendingFragment) OfferResult {
	e := p.Event
	if near := s.suspects.nearestBelow(e, s.rules.MaxLeap); near != noFragment {
		s.acceptSuspects(near)
		s.dropSuspects(e)
	}
	switch {
	case s.hasAccepted && e == s.nextNumber, !s.hasAccepted && e == n.window.low && len(s.suspects) == 0:
		if n.window.isBeyond(e) {
			return OfferAhead
		}
		s.dropSuspects(e)
	case len(s.beyondWindow) >= maxSuspects:
		return OfferAhead
	case n.isConfirmed(s, e):
		s.acceptSuspects(e)
	default:
		s.addSuspect(p)
		return OfferKept
	}
	s.acceptNew(p)
	return OfferKept
}

// offerUnordered offers a fragment of a source that keeps no order; its event is not decided.
func (n *numbering) offerUnordered(s *sourceNumbers, p pendingFragment) OfferResult {
	w, e := &n.window, p.Event
	if s.unconfirmedCount > 0 && s.highestPlaced < w.seenBelow { // other sources have come further
		s.unconfirmedCount = 0
		s.noteAccepted(s.highestPlaced)
	}
	if w.isBeyond(e) {
		return n.offerFar(s, p)
	}
	s.counts.WaitingFragments++
	s.place(p.FragmentRef)
	if e < w.seenBelow || s.hasAccepted && e == w.seenBelow {
		s.unconfirmedCount, s.highestPlaced = 0, max(s.highestPlaced, e)
		s.dropSuspects(0)
		s.acceptPlaced(e, p.arrived)
		return OfferKept
	}
	s.addUnconfirmed(p)
	switch lower := min(s.lowestUnconfirmed, e); {
	case n.isConfirmed(s, e), s.hasPersisted(p.arrived) && e-w.seenBelow <= s.rules.MaxLeap:
		s.unconfirmedCount = 0
		s.acceptPlaced(e, p.arrived)
	case s.unconfirmedCount >= maxSuspects && n.isOnly(s) && s.highestPlaced-w.seenBelow <= s.rules.MaxLeap:
		s.acceptPlaced(lower, p.arrived) // two numbers confirm the lower one
		s.unconfirmedCount, s.lowestUnconfirmed = 0, max(s.lowestUnconfirmed, e)
		if s.lowestUnconfirmed >= w.seenBelow {
			s.unconfirmedCount = 1
		}
	default:
		s.lowestUnconfirmed = lower
	}
	return OfferKept
}

// offerFar offers a fragment beyond the window, of a source without an order.
func (n *numbering) offerFar(s *sourceNumbers, p pendingFragment) OfferResult {
	e, half := p.Event, n.window.mask>>1
	switch {
	case len(s.beyondWindow) > 0, e-n.window.seenBelow <= half,
		s.unconfirmedCount > maxSuspects && e-s.highestPlaced <= half:
		return OfferAhead // events before it will be decided, which moves the window
	case n.confirmsItself(s, e):
		s.acceptLower(p)
		return OfferKept
	}
	return n.acceptIfFollowed(s, p)
}

// isConfirmed says whether another source has a fragment of the same event, to which no source has come yet. If the
// fragment is suspect there, it accepts it, too.
func (n *numbering) isConfirmed(s *sourceNumbers, e uint64) bool {
	confirmed := false
	for i := range n.sources {
		o := &n.sources[i]
		switch {
		case o == s:
		case o.suspects.includes(e):
			o.acceptSuspects(e)
			confirmed = true
		case o.beyondWindow.includes(e), e >= n.window.seenBelow && o.holds(e):
			confirmed = true
		}
	}
	return confirmed
}

// isOnly says that no other source has begun and goes on, so that none could confirm a number of this one.
func (n *numbering) isOnly(s *sourceNumbers) bool {
	for i := range n.sources {
		if o := &n.sources[i]; o != s && o.started && !o.isOver {
			return false
		}
	}
	return true
}

// confirmsItself says that a source may confirm its own numbers, and that a suspect near e does so.
func (n *numbering) confirmsItself(s *sourceNumbers, e uint64) bool {
	return n.isOnly(s) && (!s.hasAccepted || e-n.window.seenBelow <= s.rules.MaxLeap) &&
		s.suspects.lowestNear(e, s.rules.MaxLeap) != noFragment
}

// acceptIfFollowed accepts a number if another source is beyond the window, too, at the same number or a little
// further. If the other source is a little behind with a suspect, that suspect is accepted first.
func (n *numbering) acceptIfFollowed(s *sourceNumbers, p pendingFragment) OfferResult {
	for i := range n.sources {
		o := &n.sources[i]
		if o == s {
			continue
		}
		if at := o.beyondWindow.lowestNear(p.Event, n.window.mask); at < p.Event {
			return OfferAhead // it gets its place when the window has moved there
		} else if at != noFragment {
			s.acceptFar(p)
			return OfferKept
		}
		switch at := o.suspects.lowestNear(p.Event, n.window.mask); {
		case at == p.Event:
			o.acceptSuspects(at)
			s.acceptFar(p)
			return OfferKept
		case o.ordered, at == noFragment:
		case at < p.Event:
			o.acceptSuspects(at)
			return OfferAhead
		default:
			s.acceptFar(p)
			return OfferKept
		}
	}
	s.addSuspect(p)
	return OfferKept
}

// acceptPersistent accepts numbers of stalled sources without an order, whose fragments are unconfirmed, when they
// have been so for FragmentTimeout. It returns when to look again.
func (n *numbering) acceptPersistent(now time.Duration) time.Duration {
	again := Never
	for i := range n.sources {
		switch s := &n.sources[i]; {
		case s.ordered || !s.stalled || s.unconfirmedCount <= maxSuspects:
		case !s.hasPersisted(now):
			again = min(again, s.unconfirmedSince+s.rules.FragmentTimeout)
		default:
			s.unconfirmedCount = 0
			s.acceptHighest(now)
		}
	}
	return again
}

// allStopped says that no source gives more fragments.
func (n *numbering) allStopped() bool {
	for i := range n.sources {
		if s := &n.sources[i]; !s.isOver && !s.stopped {
			return false
		}
	}
	return true
}

func (n *numbering) anyStalled() bool {
	for i := range n.sources {
		if n.sources[i].stalled {
			return true
		}
	}
	return false
}

func (n *numbering) placePending(now time.Duration) {
	for i := range n.sources {
		n.sources[i].placePending(now)
	}
}

// forgetBelow forgets the events below a number: they are built (used), or will never be.
func (n *numbering) forgetBelow(to uint64, used bool) {
	w := &n.window
	if to > w.low {
		for range min(to-w.low, w.mask+1) {
			n.forgetLowest(used)
		}
	}
	w.raiseLow(to)
}

func (n *numbering) forgetLowest(used bool) {
	w := &n.window
	e := w.low
	why, at := FaultJump, w.seenBelow
	if used {
		why = 0
	} else if e < w.seenBelow {
		why, at = FaultLate, e+1
	}
	for i := 0; i < len(n.sources) && w.having[e&w.mask] > 0; i++ {
		if s := &n.sources[i]; s.fragments[e&w.mask].Event == e {
			s.leavePlace(e, why, at)
		}
	}
	w.low++
}
