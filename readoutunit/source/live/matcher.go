package live

import "time"

// A Matcher puts the fragments of all sources of a readout unit together by the numbers of their events. It is a step
// machine without clock: times are told, as what has passed since any beginning.
//
//	taken         cut, not taken      decided          known          may be kept
//	──────┤low  ────────────────┤end ──────────┤decided ──────┤seen ─────────────┤ low + window
//
// A number comes from outside, and one may be garbage. So it moves nothing before something else speaks for it: see
// suspect.go. No call's cost depends on a number: what a loop passes over lies in the window.
//
// Each fragment that is offered and not Ahead ends in one account of its source: used, repeats, backwards, late, jumps,
// or left over. One goroutine at a time calls its methods. None allocates, but for errors and growing lists.
type Matcher struct {
	// immutable but for SkipFirstTimeout
	rules Rules
	mask  uint64

	low          uint64 // events below are taken, or will never be kept
	cutEnd       uint64 // of the last cut
	reach        uint64 // events below fit into the next MEP, and are decided
	decidedBelow uint64
	seenBelow    uint64        // events below are known to be
	firstUncut   uint64        // the first of [cutEnd, decided) with a fragment
	placed       int           // fragments in places below seen
	spaceLeft    int           // bytes left for the next MEP, at reach
	cutAt        time.Duration // when the last cut came
	reported     Reach
	heldBack     bool // at decided: what is cut before it is to be cut without it
	lacksStopped bool // at decided: it lacks what will not be taken any more

	firstSeen     []time.Duration // by event: when it, or a later one, first came
	sourcesHaving []uint16        // by event: sources that have it
	bytes         []uint32        // by event: of its fragments, padded
	sources       []sourceState
	dropped       []DroppedFragment
}

// sourceState is one source.
type sourceState struct {
	name              string
	ordered           bool
	started           bool              // a fragment came, whatever became of it
	hasAccepted       bool              // a number was accepted
	isOver            bool              // nothing more will come
	stopped           bool              // nothing more is taken from it, though it may have more
	stalled           bool              // nothing is taken from it: the readout unit has no room
	since             time.Duration     // when it began
	resumed           time.Duration     // when it began, or was stalled last
	nextNumber        uint64            // behind the highest number that is accepted
	gapEnd            uint64            // the last number behind those that it left out
	emptyRunSteps     int               // times in a row that it left out minEmptyRun numbers or more: it counts in steps
	lateNumber        uint64            // a number beyond next that came too late; none
	wrapBits          uint8             // its numbers look like a counter of so many bits that began anew; 0
	beyondWindow      []pendingFragment // accepted, and beyond the window: in order
	suspects          []pendingFragment // not accepted: in the order in which they came
	unconfirmedCount  int               // unordered: fragments in a row beyond what is known
	unconfirmedSince  time.Duration     // when the first of them came
	lowestUnconfirmed uint64            // the lowest of them
	highestPlaced     uint64            // unordered: the highest number that is in a place
	fragments         []FragmentRef     // by event
	counts            Counts
}

// pendingFragment is a fragment that is in no place yet, and when it came.
type pendingFragment struct {
	FragmentRef
	arrived time.Duration
}

// noFragment marks a slot without a fragment.
const noFragment = NoEvent

// NewMatcher makes a Matcher. unordered tells, by source, that fragments may come out of order, and that anybody may
// have sent one.
func NewMatcher(rules Rules, names []string, unordered []bool) *Matcher {
	if rules.MaxLeap == 0 {
		rules.MaxLeap = defaultMaxLeap
	}
	m := &Matcher{
		rules:         rules,
		mask:          uint64(rules.Window) - 1,
		spaceLeft:     rules.MaxMEPBytes,
		firstSeen:     make([]time.Duration, rules.Window),
		sourcesHaving: make([]uint16, rules.Window),
		bytes:         make([]uint32, rules.Window),
		sources:       make([]sourceState, len(names)),
	}
	for i, name := range names {
		s := &m.sources[i]
		s.name, s.ordered, s.fragments = name, !unordered[i], make([]FragmentRef, rules.Window)
		s.beyondWindow, s.suspects = make([]pendingFragment, 0, 2*maxSuspects), make([]pendingFragment, 0, maxSuspects)
		s.lateNumber = noFragment
		for j := range s.fragments {
			s.fragments[j].Event = noFragment
		}
	}
	return m
}

// Offer takes a fragment of a source. The error is a *FragmentError: what is wrong with a fragment that is Thrown; or
// that numbers were left out before fragments that are Kept. How often there was one is counted.
func (m *Matcher) Offer(source int, p FragmentRef, now time.Duration) (OfferResult, error) {
	s := &m.sources[source]
	if !s.started && p.Event < NoEvent {
		s.started, s.since, s.resumed = true, now, now // for the events that waited for it its time counts from here
	}
	gaps, at := s.counts.Gaps, s.nextNumber
	fault, than := m.checkNumber(s, p.Event)
	if fault > 0 {
		return m.throwAway(source, p, fault, than)
	}
	offer := m.offerOrdered
	if !s.ordered {
		offer = m.offerUnordered
	}
	v := offer(source, pendingFragment{p, now})
	if s.counts.Gaps > gaps {
		return v, s.faultError(s.gapEnd, FaultGap, at)
	}
	return v, nil
}

func (m *Matcher) isBeyondWindow(e uint64) bool { return e >= m.low && e-m.low > m.mask }

// holdsFragment tells whether a source has a fragment of an event in its place.
func (m *Matcher) holdsFragment(s *sourceState, e uint64) bool {
	return e >= m.low && !m.isBeyondWindow(e) && s.fragments[e&m.mask].Event == e
}

// checkNumber says what is wrong with a number, whatever comes before and after it.
func (m *Matcher) checkNumber(s *sourceState, e uint64) (Fault, uint64) {
	last := s.nextNumber - 1
	switch {
	case e >= NoEvent:
		return FaultJump, s.nextNumber
	case m.holdsFragment(s, e), indexOf(s.beyondWindow, e) >= 0, indexOf(s.suspects, e) >= 0, s.hasAccepted && s.ordered &&
		e == last:
		return FaultRepeat, 0
	case s.hasAccepted && s.ordered && e < last:
		return FaultBackwards, last
	case e < m.low:
		return FaultLate, m.low
	case e < m.decidedBelow:
		return FaultLate, m.decidedBelow
	}
	return 0, 0
}

func indexOf(list []pendingFragment, e uint64) int {
	for i := range list {
		if list[i].Event == e {
			return i
		}
	}
	return -1
}

func (m *Matcher) throwAway(source int, p FragmentRef, fault Fault, at uint64) (OfferResult, error) {
	s := &m.sources[source]
	s.countThrown(fault)
	switch fault {
	case FaultLate:
		m.noteLate(source, p.Event)
	case FaultBackwards:
		if bits := counterBits(at, p.Event); bits > 0 {
			s.wrapBits = bits
		}
	}
	return OfferThrown, s.faultError(p.Event, fault, at)
}

// countThrown counts a fragment that is not used.
func (s *sourceState) countThrown(why Fault) {
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
func (m *Matcher) noteLate(source int, e uint64) {
	s := &m.sources[source]
	switch {
	case !s.ordered:
		if bits := counterBits(s.nextNumber-1, e); s.hasAccepted && bits > 0 {
			s.wrapBits = bits
		}
	case s.hasAccepted && e == s.nextNumber || !s.hasAccepted && e == 0:
		s.noteAccepted(e)
		m.dropSuspects(source, 0)
	case s.lateNumber < e && e-s.lateNumber <= m.rules.MaxLeap:
		s.noteAccepted(e)
	default:
		s.lateNumber = e
	}
}

// faultError says what is wrong with the number of a fragment of this source.
func (s *sourceState) faultError(event uint64, fault Fault, at uint64) error {
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
func (m *Matcher) place(s *sourceState, p FragmentRef) {
	i := p.Event & m.mask
	s.fragments[i] = p
	m.sourcesHaving[i]++
	if p.Event < m.seenBelow {
		m.placed++
	}
	m.bytes[i] += uint32(m.paddedBytes(int(p.Size)))
}

// extendSeen notes that there are events below to, which lie in the window, and those that follow them without a gap.
func (m *Matcher) extendSeen(to uint64, now time.Duration) {
	for ; m.seenBelow < to || !m.isBeyondWindow(m.seenBelow) && m.sourcesHaving[m.seenBelow&m.mask] > 0; m.seenBelow++ {
		i := m.seenBelow & m.mask
		m.firstSeen[i] = now
		m.placed += int(m.sourcesHaving[i])
	}
}

func (m *Matcher) paddedBytes(size int) int {
	unit := 1<<m.rules.AlignLog2 - 1
	return (size + unit) &^ unit
}

// SetStalled tells that nothing is taken from a source any more, or that it is again. While it is, nobody waits for it
// in vain.
func (m *Matcher) SetStalled(source int, stalled bool, now time.Duration) {
	s := &m.sources[source]
	if s.stalled && !stalled {
		s.resumed = now
	}
	s.stalled = stalled
}

// SkipFirstTimeout has nobody wait longer for the first fragment of a source than for any other: the run goes on
// already.
func (m *Matcher) SkipFirstTimeout() { m.rules.FirstFragmentTimeout = 0 }

// CountLeftOver tells of fragments that will not be offered, since the run ends and there is no room: they are left
// over.
func (m *Matcher) CountLeftOver(source, n int) {
	m.sources[source].counts.WaitingFragments += uint64(n)
}

// ExpectCut tells that the events of a cut are, and that they have waited as long as an event may. It is the next one
// to be taken.
func (m *Matcher) ExpectCut(c Cut, now time.Duration) {
	m.forgetBelow(c.First, false) // what is before it is in no MEP
	m.placePending(now)
	if end := c.End(); end > m.low {
		m.extendSeen(max(m.seenBelow, m.low+min(end-m.low, m.mask+1)), now-m.rules.FragmentTimeout)
	}
}

// IsCutDecided tells whether the events of a cut are decided.
func (m *Matcher) IsCutDecided(c Cut) bool { return m.decidedBelow >= c.End() }

// AddCut tells which events the next MEP has.
func (m *Matcher) AddCut(c Cut, now time.Duration) {
	end := c.End()
	m.cutAt = now
	for e := max(m.cutEnd, m.low); e < min(end, m.reach); e++ {
		m.spaceLeft += int(m.bytes[e&m.mask])
	}
	if end >= m.reach {
		m.reach, m.spaceLeft = end, m.rules.MaxMEPBytes
	}
	m.cutEnd, m.firstUncut = end, max(m.firstUncut, end)
}

// placePending puts fragments into their places that were too far ahead, and lets go of those for which it is too late.
func (m *Matcher) placePending(now time.Duration) {
	for i := range m.sources {
		s := &m.sources[i]
		n := 0
		for ; n < len(s.beyondWindow) && !m.isBeyondWindow(s.beyondWindow[n].Event); n++ {
			if a := &s.beyondWindow[n]; a.Event < m.low {
				m.drop(i, a.FragmentRef, FaultLate, m.low)
			} else {
				m.place(s, a.FragmentRef)
				m.extendSeen(max(m.seenBelow, a.Event+1), now)
			}
		}
		s.beyondWindow = s.beyondWindow[:copy(s.beyondWindow, s.beyondWindow[n:])]
		for n = 0; n < len(s.suspects); {
			switch d := s.suspects[n]; {
			case d.Event < m.low:
				s.removeSuspect(n)
				m.drop(i, d.FragmentRef, FaultLate, m.low)
				m.noteLate(i, d.Event)
				n = 0 // what is suspect may have changed
			case !s.ordered && !m.isBeyondWindow(d.Event):
				s.removeSuspect(n)
				m.place(s, d.FragmentRef)
				s.addUnconfirmed(d)
			default:
				n++
			}
		}
	}
}

// drop gives a fragment back that was held and is not used.
func (m *Matcher) drop(source int, p FragmentRef, why Fault, at uint64) {
	s := &m.sources[source]
	s.countThrown(why)
	s.counts.WaitingFragments--
	m.dropped = append(m.dropped, DroppedFragment{
		Source:      source,
		FragmentRef: p,
		Fault:       why,
		Reference:   at,
	})
}

// FragmentAt is the fragment of a source for an event of the cut that is taken, if it has one. A cut's bytes may exceed
// Rules.MaxMEPBytes only if it goes beyond the Reach that was told.
func (m *Matcher) FragmentAt(source int, e uint64) (FragmentRef, bool) {
	if e < m.low {
		return FragmentRef{}, false
	}
	p := m.sources[source].fragments[e&m.mask]
	return p, p.Event == e
}

// FirstMissing is the first fragment that is missing in a cut, as an error; nil if all are there.
func (m *Matcher) FirstMissing(c Cut) error {
	for e := c.First; e < c.End(); e++ {
		for i := range m.sources {
			if _, ok := m.FragmentAt(i, e); !ok {
				return &MissingError{m.sources[i].name, e}
			}
		}
	}
	return nil
}

// FinishCut counts the events of a cut as built and gives their fragments back to the caller, who has copied them.
func (m *Matcher) FinishCut(c Cut, now time.Duration) {
	for i := range m.sources {
		m.sources[i].counts.Missing += uint64(c.Events)
	}
	m.forgetBelow(c.First, false)
	m.forgetBelow(c.End(), true)
	m.placePending(now)
}

// forgetBelow forgets the events below to.
func (m *Matcher) forgetBelow(to uint64, used bool) {
	if to > m.low {
		for range min(to-m.low, m.mask+1) {
			m.forgetEvent(m.low, used)
		}
		m.low = to
	}
	m.seenBelow, m.decidedBelow = max(m.seenBelow, m.low), max(m.decidedBelow, m.low)
}

// DropLate counts the fragment of an event that is about to be taken as too late.
func (m *Matcher) DropLate(source int, e uint64) {
	s, i := &m.sources[source], e&m.mask
	m.bytes[i] -= uint32(m.paddedBytes(int(s.fragments[i].Size)))
	m.drop(source, s.fragments[i], FaultLate, e+1)
	s.fragments[i].Event = noFragment
	m.sourcesHaving[i]--
	m.placed--
}

// forgetEvent clears the lowest event.
func (m *Matcher) forgetEvent(e uint64, used bool) {
	i := e & m.mask
	known := e < m.seenBelow
	for j := range m.sources {
		s := &m.sources[j]
		if m.sourcesHaving[i] == 0 {
			break
		}
		if s.fragments[i].Event != e {
			continue
		}
		switch p := s.fragments[i]; {
		case used:
			s.counts.Used++
			s.counts.Missing--
			s.counts.WaitingFragments--
			m.dropped = append(m.dropped, DroppedFragment{Source: j, FragmentRef: p})
		case known:
			m.drop(j, p, FaultLate, e+1)
		default:
			m.drop(j, p, FaultJump, m.seenBelow)
		}
		s.fragments[i].Event = noFragment
		m.sourcesHaving[i]--
		if known {
			m.placed--
		}
	}
	m.bytes[i] = 0
	m.low++
}

// Low is the number below which no fragment is kept any more.
func (m *Matcher) Low() uint64 { return m.low }

// NextEvent is the number behind the highest one of a source that is accepted.
func (m *Matcher) NextEvent(source int) uint64 { return m.sources[source].nextNumber }

// TakeDropped gives the fragments that the Matcher does not need any more; they are the caller's until the next call of
// any other method.
func (m *Matcher) TakeDropped() []DroppedFragment {
	d := m.dropped
	m.dropped = m.dropped[:0]
	return d
}

// Counts are the accounts of a source.
func (m *Matcher) Counts(source int) Counts { return m.sources[source].counts }
