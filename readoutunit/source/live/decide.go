package live

import (
	"math"
	"time"
)

// What time decides, in a Matcher.

// emptyRun is how many numbers in a row that no source here has end a MEP: they are no events, and would be events of
// missing fragments within one.
const emptyRun = 16

// Step decides what time decides. It returns how far the data go, and when to call it again; Never, if only a fragment
// changes anything.
func (m *Matcher) Step(now time.Duration) (Reach, time.Duration) {
	if m.allStopped() {
		for i := range m.sources {
			m.resolveSuspects(i, now)
		}
	}
	again := min(m.acceptPersistent(now), m.leapAhead(now))
	again = min(again, m.decide(now))
	m.reach = max(m.reach, m.cutEnd, m.low)
	for m.reach < m.decided && int(m.bytes[m.reach&m.mask]) <= m.spaceLeft {
		m.spaceLeft -= int(m.bytes[m.reach&m.mask])
		m.reach++
	}
	for m.firstUncut = max(m.firstUncut, m.low); m.firstUncut < m.reach && m.have[m.firstUncut&m.mask] == 0; {
		m.firstUncut++
	}
	r := &m.reported
	if !r.Over { // else others have cut further
		r.To, r.Over = max(r.To, m.reach), m.allOver()
	}
	r.From = min(m.firstUncut, r.To)
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
	ripe := now >= due || m.isFull()
	if ripe {
		r.Flush = max(r.Flush, m.reach)
	} else {
		again = due
	}
	if m.rules.OnMissing == Wait || !ripe && m.reach-m.firstUncut < uint64(m.rules.Packing) {
		return again
	}
	e := max(m.firstUncut, r.Overdue)
	for e < m.reach && now >= m.firstSeen[e&m.mask]+m.rules.Timeout {
		e++
	}
	if ripe || e-m.firstUncut >= uint64(m.rules.Packing) {
		r.Overdue = max(r.Overdue, e)
	}
	if e < m.reach {
		again = min(again, m.firstSeen[e&m.mask]+m.rules.Timeout)
	}
	return again
}

// isFull tells that no larger MEP is possible.
func (m *Matcher) isFull() bool {
	if m.reach < m.decided || m.heldBack {
		return true
	}
	for i := range m.sources {
		if m.sources[i].stalled {
			return true
		}
	}
	return false
}

// decide moves on over events of which every fragment is there or given up.
func (m *Matcher) decide(now time.Duration) (again time.Duration) {
	m.heldBack, m.stuck = false, false
	for m.decided = max(m.decided, m.low); m.decided < m.seen; m.decided++ {
		i := m.decided & m.mask
		if int(m.have[i]) == len(m.sources) {
			continue
		}
		due := time.Duration(math.MinInt64)
		for j := range m.sources {
			if s := &m.sources[j]; s.fragments[i].Event != m.decided {
				due = max(due, m.giveUpTime(s, m.decided, m.firstSeen[i]))
			}
		}
		m.stuck = due == Never && m.allStopped()
		if now < due {
			return due
		}
		m.acceptDecided(m.decided)
		complete := int(m.have[i]) == len(m.sources)
		if !complete && (m.rules.OnMissing == Stop || m.startsEmptyRun()) && m.hasUncut() {
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
	for n < emptyRun && m.decided+n < m.seen && m.have[(m.decided+n)&m.mask] == 0 {
		n++
	}
	return n == emptyRun
}

// hasUncut tells that there are fragments of events that are decided and not cut.
func (m *Matcher) hasUncut() bool {
	for m.firstUncut = max(m.firstUncut, m.low); m.firstUncut < m.decided && m.have[m.firstUncut&m.mask] == 0; {
		m.firstUncut++
	}
	return m.firstUncut < m.decided
}

// giveUpTime is when a source is given up that has no fragment of an event; or, if it has a suspect one, when that is
// accepted.
func (m *Matcher) giveUpTime(s *sourceState, e uint64, first time.Duration) time.Duration {
	switch suspected := len(s.suspects) > 0 && indexOf(s.suspects, e) >= 0; {
	case s.over, (s.ordered || s.steps > maxSuspects) && s.accepted && s.next > e, s.stopped && suspected:
		return math.MinInt64
	case suspected:
		return max(first, s.resumed) + m.rules.Timeout
	case m.rules.OnMissing == Wait, s.stopped, s.stalled && len(s.ahead) == 0 && s.next <= e &&
		(s.ordered || s.highestPlaced <= e):
		return Never
	}
	wait := m.rules.Timeout
	if !s.started {
		wait = max(wait, m.rules.FirstTimeout)
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
		if s := &m.sources[i]; len(s.ahead) > 0 {
			least, since = min(least, s.ahead[0].Event), min(since, s.ahead[0].arrived)
		}
	}
	if least == NoEvent {
		return Never
	}
	for i := range m.sources {
		s := &m.sources[i]
		switch {
		case len(s.ahead) > 0, s.over, s.stalled && !s.ordered:
		case m.rules.OnMissing == Wait, s.stopped:
			return Never
		case now < max(since, s.resumed)+m.rules.Timeout:
			return max(since, s.resumed) + m.rules.Timeout
		}
	}
	m.forgetBelow(least, false)
	m.firstUncut, m.reach = max(m.firstUncut, least), max(m.reach, least)
	m.placePending(now)
	return Never
}
