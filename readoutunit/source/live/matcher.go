package live

import (
	"math"
	"time"
)

// A Matcher puts the fragments of all sources of a readout unit together by the numbers of their events. It is a step
// machine without clock: times are told, as what has passed since any beginning.
//
//	taken         cut, not taken      decided          known          may be kept
//	──────┤low  ────────────────┤end ──────────┤decided ──────┤seen ─────────────┤ low + window
//
// Each fragment that is offered and not Ahead ends in one account of its source: used, repeats, backwards, late, jumps,
// or left over. One goroutine at a time calls its methods. None allocates, but for errors and growing lists.
type Matcher struct {
	// immutable but for Hurry
	rules Rules
	mask  uint64

	low     uint64 // events below are taken, or will never be kept
	end     uint64 // of the last cut
	reach   uint64 // events below fit into the next MEP, and are decided
	decided uint64
	seen    uint64        // events below are known to be
	from    uint64        // the first of [end, decided) with a fragment
	placed  int           // fragments in places
	room    int           // bytes left for the next MEP, at reach
	cutAt   time.Duration // when the last cut came
	said    Reach
	held    bool // at decided: of what is cut before it nothing may lack anything
	stuck   bool // at decided: it lacks what will not be taken any more

	first   []time.Duration // by event: when it, or a later one, was first heard of
	have    []uint16        // by event: sources that have it
	bytes   []uint32        // by event: of its fragments, padded
	sources []matched
	dropped []Dropped
}

// matched is one source.
type matched struct {
	name    string
	ordered bool
	any     bool          // a fragment was kept
	over    bool          // nothing more will come
	ceased  bool          // nothing more is taken from it, though it may have more
	stalled bool          // nothing is taken from it: the readout unit has no room
	waits   bool          // pending is a fragment too far ahead
	resumed time.Duration // when it was stalled last
	next    uint64        // behind the highest number that was kept
	pending Piece
	since   time.Duration // of pending
	slots   []Piece       // by event
	count   Counts
}

// none marks a slot without a fragment.
const none = NoEvent

// NewMatcher makes a Matcher. unordered tells, by source, that fragments may come out of order.
func NewMatcher(rules Rules, names []string, unordered []bool) *Matcher {
	m := &Matcher{
		rules:   rules,
		mask:    uint64(rules.Window) - 1,
		room:    rules.Room,
		first:   make([]time.Duration, rules.Window),
		have:    make([]uint16, rules.Window),
		bytes:   make([]uint32, rules.Window),
		sources: make([]matched, len(names)),
	}
	for i, name := range names {
		s := &m.sources[i]
		s.name, s.ordered, s.slots = name, !unordered[i], make([]Piece, rules.Window)
		for j := range s.slots {
			s.slots[j].Event = none
		}
	}
	return m
}

// Offer takes a fragment of a source. The error is a *FragmentError; that of a Gap comes with Kept. How often there was
// one is counted.
func (m *Matcher) Offer(source int, p Piece, now time.Duration) (Verdict, error) {
	s := &m.sources[source]
	if s.waits {
		switch far := s.pending.Event; {
		case p.Event == far:
			return m.throw(s, p, Repeat, 0)
		case p.Event < far && (s.ordered || far-p.Event > m.mask>>1):
			s.waits = false
			s.count.Jumps++
			s.count.Held--
			m.dropped = append(m.dropped, Dropped{source, s.pending})
			v, err := m.Offer(source, p, now)
			if err == nil {
				err = s.fault(far, Jump, p.Event)
			}
			return v, err
		case m.far(p.Event):
			return Ahead, nil
		}
	}
	if fault, at := m.judge(s, p.Event); fault > Gap {
		return m.throw(s, p, fault, at)
	}
	if m.far(p.Event) {
		s.pending, s.waits, s.since = p, true, now
		s.count.Held++
		return Kept, nil
	}
	s.count.Held++
	return Kept, m.keep(s, p, now)
}

func (m *Matcher) far(e uint64) bool { return e >= m.low && e-m.low > m.mask }

// judge says what is wrong with a number.
func (m *Matcher) judge(s *matched, e uint64) (Fault, uint64) {
	last := s.next - 1
	switch {
	case e >= NoEvent:
		return Jump, s.next
	case s.any && s.ordered && e == last:
		return Repeat, 0
	case s.any && s.ordered && e < last:
		if e >= m.low && s.slots[e&m.mask].Event == e {
			return Repeat, 0
		}
		return Backwards, last
	case e < m.low:
		return Late, m.low
	case !m.far(e) && s.slots[e&m.mask].Event == e:
		return Repeat, 0
	case e < m.decided:
		return Late, m.decided
	case s.any && s.ordered && e > s.next:
		return Gap, s.next
	}
	return 0, 0
}

func (m *Matcher) throw(s *matched, p Piece, fault Fault, at uint64) (Verdict, error) {
	switch fault {
	case Repeat:
		s.count.Repeats++
	case Backwards:
		s.count.Backwards++
	case Late:
		s.count.Late++
	default:
		s.count.Jumps++
	}
	return Thrown, s.fault(p.Event, fault, at)
}

// fault says what is wrong with the number of a fragment of this source.
func (s *matched) fault(event uint64, fault Fault, at uint64) error {
	return &FragmentError{
		Source: s.name,
		Event:  event,
		Fault:  fault,
		At:     at,
	}
}

// keep puts a fragment into its place.
func (m *Matcher) keep(s *matched, p Piece, now time.Duration) (err error) {
	if s.any && s.ordered && p.Event > s.next {
		s.count.Gaps++
		err = s.fault(p.Event, Gap, s.next)
	}
	if !s.any {
		s.resumed = now // for the events that waited for it to begin its time counts from here
	}
	s.any, s.next, s.count.Last = true, max(s.next, p.Event+1), p.Event
	i := p.Event & m.mask
	s.slots[i] = p
	m.have[i]++
	m.placed++
	m.bytes[i] += uint32(m.padded(int(p.Size)))
	m.hear(p.Event+1, now)
	return err
}

// hear notes that there are events below to.
func (m *Matcher) hear(to uint64, now time.Duration) {
	for ; m.seen < to; m.seen++ {
		m.first[m.seen&m.mask] = now
	}
}

func (m *Matcher) padded(size int) int {
	unit := 1<<m.rules.Align - 1
	return (size + unit) &^ unit
}

// Stall tells that nothing is taken from a source any more, or that it is again. While it is, nobody waits for it in
// vain.
func (m *Matcher) Stall(source int, stalled bool, now time.Duration) {
	s := &m.sources[source]
	if s.stalled && !stalled {
		s.resumed = now
	}
	s.stalled = stalled
}

// Hurry has nobody wait longer for the first fragment of a source than for any other: the run goes on already.
func (m *Matcher) Hurry() { m.rules.First = 0 }

// Leave tells of fragments that will not be offered, since the run ends and there is no room: they are left over.
func (m *Matcher) Leave(source, n int) { m.sources[source].count.Held += uint64(n) }

// Expect tells that the events of a cut are, and that they have waited as long as an event may. It is the next one to
// be taken.
func (m *Matcher) Expect(c Cut, now time.Duration) {
	m.skip(c.First, false) // what is before it is in no MEP
	m.settle(now)
	m.hear(max(m.seen, min(c.End(), m.low+m.mask+1)), now-m.rules.Timeout)
}

// Ready tells whether the events of a cut are decided.
func (m *Matcher) Ready(c Cut) bool { return m.decided >= c.End() }

// Cut tells which events the next MEP has.
func (m *Matcher) Cut(c Cut, now time.Duration) {
	end := c.End()
	m.cutAt = now
	for e := m.end; e < min(end, m.reach); e++ {
		if e >= m.low {
			m.room += int(m.bytes[e&m.mask])
		}
	}
	if end >= m.reach {
		m.reach, m.room = end, m.rules.Room
	}
	m.end, m.from = end, max(m.from, end)
}

// Step decides what time decides. It returns how far the data go, and when to call it again; Never, if only a fragment
// changes anything.
func (m *Matcher) Step(now time.Duration) (Reach, time.Duration) {
	leap := m.leap(now)
	again := min(leap, m.decide(now))
	m.reach = max(m.reach, m.end)
	for m.reach < m.decided && (m.reach < m.low || int(m.bytes[m.reach&m.mask]) <= m.room) {
		if m.reach >= m.low {
			m.room -= int(m.bytes[m.reach&m.mask])
		}
		m.reach++
	}
	for m.from < m.reach && (m.from < m.low || m.have[m.from&m.mask] == 0) {
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
		if m.rules.OnMissing == Stop && m.uncut() {
			m.held = true
			return Never
		}
	}
	return Never
}

// uncut tells that there are fragments of events that are decided and not cut.
func (m *Matcher) uncut() bool {
	for m.from = max(m.from, m.low); m.from < m.decided && m.have[m.from&m.mask] == 0; {
		m.from++
	}
	return m.from < m.decided
}

// due is when a source is given up that has no fragment of an event.
func (m *Matcher) due(s *matched, e uint64, first time.Duration) time.Duration {
	switch {
	case s.over, s.ordered && (s.any && s.next > e || s.waits && s.pending.Event > e):
		return math.MinInt64
	case m.rules.OnMissing == Wait, s.ceased, s.stalled && s.next <= e:
		return Never
	}
	wait := m.rules.Timeout
	if !s.any {
		wait = max(wait, m.rules.First)
	}
	return max(first, s.resumed) + wait
}

// leap goes on to numbers far ahead, if there is nothing before them. It returns when to look again.
func (m *Matcher) leap(now time.Duration) time.Duration {
	if m.low < m.end || m.placed > 0 {
		return Never
	}
	least, since := NoEvent, Never
	for i := range m.sources {
		if s := &m.sources[i]; s.waits {
			least, since = min(least, s.pending.Event), min(since, s.since)
		}
	}
	if least == NoEvent {
		return Never
	}
	for i := range m.sources {
		s := &m.sources[i]
		switch {
		case s.waits, s.over:
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

// settle puts fragments into their places that were too far ahead.
func (m *Matcher) settle(now time.Duration) {
	for i := range m.sources {
		if s := &m.sources[i]; s.waits && !m.far(s.pending.Event) {
			s.waits = false
			if s.pending.Event < m.low {
				s.count.Late++
				s.count.Held--
				m.dropped = append(m.dropped, Dropped{i, s.pending})
				continue
			}
			_ = m.keep(s, s.pending, s.since) // the gap is counted
		}
	}
}

// Piece is the fragment of a source for an event of the cut that is taken, if it has one. A cut's bytes may exceed
// Rules.Room only if it goes beyond the Reach that was told.
func (m *Matcher) Piece(source int, e uint64) (Piece, bool) {
	if e < m.low {
		return Piece{}, false
	}
	p := m.sources[source].slots[e&m.mask]
	return p, p.Event == e
}

// Lacking is the first fragment that is missing in a cut, as an error; nil if all are there.
func (m *Matcher) Lacking(c Cut) error {
	for e := c.First; e < c.End(); e++ {
		for i := range m.sources {
			if _, ok := m.Piece(i, e); !ok {
				return &MissingError{m.sources[i].name, e}
			}
		}
	}
	return nil
}

// Take counts the events of a cut as built and gives their fragments back to the caller, who has copied them.
func (m *Matcher) Take(c Cut, now time.Duration) {
	for i := range m.sources {
		m.sources[i].count.Missing += uint64(c.Events)
	}
	m.skip(c.First, false)
	m.skip(c.End(), true)
	m.settle(now)
}

// skip forgets the events below to.
func (m *Matcher) skip(to uint64, used bool) {
	for m.low < min(to, m.seen) {
		m.forget(m.low, used)
	}
	m.low = max(m.low, to)
	m.seen, m.decided = max(m.seen, m.low), max(m.decided, m.low)
}

// Throw counts the fragment of an event that is about to be taken as too late.
func (m *Matcher) Throw(source int, e uint64) {
	s, i := &m.sources[source], e&m.mask
	m.dropped = append(m.dropped, Dropped{source, s.slots[i]})
	m.bytes[i] -= uint32(m.padded(int(s.slots[i].Size)))
	s.slots[i].Event = none
	m.have[i]--
	m.placed--
	s.count.Late++
	s.count.Held--
}

// forget clears the lowest event.
func (m *Matcher) forget(e uint64, used bool) {
	i := e & m.mask
	for j := range m.sources {
		s := &m.sources[j]
		if m.have[i] == 0 {
			break
		}
		if s.slots[i].Event != e {
			continue
		}
		if used {
			s.count.Used++
			s.count.Missing--
		} else {
			s.count.Late++
		}
		s.count.Held--
		m.dropped = append(m.dropped, Dropped{j, s.slots[i]})
		s.slots[i].Event = none
		m.have[i]--
		m.placed--
	}
	m.bytes[i] = 0
	m.low++
}

// Low is the number below which no fragment is kept any more.
func (m *Matcher) Low() uint64 { return m.low }

// Dropped gives the fragments that the Matcher does not need any more; they are the caller's until the next call of any
// other method.
func (m *Matcher) Dropped() []Dropped {
	d := m.dropped
	m.dropped = m.dropped[:0]
	return d
}

// Counts are the accounts of a source.
func (m *Matcher) Counts(source int) Counts { return m.sources[source].count }
