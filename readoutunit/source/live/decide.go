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
	if m.ceased() {
		for i := range m.sources {
			m.finish(i, now)
		}
	}
	again := min(m.persist(now), m.leap(now))
	again = min(again, m.decide(now))
	m.reach = max(m.reach, m.end, m.low)
	for m.reach < m.decided && int(m.bytes[m.reach&m.mask]) <= m.room {
		m.room -= int(m.bytes[m.reach&m.mask])
		m.reach++
	}
	for m.from = max(m.from, m.low); m.from < m.reach && m.have[m.from&m.mask] == 0; {
		m.from++
	}
	r := &m.said
	if !r.Over { // else others have cut further
		r.To, r.Over = max(r.To, m.reach), m.over()
	}
	r.From = min(m.from, r.To)
	return *r, min(again, m.wishes(now))
}

// wishes notes what is due, unless MEPs wait to be taken: then there is enough to do. It counts from the last cut, if
// that was later than the event, so that who lags behind, or gives nothing, does not make a MEP of each event.
func (m *Matcher) wishes(now time.Duration) (again time.Duration) {
	r := &m.said
	if m.from >= m.reach || m.low < m.end {
		return Never
	}
	again = Never
	due := max(m.first[m.from&m.mask], m.cutAt) + m.rules.FlushAfter
	ripe := now >= due || m.full()
	if ripe {
		r.Flush = max(r.Flush, m.reach)
	} else {
		again = due
	}
	if m.rules.OnMissing == Wait || !ripe && m.reach-m.from < uint64(m.rules.Packing) {
		return again
	}
	e := max(m.from, r.Overdue)
	for e < m.reach && now >= m.first[e&m.mask]+m.rules.Timeout {
		e++
	}
	if ripe || e-m.from >= uint64(m.rules.Packing) {
		r.Overdue = max(r.Overdue, e)
	}
	if e < m.reach {
		again = min(again, m.first[e&m.mask]+m.rules.Timeout)
	}
	return again
}

// full tells that no larger MEP is possible.
func (m *Matcher) full() bool {
	if m.reach < m.decided || m.held {
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
	m.held, m.stuck = false, false
	for m.decided = max(m.decided, m.low); m.decided < m.seen; m.decided++ {
		i := m.decided & m.mask
		if int(m.have[i]) == len(m.sources) {
			continue
		}
		due := time.Duration(math.MinInt64)
		for j := range m.sources {
			if s := &m.sources[j]; s.slots[i].Event != m.decided {
				due = max(due, m.due(s, m.decided, m.first[i]))
			}
		}
		m.stuck = due == Never && m.ceased()
		if now < due {
			return due
		}
		m.undoubt(m.decided)
		whole := int(m.have[i]) == len(m.sources)
		if !whole && (m.rules.OnMissing == Stop || m.empty()) && m.uncut() {
			m.held = true
			return Never
		}
	}
	return Never
}

// undoubt believes the fragments of an event that are in doubt: it is decided now.
func (m *Matcher) undoubt(e uint64) {
	for i := range m.sources {
		if s := &m.sources[i]; find(s.doubts, e) >= 0 {
			m.believe(i, e)
		}
	}
}

// empty tells that no source has what is decided next, nor much behind it.
func (m *Matcher) empty() bool {
	n := uint64(0)
	for n < emptyRun && m.decided+n < m.seen && m.have[(m.decided+n)&m.mask] == 0 {
		n++
	}
	return n == emptyRun
}

// uncut tells that there are fragments of events that are decided and not cut.
func (m *Matcher) uncut() bool {
	for m.from = max(m.from, m.low); m.from < m.decided && m.have[m.from&m.mask] == 0; {
		m.from++
	}
	return m.from < m.decided
}

// due is when a source is given up that has no fragment of an event; or, if it has one in doubt, when that is believed.
func (m *Matcher) due(s *matched, e uint64, first time.Duration) time.Duration {
	switch doubted := len(s.doubts) > 0 && find(s.doubts, e) >= 0; {
	case s.over, (s.ordered || s.steps > mostDoubts) && s.any && s.next > e, s.ceased && doubted:
		return math.MinInt64
	case doubted:
		return max(first, s.resumed) + m.rules.Timeout
	case m.rules.OnMissing == Wait, s.ceased, s.stalled && len(s.ahead) == 0 && s.next <= e && (s.ordered || s.top <= e):
		return Never
	}
	wait := m.rules.Timeout
	if !s.begun {
		wait = max(wait, m.rules.First)
	}
	return max(first, s.resumed) + wait
}

// leap goes on to numbers far ahead that are believed, if there is nothing before them. It returns when to look again.
func (m *Matcher) leap(now time.Duration) time.Duration {
	if m.low < m.end || m.placed > 0 {
		return Never
	}
	least, since := NoEvent, Never
	for i := range m.sources {
		if s := &m.sources[i]; len(s.ahead) > 0 {
			least, since = min(least, s.ahead[0].Event), min(since, s.ahead[0].at)
		}
	}
	if least == NoEvent {
		return Never
	}
	for i := range m.sources {
		s := &m.sources[i]
		switch {
		case len(s.ahead) > 0, s.over, s.stalled && !s.ordered:
		case m.rules.OnMissing == Wait, s.ceased:
			return Never
		case now < max(since, s.resumed)+m.rules.Timeout:
			return max(since, s.resumed) + m.rules.Timeout
		}
	}
	m.skip(least, false)
	m.from, m.reach = max(m.from, least), max(m.reach, least)
	m.settle(now)
	return Never
}
