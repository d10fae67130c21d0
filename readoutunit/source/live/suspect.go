package live

import (
	"slices"
	"time"
)

// Which numbers are accepted, in a Matcher.
//
// A number that follows the one before it is. Any other may be garbage: of a front-end, or of whoever can send a
// datagram. It is suspect, and a suspect moves nothing: neither what is known to be, nor where its source has come to.
//
// A source that keeps the order speaks for itself: the number that it sends next is near (Rules.MaxLeap), and the
// suspect is accepted; or it goes on where it was, and the suspect is thrown away. Two may be suspect at a time; the
// third decides between them. What is suspect when its event is decided, since others have it, is accepted.
//
// A source without an order is one that anybody may have sent to. It speaks for itself only when nobody else is there
// who could, and only as far as Rules.MaxLeap; else it takes another source that has the number, or has come further.
// A fragment within the window is in its place meanwhile, but its event is not known to be.

// maxSuspects is how many fragments of a source may be suspect: one that is garbage, and one that is not.
const maxSuspects = 2

// removeSuspect takes a suspect out.
func (s *sourceState) removeSuspect(i int) { s.suspects = slices.Delete(s.suspects, i, i+1) }

// addSuspect keeps a fragment that is not accepted. The oldest one has had its time.
func (m *Matcher) addSuspect(source int, p pendingFragment) {
	s := &m.sources[source]
	if len(s.suspects) == maxSuspects {
		old := s.suspects[0]
		s.removeSuspect(0)
		m.drop(source, old.FragmentRef, FaultJump, s.nextNumber)
	}
	s.suspects = append(s.suspects, p)
	s.counts.WaitingFragments++
}

// dropSuspects throws away the suspects from a number on: what came behind them is below.
func (m *Matcher) dropSuspects(source int, from uint64) {
	s := &m.sources[source]
	for i := 0; i < len(s.suspects); {
		if d := s.suspects[i]; d.Event >= from {
			s.removeSuspect(i)
			m.drop(source, d.FragmentRef, FaultJump, s.nextNumber)
		} else {
			i++
		}
	}
}

// acceptSuspects accepts the suspects of a source up to a number: each that is not too far from the one before
// it, or is that number.
func (m *Matcher) acceptSuspects(source int, upTo uint64) {
	s := &m.sources[source]
	for {
		least := -1
		for i := range s.suspects {
			if e := s.suspects[i].Event; e <= upTo && (least < 0 || e < s.suspects[least].Event) {
				least = i
			}
		}
		if least < 0 {
			return
		}
		d := s.suspects[least]
		s.removeSuspect(least)
		behind := upTo - d.Event
		if s.hasAccepted {
			behind = d.Event - min(d.Event, s.nextNumber)
		}
		if d.Event == upTo || behind <= m.rules.MaxLeap {
			m.accept(s, d)
		} else {
			m.drop(source, d.FragmentRef, FaultJump, s.nextNumber)
		}
	}
}

// acceptNear accepts the suspects of a source as far as they are near a number, and throws the rest away.
func (m *Matcher) acceptNear(source int, about, within uint64) {
	s := &m.sources[source]
	for len(s.suspects) > 0 {
		d := s.suspects[0]
		s.removeSuspect(0)
		if distance(d.Event, about) <= within {
			m.accept(s, d)
		} else {
			m.drop(source, d.FragmentRef, FaultJump, s.nextNumber)
		}
	}
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// noteAccepted notes a number that is accepted.
func (s *sourceState) noteAccepted(e uint64) {
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

// accept accepts a fragment that is counted as held.
func (m *Matcher) accept(s *sourceState, p pendingFragment) {
	e := p.Event
	if s.hasAccepted && s.ordered && e > s.nextNumber {
		s.counts.Gaps++
		s.gapEnd = e
	}
	s.noteAccepted(e)
	if m.isBeyondWindow(e) {
		at := 0
		for at < len(s.beyondWindow) && s.beyondWindow[at].Event < e {
			at++
		}
		s.beyondWindow = slices.Insert(s.beyondWindow, at, p)
		return
	}
	m.place(s, p.FragmentRef)
	m.extendSeen(max(m.seenBelow, e+1), p.arrived)
}

// offerOrdered takes a fragment of a source that keeps the order, whose number is none before.
func (m *Matcher) offerOrdered(source int, p pendingFragment) OfferResult {
	s, e := &m.sources[source], p.Event
	if near := m.nearestSuspect(s, e); near != noFragment {
		m.acceptSuspects(source, near)
		m.dropSuspects(source, e)
	}
	switch {
	case s.hasAccepted && e == s.nextNumber, !s.hasAccepted && e == m.low && len(s.suspects) == 0:
		if m.isBeyondWindow(e) {
			return OfferAhead
		}
		m.dropSuspects(source, e)
	case len(s.beyondWindow) >= maxSuspects:
		return OfferAhead
	case m.confirmedByOthers(source, e):
		m.acceptSuspects(source, e)
	default:
		m.addSuspect(source, p)
		return OfferKept
	}
	s.counts.WaitingFragments++
	m.accept(s, p)
	return OfferKept
}

// nearestSuspect is the highest suspect below a number and near it; none if there is none.
func (m *Matcher) nearestSuspect(s *sourceState, e uint64) uint64 {
	best := noFragment
	for i := range s.suspects {
		if d := s.suspects[i].Event; d < e && e-d <= m.rules.MaxLeap && (best == noFragment || d > best) {
			best = d
		}
	}
	return best
}

// confirmedByOthers tells whether another source has a fragment of the same event, which nobody has come to before.
// What is suspect there is accepted then, too.
func (m *Matcher) confirmedByOthers(source int, e uint64) bool {
	confirmed := false
	for i := range m.sources {
		o := &m.sources[i]
		switch {
		case i == source:
		case indexOf(o.suspects, e) >= 0:
			m.acceptSuspects(i, e)
			confirmed = true
		case indexOf(o.beyondWindow, e) >= 0, e >= m.seenBelow && m.holdsFragment(o, e):
			confirmed = true
		}
	}
	return confirmed
}

// isOnlySource tells that no other source is there that could speak for a number.
func (m *Matcher) isOnlySource(source int) bool {
	for i := range m.sources {
		if o := &m.sources[i]; i != source && o.started && !o.isOver {
			return false
		}
	}
	return true
}

// offerUnordered takes a fragment of a source that keeps no order, whose event is not decided.
func (m *Matcher) offerUnordered(source int, p pendingFragment) OfferResult {
	s, e := &m.sources[source], p.Event
	if s.unconfirmedCount > 0 && s.highestPlaced < m.seenBelow { // others have come further
		s.unconfirmedCount = 0
		s.noteAccepted(s.highestPlaced)
	}
	if m.isBeyondWindow(e) {
		return m.offerFar(source, p)
	}
	s.counts.WaitingFragments++
	m.place(s, p.FragmentRef)
	if e < m.seenBelow || s.hasAccepted && e == m.seenBelow {
		s.unconfirmedCount, s.highestPlaced = 0, max(s.highestPlaced, e)
		m.dropSuspects(source, 0)
		m.acceptPlaced(s, p)
		return OfferKept
	}
	s.addUnconfirmed(p)
	switch lower := min(s.lowestUnconfirmed, e); {
	case m.confirmedByOthers(source, e), m.hasPersisted(s, p.arrived) && e-m.seenBelow <= m.rules.MaxLeap:
		s.unconfirmedCount = 0
		m.acceptPlaced(s, p)
	case s.unconfirmedCount >= maxSuspects && m.isOnlySource(source) && s.highestPlaced-m.seenBelow <= m.rules.MaxLeap:
		m.acceptPlaced(s, pendingFragment{FragmentRef{Event: lower}, p.arrived}) // two speak for the lower one
		s.unconfirmedCount, s.lowestUnconfirmed = 0, max(s.lowestUnconfirmed, e)
		if s.lowestUnconfirmed >= m.seenBelow {
			s.unconfirmedCount = 1
		}
	default:
		s.lowestUnconfirmed = lower
	}
	return OfferKept
}

// addUnconfirmed notes a fragment that is in its place, and whose event is not known to be.
func (s *sourceState) addUnconfirmed(p pendingFragment) {
	if s.unconfirmedCount++; s.unconfirmedCount == 1 {
		s.unconfirmedSince, s.lowestUnconfirmed = p.arrived, p.Event
	}
	s.highestPlaced = max(s.highestPlaced, p.Event)
}

// acceptPlaced accepts the number of a fragment that is in its place.
func (m *Matcher) acceptPlaced(s *sourceState, p pendingFragment) {
	s.noteAccepted(p.Event)
	m.extendSeen(max(m.seenBelow, p.Event+1), p.arrived)
}

// hasPersisted tells that a source has gone on beyond what is known for as long as an event waits, and nobody followed.
func (m *Matcher) hasPersisted(s *sourceState, now time.Duration) bool {
	return s.unconfirmedCount > maxSuspects && now >= s.unconfirmedSince+m.rules.FragmentTimeout
}

// acceptPersistent accepts the numbers of sources without an order that are held up since theirs are suspect,
// when they have been for as long as an event waits. It returns when to look again.
func (m *Matcher) acceptPersistent(now time.Duration) time.Duration {
	again := Never
	for i := range m.sources {
		s := &m.sources[i]
		switch {
		case s.ordered || !s.stalled || s.unconfirmedCount <= maxSuspects:
		case !m.hasPersisted(s, now):
			again = min(again, s.unconfirmedSince+m.rules.FragmentTimeout)
		default:
			s.unconfirmedCount = 0
			if s.highestPlaced >= m.seenBelow && s.highestPlaced-m.seenBelow <= m.rules.MaxLeap {
				m.acceptPlaced(s, pendingFragment{FragmentRef{Event: s.highestPlaced}, now})
			}
		}
	}
	return again
}

// resolveSuspects decides on the suspects of a source when nothing more is taken from any. What is not far from where
// the source has come to is kept; and the only number that it gave.
func (m *Matcher) resolveSuspects(source int, now time.Duration) {
	s := &m.sources[source]
	if !s.ordered && s.highestPlaced >= m.seenBelow && s.highestPlaced-m.seenBelow <= m.rules.MaxLeap &&
		m.holdsFragment(s, s.highestPlaced) {
		m.acceptPlaced(s, pendingFragment{FragmentRef{Event: s.highestPlaced}, now})
	}
	for len(s.suspects) > 0 {
		least := 0
		for i := range s.suspects {
			if s.suspects[i].Event < s.suspects[least].Event {
				least = i
			}
		}
		d := s.suspects[least]
		s.removeSuspect(least)
		if s.hasAccepted && distance(d.Event, s.nextNumber) > m.rules.MaxLeap {
			m.drop(source, d.FragmentRef, FaultJump, s.nextNumber)
			continue
		}
		m.accept(s, d)
		if least > 0 { // it came behind a higher one, which was wrong then
			m.dropSuspects(source, 0)
		}
	}
}

// offerFar takes a fragment of a source without an order that is beyond the window.
func (m *Matcher) offerFar(source int, p pendingFragment) OfferResult {
	s, e := &m.sources[source], p.Event
	half := m.mask >> 1
	switch {
	case len(s.beyondWindow) > 0, e-m.seenBelow <= half, s.unconfirmedCount > maxSuspects && e-s.highestPlaced <= half:
		return OfferAhead // what is before it will be decided
	case m.confirmsItself(source, e):
		m.acceptLower(source, p)
		return OfferKept
	default:
		return m.acceptIfFollowed(source, p)
	}
}

// confirmsItself tells that a source may speak for itself, and does: two of its numbers are near, and not too far.
func (m *Matcher) confirmsItself(source int, e uint64) bool {
	s := &m.sources[source]
	if !m.isOnlySource(source) || s.hasAccepted && e-m.seenBelow > m.rules.MaxLeap {
		return false
	}
	for i := range s.suspects {
		if distance(s.suspects[i].Event, e) <= m.rules.MaxLeap {
			return true
		}
	}
	return false
}

// acceptLower accepts the lower one of two numbers that are near.
func (m *Matcher) acceptLower(source int, p pendingFragment) {
	s := &m.sources[source]
	lower := p.Event
	for i := range s.suspects {
		if d := s.suspects[i].Event; distance(d, p.Event) <= m.rules.MaxLeap {
			lower = min(lower, d)
		}
	}
	if lower < p.Event {
		m.acceptNear(source, lower, 0)
		m.addSuspect(source, p)
		return
	}
	s.counts.WaitingFragments++
	m.accept(s, p)
}

// acceptIfFollowed accepts a number if another source is beyond the window as well, and there or a little
// further. Of two suspects the lower one is accepted then.
func (m *Matcher) acceptIfFollowed(source int, p pendingFragment) OfferResult {
	for i := range m.sources {
		if i == source {
			continue
		}
		o := &m.sources[i]
		if at := m.lowestNear(o.beyondWindow, p.Event); at < p.Event {
			return OfferAhead // it will have its place
		} else if at != noFragment {
			return m.acceptFar(source, p)
		}
		switch at := m.lowestNear(o.suspects, p.Event); {
		case at == p.Event:
			m.acceptSuspects(i, at)
			return m.acceptFar(source, p)
		case o.ordered:
		case at < p.Event:
			m.acceptSuspects(i, at)
			return OfferAhead
		case at != noFragment:
			return m.acceptFar(source, p)
		}
	}
	m.addSuspect(source, p)
	return OfferKept
}

// acceptFar accepts a number of a source without an order.
func (m *Matcher) acceptFar(source int, p pendingFragment) OfferResult {
	m.acceptNear(source, p.Event, m.mask)
	m.sources[source].counts.WaitingFragments++
	m.accept(&m.sources[source], p)
	return OfferKept
}

// lowestNear is the lowest number of a list that is near an event; none if there is none.
func (m *Matcher) lowestNear(list []pendingFragment, e uint64) uint64 {
	best := noFragment
	for i := range list {
		if at := list[i].Event; distance(at, e) <= m.mask {
			best = min(best, at)
		}
	}
	return best
}
