package live

import (
	"slices"
	"time"
)

// Which numbers are believed, in a Matcher.
//
// A number that follows the one before it is. Any other may be garbage: of a front-end, or of whoever can send a
// datagram. It is in doubt, and a doubt moves nothing: neither what is known to be, nor where its source has come to.
//
// A source that keeps the order speaks for itself: the number that it sends next is near (Rules.Leap), and the doubt is
// believed; or it goes on where it was, and the doubt is thrown away. Two may be in doubt at a time; the third decides
// between them. What is in doubt when its event is decided, since others have it, is believed.
//
// A source without an order is one that anybody may have sent to. It speaks for itself only when nobody else is there
// who could, and only as far as Rules.Leap; else it takes another source that has the number, or has come further.
// A fragment within the window is in its place meanwhile, but its event is not known to be.

// mostDoubts is how many fragments of a source may be in doubt: one that is garbage, and one that is not.
const mostDoubts = 2

// remove takes a doubt out.
func (s *matched) remove(i int) { s.doubts = slices.Delete(s.doubts, i, i+1) }

// doubt keeps a fragment that is not believed. The oldest one has had its time.
func (m *Matcher) doubt(source int, p early) {
	s := &m.sources[source]
	if len(s.doubts) == mostDoubts {
		old := s.doubts[0]
		s.remove(0)
		m.drop(source, old.Piece, Jump, s.next)
	}
	s.doubts = append(s.doubts, p)
	s.count.Held++
}

// disbelieve throws away the doubts from a number on: what came behind them is below.
func (m *Matcher) disbelieve(source int, from uint64) {
	s := &m.sources[source]
	for i := 0; i < len(s.doubts); {
		if d := s.doubts[i]; d.Event >= from {
			s.remove(i)
			m.drop(source, d.Piece, Jump, s.next)
		} else {
			i++
		}
	}
}

// believe takes what a source has in doubt up to a number for true, if it is not too far from the one before it, or is
// that number.
func (m *Matcher) believe(source int, upTo uint64) {
	s := &m.sources[source]
	for {
		least := -1
		for i := range s.doubts {
			if e := s.doubts[i].Event; e <= upTo && (least < 0 || e < s.doubts[least].Event) {
				least = i
			}
		}
		if least < 0 {
			return
		}
		d := s.doubts[least]
		s.remove(least)
		behind := upTo - d.Event
		if s.any {
			behind = d.Event - min(d.Event, s.next)
		}
		if d.Event == upTo || behind <= m.rules.Leap {
			m.accept(s, d)
		} else {
			m.drop(source, d.Piece, Jump, s.next)
		}
	}
}

// trust takes what a source has in doubt for true as far as it is near a number, and throws the rest away.
func (m *Matcher) trust(source int, about, within uint64) {
	s := &m.sources[source]
	for len(s.doubts) > 0 {
		d := s.doubts[0]
		s.remove(0)
		if apart(d.Event, about) <= within {
			m.accept(s, d)
		} else {
			m.drop(source, d.Piece, Jump, s.next)
		}
	}
}

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// came notes a number that is believed.
func (s *matched) came(e uint64) {
	switch {
	case !s.any:
		s.count.First = e
	case e >= s.next+emptyRun:
		s.steps++
	case e >= s.next:
		s.steps = 0
	}
	s.any, s.next, s.late = true, max(s.next, e+1), none
	s.count.First, s.count.Last = min(s.count.First, e), e
}

// accept takes a fragment that is counted as held for true.
func (m *Matcher) accept(s *matched, p early) {
	e := p.Event
	if s.any && s.ordered && e > s.next {
		s.count.Gaps++
		s.gap = e
	}
	s.came(e)
	if m.far(e) {
		at := 0
		for at < len(s.ahead) && s.ahead[at].Event < e {
			at++
		}
		s.ahead = slices.Insert(s.ahead, at, p)
		return
	}
	m.place(s, p.Piece)
	m.hear(max(m.seen, e+1), p.at)
}

// offerOrdered takes a fragment of a source that keeps the order, whose number is none before.
func (m *Matcher) offerOrdered(source int, p early) Verdict {
	s, e := &m.sources[source], p.Event
	if near := m.near(s, e); near != none {
		m.believe(source, near)
		m.disbelieve(source, e)
	}
	switch {
	case s.any && e == s.next, !s.any && e == m.low && len(s.doubts) == 0:
		if m.far(e) {
			return Ahead
		}
		m.disbelieve(source, e)
	case len(s.ahead) >= mostDoubts:
		return Ahead
	case m.agreed(source, e):
		m.believe(source, e)
	default:
		m.doubt(source, p)
		return Kept
	}
	s.count.Held++
	m.accept(s, p)
	return Kept
}

// near is the highest doubt below a number and near it; none if there is none.
func (m *Matcher) near(s *matched, e uint64) uint64 {
	best := none
	for i := range s.doubts {
		if d := s.doubts[i].Event; d < e && e-d <= m.rules.Leap && (best == none || d > best) {
			best = d
		}
	}
	return best
}

// agreed tells whether another source has a fragment of the same event, which nobody has come to before. What is in
// doubt there is believed then, too.
func (m *Matcher) agreed(source int, e uint64) bool {
	yes := false
	for i := range m.sources {
		o := &m.sources[i]
		switch {
		case i == source:
		case find(o.doubts, e) >= 0:
			m.believe(i, e)
			yes = true
		case find(o.ahead, e) >= 0, e >= m.seen && m.has(o, e):
			yes = true
		}
	}
	return yes
}

// alone tells that no other source is there that could speak for a number.
func (m *Matcher) alone(source int) bool {
	for i := range m.sources {
		if o := &m.sources[i]; i != source && o.begun && !o.over {
			return false
		}
	}
	return true
}

// offerUnordered takes a fragment of a source that keeps no order, whose event is not decided.
func (m *Matcher) offerUnordered(source int, p early) Verdict {
	s, e := &m.sources[source], p.Event
	if s.lone > 0 && s.top < m.seen { // others have come further
		s.lone = 0
		s.came(s.top)
	}
	if m.far(e) {
		return m.offerFar(source, p)
	}
	s.count.Held++
	m.place(s, p.Piece)
	if e < m.seen || s.any && e == m.seen {
		s.lone, s.top = 0, max(s.top, e)
		m.disbelieve(source, 0)
		m.known(s, p)
		return Kept
	}
	s.wait(p)
	switch lower := min(s.least, e); {
	case m.agreed(source, e), m.lasts(s, p.at) && e-m.seen <= m.rules.Leap:
		s.lone = 0
		m.known(s, p)
	case s.lone >= mostDoubts && m.alone(source) && s.top-m.seen <= m.rules.Leap:
		m.known(s, early{Piece{Event: lower}, p.at}) // two speak for the lower one
		s.lone, s.least = 0, max(s.least, e)
		if s.least >= m.seen {
			s.lone = 1
		}
	default:
		s.least = lower
	}
	return Kept
}

// wait notes a fragment that is in its place, and whose event is not known to be.
func (s *matched) wait(p early) {
	if s.lone++; s.lone == 1 {
		s.loneAt, s.least = p.at, p.Event
	}
	s.top = max(s.top, p.Event)
}

// known takes the number of a fragment that is in its place for true.
func (m *Matcher) known(s *matched, p early) {
	s.came(p.Event)
	m.hear(max(m.seen, p.Event+1), p.at)
}

// lasts tells that a source has gone on beyond what is known for as long as an event waits, and nobody followed.
func (m *Matcher) lasts(s *matched, now time.Duration) bool {
	return s.lone > mostDoubts && now >= s.loneAt+m.rules.Timeout
}

// persist takes the numbers of sources without an order for true that are held up since theirs are in doubt, when they
// have been for as long as an event waits. It returns when to look again.
func (m *Matcher) persist(now time.Duration) time.Duration {
	again := Never
	for i := range m.sources {
		s := &m.sources[i]
		switch {
		case s.ordered || !s.stalled || s.lone <= mostDoubts:
		case !m.lasts(s, now):
			again = min(again, s.loneAt+m.rules.Timeout)
		default:
			s.lone = 0
			if s.top >= m.seen && s.top-m.seen <= m.rules.Leap {
				m.known(s, early{Piece{Event: s.top}, now})
			}
		}
	}
	return again
}

// finish settles what a source has in doubt when nothing more is taken from any. What is not far from where the source
// has come to is kept; and the only number that it gave.
func (m *Matcher) finish(source int, now time.Duration) {
	s := &m.sources[source]
	if !s.ordered && s.top >= m.seen && s.top-m.seen <= m.rules.Leap && m.has(s, s.top) {
		m.known(s, early{Piece{Event: s.top}, now})
	}
	for len(s.doubts) > 0 {
		least := 0
		for i := range s.doubts {
			if s.doubts[i].Event < s.doubts[least].Event {
				least = i
			}
		}
		d := s.doubts[least]
		s.remove(least)
		if s.any && apart(d.Event, s.next) > m.rules.Leap {
			m.drop(source, d.Piece, Jump, s.next)
			continue
		}
		m.accept(s, d)
		if least > 0 { // it came behind a higher one, which was wrong then
			m.disbelieve(source, 0)
		}
	}
}

// offerFar takes a fragment of a source without an order that is beyond the window.
func (m *Matcher) offerFar(source int, p early) Verdict {
	s, e := &m.sources[source], p.Event
	half := m.mask >> 1
	switch {
	case len(s.ahead) > 0, e-m.seen <= half, s.lone > mostDoubts && e-s.top <= half:
		return Ahead // what is before it will be decided
	case m.mine(source, e):
		m.speaks(source, p)
		return Kept
	default:
		return m.follow(source, p)
	}
}

// mine tells that a source may speak for itself, and does: two of its numbers are near, and not too far.
func (m *Matcher) mine(source int, e uint64) bool {
	s := &m.sources[source]
	if !m.alone(source) || s.any && e-m.seen > m.rules.Leap {
		return false
	}
	for i := range s.doubts {
		if apart(s.doubts[i].Event, e) <= m.rules.Leap {
			return true
		}
	}
	return false
}

// speaks takes the lower one of two numbers that are near for true.
func (m *Matcher) speaks(source int, p early) {
	s := &m.sources[source]
	lower := p.Event
	for i := range s.doubts {
		if d := s.doubts[i].Event; apart(d, p.Event) <= m.rules.Leap {
			lower = min(lower, d)
		}
	}
	if lower < p.Event {
		m.trust(source, lower, 0)
		m.doubt(source, p)
		return
	}
	s.count.Held++
	m.accept(s, p)
}

// follow takes a number for true if another source is beyond the window as well, and there or a little further. Of two
// that are in doubt the lower one is believed then.
func (m *Matcher) follow(source int, p early) Verdict {
	for i := range m.sources {
		if i == source {
			continue
		}
		o := &m.sources[i]
		if at := m.within(o.ahead, p.Event); at < p.Event {
			return Ahead // it will have its place
		} else if at != none {
			return m.yes(source, p)
		}
		switch at := m.within(o.doubts, p.Event); {
		case at == p.Event:
			m.believe(i, at)
			return m.yes(source, p)
		case o.ordered:
		case at < p.Event:
			m.believe(i, at)
			return Ahead
		case at != none:
			return m.yes(source, p)
		}
	}
	m.doubt(source, p)
	return Kept
}

// yes takes a number of a source without an order for true.
func (m *Matcher) yes(source int, p early) Verdict {
	m.trust(source, p.Event, m.mask)
	m.sources[source].count.Held++
	m.accept(&m.sources[source], p)
	return Kept
}

// within is the lowest number of a list that is near an event; none if there is none.
func (m *Matcher) within(list []early, e uint64) uint64 {
	best := none
	for i := range list {
		if at := list[i].Event; apart(at, e) <= m.mask {
			best = min(best, at)
		}
	}
	return best
}
