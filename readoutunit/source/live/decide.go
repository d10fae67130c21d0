package live

import (
	"math"
	"time"
)

// What time decides, in a Matcher.

// minEmptyRun is how many numbers in a row that no source here has end a MEP: they are no events, and would be events
// of missing fragments within one.
const minEmptyRun = 16

// Step decides what time decides. It returns how far the data go, and when to call it again; Never, if only a fragment
// changes anything.
func (m *Matcher) Step(now time.Duration) (Reach, time.Duration) {
	if m.allStopped() {
		for i := range m.sources {
			m.resolveSuspects(i, now)
		}
	}
	again := min(m.acceptPersistent(now), m.leapAhead(now))
	again = min(again, m.decideEvents(now))
	m.reach = max(m.reach, m.cutEnd, m.low)
	for m.reach < m.decidedBelow && int(m.bytes[m.reach&m.mask]) <= m.spaceLeft {
		m.spaceLeft -= int(m.bytes[m.reach&m.mask])
		m.reach++
	}
	for m.firstUncut = max(m.firstUncut, m.low); m.firstUncut < m.reach && m.sourcesHaving[m.firstUncut&m.mask] == 0; {
		m.firstUncut++
	}
	r := &m.reported
	if !r.InputOver { // else others have cut further
		r.CompleteBelow, r.InputOver = max(r.CompleteBelow, m.reach), m.allOver()
	}
	r.FirstUncut = min(m.firstUncut, r.CompleteBelow)
	return *r, min(again, m.updateDeadlines(now))
}

// updateDeadlines notes what is due, unless MEPs wait to be taken: then there is enough to do. It counts from the last
// cut, if that was later than the event, so that who lags behind, or gives nothing, does not make a MEP of each event.
func (m *Matcher) updateDeadlines(now time.Duration) (again time.Duration) {
	r := &m.reported
	if m.firstUncut >= m.reach || m.low < m.cutEnd {
		return Never
	}
	again = Never
	due := max(m.firstSeen[m.firstUncut&m.mask], m.cutAt) + m.rules.FlushAfter
	ripe := now >= due || m.cannotGrow()
	if ripe {
		r.FlushBelow = max(r.FlushBelow, m.reach)
	} else {
		again = due
	}
	if m.rules.OnMissing == WaitForMissing || !ripe && m.reach-m.firstUncut < uint64(m.rules.Packing) {
		return again
	}
	e := max(m.firstUncut, r.OverdueBelow)
	for e < m.reach && now >= m.firstSeen[e&m.mask]+m.rules.FragmentTimeout {
		e++
	}
	if ripe || e-m.firstUncut >= uint64(m.rules.Packing) {
		r.OverdueBelow = max(r.OverdueBelow, e)
	}
	if e < m.reach {
		again = min(again, m.firstSeen[e&m.mask]+m.rules.FragmentTimeout)
	}
	return again
}

// cannotGrow tells that no larger MEP is possible.
func (m *Matcher) cannotGrow() bool {
	if m.reach < m.decidedBelow || m.heldBack {
		return true
	}
	for i := range m.sources {
		if m.sources[i].stalled {
			return true
		}
	}
	return false
}

// decideEvents moves on over events of which every fragment is there or given up.
func (m *Matcher) decideEvents(now time.Duration) (again time.Duration) {
	m.heldBack, m.lacksStopped = false, false
	for m.decidedBelow = max(m.decidedBelow, m.low); m.decidedBelow < m.seenBelow; m.decidedBelow++ {
		i := m.decidedBelow & m.mask
		if int(m.sourcesHaving[i]) == len(m.sources) {
			continue
		}
		due := time.Duration(math.MinInt64)
		for j := range m.sources {
			if s := &m.sources[j]; s.fragments[i].Event != m.decidedBelow {
				due = max(due, m.giveUpTime(s, m.decidedBelow, m.firstSeen[i]))
			}
		}
		m.lacksStopped = due == Never && m.allStopped()
		if now < due {
			return due
		}
		m.acceptDecided(m.decidedBelow)
		complete := int(m.sourcesHaving[i]) == len(m.sources)
		if !complete && (m.rules.OnMissing == StopAtMissing || m.startsEmptyRun()) && m.hasUncut() {
			m.heldBack = true
			return Never
		}
	}
	return Never
}

// acceptDecided accepts the suspect fragments of an event: it is decided now.
func (m *Matcher) acceptDecided(e uint64) {
	for i := range m.sources {
		if s := &m.sources[i]; indexOf(s.suspects, e) >= 0 {
			m.acceptSuspects(i, e)
		}
	}
}

// startsEmptyRun tells that no source has what is decided next, nor much behind it.
func (m *Matcher) startsEmptyRun() bool {
	n := uint64(0)
	for n < minEmptyRun && m.decidedBelow+n < m.seenBelow && m.sourcesHaving[(m.decidedBelow+n)&m.mask] == 0 {
		n++
	}
	return n == minEmptyRun
}

// hasUncut tells that there are fragments of events that are decided and not cut.
func (m *Matcher) hasUncut() bool {
	for m.firstUncut = max(m.firstUncut, m.low); m.firstUncut < m.decidedBelow &&
		m.sourcesHaving[m.firstUncut&m.mask] == 0; {
		m.firstUncut++
	}
	return m.firstUncut < m.decidedBelow
}

// giveUpTime is when a source is given up that has no fragment of an event; or, if it has a suspect one, when that is
// accepted.
func (m *Matcher) giveUpTime(s *sourceState, e uint64, first time.Duration) time.Duration {
	switch suspected := len(s.suspects) > 0 && indexOf(s.suspects, e) >= 0; {
	case s.isOver, (s.ordered || s.emptyRunSteps > maxSuspects) && s.hasAccepted && s.nextNumber > e, s.stopped &&
		suspected:
		return math.MinInt64
	case suspected:
		return max(first, s.resumed) + m.rules.FragmentTimeout
	case m.rules.OnMissing == WaitForMissing, s.stopped, s.stalled && len(s.beyondWindow) == 0 && s.nextNumber <= e &&
		(s.ordered || s.highestPlaced <= e):
		return Never
	}
	wait := m.rules.FragmentTimeout
	if !s.started {
		wait = max(wait, m.rules.FirstFragmentTimeout)
	}
	return max(first, s.resumed) + wait
}

// leapAhead goes on to numbers far ahead that are accepted, if there is nothing before them. It returns when to look
// again.
func (m *Matcher) leapAhead(now time.Duration) time.Duration {
	if m.low < m.cutEnd || m.placed > 0 {
		return Never
	}
	least, since := NoEvent, Never
	for i := range m.sources {
		if s := &m.sources[i]; len(s.beyondWindow) > 0 {
			least, since = min(least, s.beyondWindow[0].Event), min(since, s.beyondWindow[0].arrived)
		}
	}
	if least == NoEvent {
		return Never
	}
	for i := range m.sources {
		s := &m.sources[i]
		switch {
		case len(s.beyondWindow) > 0, s.isOver, s.stalled && !s.ordered:
		case m.rules.OnMissing == WaitForMissing, s.stopped:
			return Never
		case now < max(since, s.resumed)+m.rules.FragmentTimeout:
			return max(since, s.resumed) + m.rules.FragmentTimeout
		}
	}
	m.forgetBelow(least, false)
	m.firstUncut, m.reach = max(m.firstUncut, least), max(m.reach, least)
	m.placePending(now)
	return Never
}
