package live

import "time"

// A Matcher puts the fragments of all sources of a readout unit together by the numbers of their events. It is a step
// machine without clock: times are told, as what has passed since any beginning.
//
//	taken         cut, not taken      decided          known          may be kept
//	──────┤low  ────────────────┤end ──────────┤decided ──────┤seen ─────────────┤ low + window
//
// A number comes from outside, and one may be garbage. So it moves nothing before something else speaks for it: see
// doubt.go. No call's cost depends on a number: what a loop passes over lies in the window.
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
	placed  int           // fragments in places below seen
	room    int           // bytes left for the next MEP, at reach
	cutAt   time.Duration // when the last cut came
	said    Reach
	held    bool // at decided: what is cut before it is to be cut without it
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
	begun   bool          // a fragment came, whatever became of it
	any     bool          // a number was believed
	over    bool          // nothing more will come
	ceased  bool          // nothing more is taken from it, though it may have more
	stalled bool          // nothing is taken from it: the readout unit has no room
	since   time.Duration // when it began
	resumed time.Duration // when it began, or was stalled last
	next    uint64        // behind the highest number that is believed
	gap     uint64        // the last number behind those that it left out
	steps   int           // times in a row that it left out emptyRun numbers or more: it counts in steps
	late    uint64        // a number beyond next that came too late; none
	wrapped uint8         // its numbers look like a counter of so many bits that began anew; 0
	ahead   []early       // believed, and beyond the window: in order
	doubts  []early       // not believed: in the order in which they came
	lone    int           // unordered: fragments in a row beyond what is known
	loneAt  time.Duration // when the first of them came
	least   uint64        // the lowest of them
	top     uint64        // unordered: the highest number that is in a place
	slots   []Piece       // by event
	count   Counts
}

// early is a fragment that is in no place yet, and when it came.
type early struct {
	Piece
	at time.Duration
}

// none marks a slot without a fragment.
const none = NoEvent

// NewMatcher makes a Matcher. unordered tells, by source, that fragments may come out of order, and that anybody may
// have sent one.
func NewMatcher(rules Rules, names []string, unordered []bool) *Matcher {
	if rules.Leap == 0 {
		rules.Leap = defaultLeap
	}
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
		s.ahead, s.doubts = make([]early, 0, 2*mostDoubts), make([]early, 0, mostDoubts)
		s.late = none
		for j := range s.slots {
			s.slots[j].Event = none
		}
	}
	return m
}

// Offer takes a fragment of a source. The error is a *FragmentError: what is wrong with a fragment that is Thrown; or
// that numbers were left out before fragments that are Kept. How often there was one is counted.
func (m *Matcher) Offer(source int, p Piece, now time.Duration) (Verdict, error) {
	s := &m.sources[source]
	if !s.begun && p.Event < NoEvent {
		s.begun, s.since, s.resumed = true, now, now // for the events that waited for it its time counts from here
	}
	gaps, at := s.count.Gaps, s.next
	fault, than := m.judge(s, p.Event)
	if fault > 0 {
		return m.throw(source, p, fault, than)
	}
	take := m.offerOrdered
	if !s.ordered {
		take = m.offerUnordered
	}
	v := take(source, early{p, now})
	if s.count.Gaps > gaps {
		return v, s.fault(s.gap, Gap, at)
	}
	return v, nil
}

func (m *Matcher) far(e uint64) bool { return e >= m.low && e-m.low > m.mask }

// has tells whether a source has a fragment of an event in its place.
func (m *Matcher) has(s *matched, e uint64) bool {
	return e >= m.low && !m.far(e) && s.slots[e&m.mask].Event == e
}

// judge says what is wrong with a number, whatever comes before and after it.
func (m *Matcher) judge(s *matched, e uint64) (Fault, uint64) {
	last := s.next - 1
	switch {
	case e >= NoEvent:
		return Jump, s.next
	case m.has(s, e), find(s.ahead, e) >= 0, find(s.doubts, e) >= 0, s.any && s.ordered && e == last:
		return Repeat, 0
	case s.any && s.ordered && e < last:
		return Backwards, last
	case e < m.low:
		return Late, m.low
	case e < m.decided:
		return Late, m.decided
	}
	return 0, 0
}

func find(list []early, e uint64) int {
	for i := range list {
		if list[i].Event == e {
			return i
		}
	}
	return -1
}

func (m *Matcher) throw(source int, p Piece, fault Fault, at uint64) (Verdict, error) {
	s := &m.sources[source]
	s.account(fault)
	switch fault {
	case Late:
		m.tooLate(source, p.Event)
	case Backwards:
		if bits := wrapped(at, p.Event); bits > 0 {
			s.wrapped = bits
		}
	}
	return Thrown, s.fault(p.Event, fault, at)
}

// account counts a fragment that is not used.
func (s *matched) account(why Fault) {
	switch why {
	case Repeat:
		s.count.Repeats++
	case Backwards:
		s.count.Backwards++
	case Late:
		s.count.Late++
	default:
		s.count.Jumps++
	}
}

// tooLate notes how far a source has come that is late: as far as its numbers follow one another, or two of them are
// near. A single one far ahead does not count.
func (m *Matcher) tooLate(source int, e uint64) {
	s := &m.sources[source]
	switch {
	case !s.ordered:
		if bits := wrapped(s.next-1, e); s.any && bits > 0 {
			s.wrapped = bits
		}
	case s.any && e == s.next || !s.any && e == 0:
		s.came(e)
		m.disbelieve(source, 0)
	case s.late < e && e-s.late <= m.rules.Leap:
		s.came(e)
	default:
		s.late = e
	}
}

// fault says what is wrong with the number of a fragment of this source.
func (s *matched) fault(event uint64, fault Fault, at uint64) error {
	e := &FragmentError{
		Source: s.name,
		Event:  event,
		Fault:  fault,
		At:     at,
	}
	if fault == Backwards || fault == Late {
		e.Bits = s.wrapped
	}
	return e
}

// place puts a fragment that is counted as held into its place.
func (m *Matcher) place(s *matched, p Piece) {
	i := p.Event & m.mask
	s.slots[i] = p
	m.have[i]++
	if p.Event < m.seen {
		m.placed++
	}
	m.bytes[i] += uint32(m.padded(int(p.Size)))
}

// hear notes that there are events below to, which lie in the window, and those that follow them without a gap.
func (m *Matcher) hear(to uint64, now time.Duration) {
	for ; m.seen < to || !m.far(m.seen) && m.have[m.seen&m.mask] > 0; m.seen++ {
		i := m.seen & m.mask
		m.first[i] = now
		m.placed += int(m.have[i])
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
	if end := c.End(); end > m.low {
		m.hear(max(m.seen, m.low+min(end-m.low, m.mask+1)), now-m.rules.Timeout)
	}
}

// Ready tells whether the events of a cut are decided.
func (m *Matcher) Ready(c Cut) bool { return m.decided >= c.End() }

// Cut tells which events the next MEP has.
func (m *Matcher) Cut(c Cut, now time.Duration) {
	end := c.End()
	m.cutAt = now
	for e := max(m.end, m.low); e < min(end, m.reach); e++ {
		m.room += int(m.bytes[e&m.mask])
	}
	if end >= m.reach {
		m.reach, m.room = end, m.rules.Room
	}
	m.end, m.from = end, max(m.from, end)
}

// settle puts fragments into their places that were too far ahead, and lets go of those for which it is too late.
func (m *Matcher) settle(now time.Duration) {
	for i := range m.sources {
		s := &m.sources[i]
		n := 0
		for ; n < len(s.ahead) && !m.far(s.ahead[n].Event); n++ {
			if a := &s.ahead[n]; a.Event < m.low {
				m.drop(i, a.Piece, Late, m.low)
			} else {
				m.place(s, a.Piece)
				m.hear(max(m.seen, a.Event+1), now)
			}
		}
		s.ahead = s.ahead[:copy(s.ahead, s.ahead[n:])]
		for n = 0; n < len(s.doubts); {
			switch d := s.doubts[n]; {
			case d.Event < m.low:
				s.remove(n)
				m.drop(i, d.Piece, Late, m.low)
				m.tooLate(i, d.Event)
				n = 0 // what is doubted may have changed
			case !s.ordered && !m.far(d.Event):
				s.remove(n)
				m.place(s, d.Piece)
				s.wait(d)
			default:
				n++
			}
		}
	}
}

// drop gives a fragment back that was held and is not used.
func (m *Matcher) drop(source int, p Piece, why Fault, at uint64) {
	s := &m.sources[source]
	s.account(why)
	s.count.Held--
	m.dropped = append(m.dropped, Dropped{
		Source: source,
		Piece:  p,
		Why:    why,
		At:     at,
	})
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
	if to > m.low {
		for range min(to-m.low, m.mask+1) {
			m.forget(m.low, used)
		}
		m.low = to
	}
	m.seen, m.decided = max(m.seen, m.low), max(m.decided, m.low)
}

// Throw counts the fragment of an event that is about to be taken as too late.
func (m *Matcher) Throw(source int, e uint64) {
	s, i := &m.sources[source], e&m.mask
	m.bytes[i] -= uint32(m.padded(int(s.slots[i].Size)))
	m.drop(source, s.slots[i], Late, e+1)
	s.slots[i].Event = none
	m.have[i]--
	m.placed--
}

// forget clears the lowest event.
func (m *Matcher) forget(e uint64, used bool) {
	i := e & m.mask
	known := e < m.seen
	for j := range m.sources {
		s := &m.sources[j]
		if m.have[i] == 0 {
			break
		}
		if s.slots[i].Event != e {
			continue
		}
		switch p := s.slots[i]; {
		case used:
			s.count.Used++
			s.count.Missing--
			s.count.Held--
			m.dropped = append(m.dropped, Dropped{Source: j, Piece: p})
		case known:
			m.drop(j, p, Late, e+1)
		default:
			m.drop(j, p, Jump, m.seen)
		}
		s.slots[i].Event = none
		m.have[i]--
		if known {
			m.placed--
		}
	}
	m.bytes[i] = 0
	m.low++
}

// Low is the number below which no fragment is kept any more.
func (m *Matcher) Low() uint64 { return m.low }

// Next is the number behind the highest one of a source that is believed.
func (m *Matcher) Next(source int) uint64 { return m.sources[source].next }

// Dropped gives the fragments that the Matcher does not need any more; they are the caller's until the next call of any
// other method.
func (m *Matcher) Dropped() []Dropped {
	d := m.dropped
	m.dropped = m.dropped[:0]
	return d
}

// Counts are the accounts of a source.
func (m *Matcher) Counts(source int) Counts { return m.sources[source].count }
