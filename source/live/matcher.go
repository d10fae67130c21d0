package live

import (
	"fmt"
	"math"
	"time"

	"ringlet/event"
)

// A Matcher matches the fragments of all sources of a readout unit by their event numbers. It is a state machine
// without a clock: the caller passes times, as durations since any fixed moment.
//
// An event number comes from outside and may be garbage. So a single number changes nothing before another fragment
// confirms it: see numbering. The cost of a call does not depend on a number: loops over events stay within the
// window.
//
// Each fragment that is offered, and not OfferAhead, ends in one account of its source: used, repeats, backwards,
// late, jumps, unmatched, or left over. One goroutine at a time calls the methods. They allocate only for errors and
// growing lists.
type Matcher struct {
	rules        Rules
	numbering    numbering
	cuts         cuts
	heldBack     bool // at decidedBelow: earlier events must be cut first, in a MEP of their own
	awaitsCut    bool // the run goes on already, and no cut has said how far it has come
	lacksStopped bool // at decidedBelow: the event lacks a fragment that a stopped source will not give
}

// NewMatcher returns a Matcher. unordered says by source whether fragments may come out of order and any host may have
// sent one, as over UDP.
func NewMatcher(rules Rules, names []string, unordered []bool) *Matcher {
	if rules.MaxLeap == 0 {
		rules.MaxLeap = defaultMaxLeap
	}
	m := &Matcher{
		rules: rules,
		numbering: numbering{
			window:  newWindow(rules.Window, rules.AlignLog2),
			sources: make([]sourceNumbers, len(names)),
		},
	}
	n := &m.numbering
	m.cuts = cuts{window: &n.window, rules: &m.rules, spaceLeft: rules.MaxMEPBytes}
	for i, name := range names {
		n.sources[i] = sourceNumbers{
			name:    name,
			index:   i,
			ordered: !unordered[i],
			window:  &n.window,
			rules:   &m.rules,
			dropped: &n.dropped,
		}
		n.sources[i].begin()
	}
	return m
}

// Offer offers a fragment of a source. If the source has a counter (SetWrap), its number becomes one of 64 bits. The
// error is a *FragmentError: with OfferThrown, what is wrong with the fragment; with OfferKept, that numbers were left
// out before it. The Matcher counts both.
func (m *Matcher) Offer(source int, p FragmentRef, now time.Duration) (OfferResult, error) {
	s := &m.numbering.sources[source]
	if !s.started && p.Event < NoEvent {
		s.started, s.since, s.resumed = true, now, now // for events that waited for the source, its time-out begins now
	}
	if s.offered = p.Event; s.wraps() {
		if p.Event>>s.counterBits > 0 {
			s.countThrown(FaultJump)
			return OfferThrown, &FragmentError{Source: s.name, Event: p.Event, Fault: FaultJump, WideBits: s.counterBits}
		}
		if m.awaitsCut {
			return OfferAhead, nil
		}
		s.offered = s.unwrap(p.Event, m.firstExpected(), max(m.numbering.window.low, m.cuts.end))
		p.Event = s.offered
	}
	gaps, at := s.counts.Gaps, s.nextNumber
	if fault, than := s.checkNumber(p.Event); fault > 0 {
		return s.throwAway(p, fault, than)
	}
	offer := m.numbering.offerUnordered
	if s.ordered {
		offer = m.numbering.offerOrdered
	}
	v := offer(s, pendingFragment{p, now})
	if s.counts.Gaps > gaps {
		return v, s.faultError(s.gapEnd, FaultGap, at)
	}
	return v, nil
}

// Offered returns the number of the fragment that a source offered last, as it was judged.
func (m *Matcher) Offered(source int) uint64 { return m.numbering.sources[source].offered }

// ThrowUnnumbered counts a fragment of a front-end's event as thrown away, since it has no number by which events are
// matched: why says what it lacks, or how far it is off.
func (m *Matcher) ThrowUnnumbered(source int, event uint64, why FragmentError) error {
	s := &m.numbering.sources[source]
	if why.Off > 0 {
		s.counts.Unmatched++
	} else {
		s.countThrown(FaultJump)
	}
	why.Source, why.Event, why.Fault = s.name, event, FaultJump
	return &why
}

// SetStalled says that the caller takes no more fragments from a source, since it has no room, or takes them again. A
// stalled source is not given up for its silence.
func (m *Matcher) SetStalled(source int, stalled bool, now time.Duration) {
	s := &m.numbering.sources[source]
	if s.stalled && !stalled {
		s.resumed = now
	}
	s.stalled = stalled
}

// SkipFirstTimeout gives the first fragment of a source no longer time-out than any other: the run goes on already.
// A source with a counter waits for the first cut, which says how far the run has come.
func (m *Matcher) SkipFirstTimeout() { m.rules.FirstFragmentTimeout, m.awaitsCut = 0, true }

// CountLeftOver counts fragments as left over that the caller will not offer, since the run ends and there is no room.
func (m *Matcher) CountLeftOver(source, n int) {
	m.numbering.sources[source].counts.WaitingFragments += uint64(n)
}

// MarkSourceOver notes that a source will give no more fragments.
func (m *Matcher) MarkSourceOver(source int) { m.numbering.sources[source].isOver = true }

// StopSource notes that the caller takes no more fragments from a source, since the run ends. What the source has not
// given is missing at once; with StopAtMissing, events that lack its fragments are not built at all.
func (m *Matcher) StopSource(source int) {
	s := &m.numbering.sources[source]
	s.isOver = s.isOver || m.rules.OnMissing != StopAtMissing
	s.stopped = true
}

// AddCut adds a cut: the events of a further MEP.
func (m *Matcher) AddCut(c Cut, now time.Duration) {
	m.cuts.add(c, now)
	m.awaitsCut = false
}

// IsCutDecided says whether there is a cut that is not taken and the events of the first one are decided.
func (m *Matcher) IsCutDecided() bool { return m.cuts.isDecided() }

// TakeCut writes the fragments of the first cut to dst, source by source, once its events are decided; ready is false
// before that. A missing fragment has the type FragmentMissing. The caller must call FinishCut before the next
// TakeCut. The error says why the MEP cannot be made: a *MissingError, if it lacks a fragment with StopAtMissing.
func (m *Matcher) TakeCut(dst []FragmentRef) (c Cut, ready bool, err error) {
	if len(m.cuts.list) == 0 {
		return c, false, nil
	}
	if c = m.cuts.list[0]; int64(c.Events) > int64(m.rules.Packing) {
		return c, false, fmt.Errorf("the scheduler has cut a MEP of %d events, and packing is %d: all processes of a run "+
			"need the same settings", c.Events, m.rules.Packing)
	}
	if !m.IsCutDecided() {
		return c, false, nil
	}
	if m.rules.OnMissing == StopAtMissing {
		if err := m.firstMissing(c); err != nil {
			return c, false, err
		}
	}
	m.collect(c, dst)
	return c, true, nil
}

// collect writes the fragments of a cut to dst. The scheduler cut the MEP so that the fragments reported by then have
// room. A fragment without room can only have come after that, and counts as late.
func (m *Matcher) collect(c Cut, dst []FragmentRef) {
	space, n := m.rules.MaxMEPBytes, int(c.Events)
	for i := range m.numbering.sources {
		s := &m.numbering.sources[i]
		for j := range n {
			e := c.First + uint64(j)
			p := FragmentRef{Event: NoEvent, Type: event.FragmentMissing}
			if s.holds(e) {
				held := s.fragments[e&s.window.mask]
				if size := int(s.window.padded(held.Size)); size <= space {
					space -= size
					p = held
				} else {
					s.leavePlace(e, FaultLate, e+1)
				}
			}
			dst[i*n+j] = p
		}
	}
}

// firstMissing returns an error for the first missing fragment of a cut; nil if there is none.
func (m *Matcher) firstMissing(c Cut) error {
	for e := c.First; e < c.End(); e++ {
		for i := range m.numbering.sources {
			if s := &m.numbering.sources[i]; !s.holds(e) {
				return &MissingError{s.name, e}
			}
		}
	}
	return nil
}

// FinishCut counts the events of the first cut as built and drops their fragments, which the caller has copied.
func (m *Matcher) FinishCut(now time.Duration) {
	c, n := m.cuts.list[0], &m.numbering
	m.cuts.remove()
	for i := range n.sources {
		s := &n.sources[i]
		s.missingBefore = s.counts.Missing
		s.counts.Missing += uint64(c.Events)
	}
	n.forgetBelow(c.First, false)
	n.forgetBelow(c.End(), true)
	for i := range n.sources {
		s := &n.sources[i]
		s.history.add(now, uint64(c.Events), s.counts.Missing-s.missingBefore)
	}
	n.placePending(now)
}

// Low returns the number below which the Matcher keeps no fragment any more.
func (m *Matcher) Low() uint64 { return m.numbering.window.low }

// NextEvent returns the number after the highest accepted number of a source.
func (m *Matcher) NextEvent(source int) uint64 { return m.numbering.sources[source].nextNumber }

// TakeDropped returns the fragments that the Matcher does not need any more. The slice is valid until the next call of
// any other method.
func (m *Matcher) TakeDropped() []DroppedFragment {
	d := m.numbering.dropped
	m.numbering.dropped = d[:0]
	return d
}

// Counts returns the accounts of a source.
func (m *Matcher) Counts(source int) Counts { return m.numbering.sources[source].counts }

// History returns when the fragments of a source were missing.
func (m *Matcher) History(source int) History { return m.numbering.sources[source].history }

// Step decides what depends on time. It returns how far the data go, and when to call it again; Never, if only a
// fragment can change anything.
func (m *Matcher) Step(now time.Duration) (Reach, time.Duration) {
	n := &m.numbering
	m.expectCut(now)
	if n.allStopped() {
		for i := range n.sources {
			n.sources[i].resolveSuspects(now)
		}
	}
	again := min(n.acceptPersistent(now), m.leapAhead(now))
	again = min(again, m.decideEvents(now))
	m.cuts.grow()
	m.cuts.report(m.allOver())
	return m.cuts.reported, min(again, m.cuts.updateDeadlines(m.heldBack || n.anyStalled(), now))
}

// expectCut learns from the next cut to be taken that its events exist, and counts them as having waited for as long
// as an event may. Events before the cut are in no MEP.
func (m *Matcher) expectCut(now time.Duration) {
	if len(m.cuts.list) == 0 {
		return
	}
	c, w := m.cuts.list[0], &m.numbering.window
	m.numbering.forgetBelow(c.First, false)
	m.numbering.placePending(now)
	if end := c.End(); end > w.low {
		w.extendSeen(w.low+min(end-w.low, w.mask+1), now-m.rules.FragmentTimeout)
	}
}

// alreadyDue is a time before every other.
const alreadyDue = time.Duration(math.MinInt64)

// decideEvents goes on over events whose fragments are all there or given up.
func (m *Matcher) decideEvents(now time.Duration) (again time.Duration) {
	n, w := &m.numbering, &m.numbering.window
	m.heldBack, m.lacksStopped = false, false
	for ; w.decidedBelow < w.seenBelow; w.decidedBelow++ {
		e := w.decidedBelow
		i := e & w.mask
		if int(w.having[i]) == len(n.sources) {
			continue
		}
		due := alreadyDue
		for j := range n.sources {
			if s := &n.sources[j]; s.fragments[i].Event != e {
				due = max(due, s.giveUpTime(e, w.firstSeen[i]))
			}
		}
		m.lacksStopped = due == Never && n.allStopped()
		if now < due {
			return due
		}
		for j := range n.sources { // the event is decided now, and its suspect fragments with it
			if s := &n.sources[j]; s.suspects.includes(e) {
				s.acceptSuspects(e)
			}
		}
		complete := int(w.having[i]) == len(n.sources)
		if !complete && (m.rules.OnMissing == StopAtMissing || w.startsEmptyRun()) && m.cuts.hasUncut() {
			m.heldBack = true
			return Never
		}
	}
	return Never
}

// leapAhead goes on to accepted numbers far ahead, if there are no fragments before them. It returns when to look
// again.
func (m *Matcher) leapAhead(now time.Duration) time.Duration {
	n := &m.numbering
	if n.window.low < m.cuts.end || n.window.placed > 0 {
		return Never
	}
	least, since := NoEvent, Never
	for i := range n.sources {
		if l := n.sources[i].beyondWindow; len(l) > 0 {
			least, since = min(least, l[0].Event), min(since, l[0].arrived)
		}
	}
	if least == NoEvent {
		return Never
	}
	for i := range n.sources {
		s := &n.sources[i]
		due := max(since, s.resumed) + m.rules.FragmentTimeout
		switch {
		case len(s.beyondWindow) > 0, s.isOver, s.stalled && !s.ordered:
		case m.rules.OnMissing == WaitForMissing, s.stopped:
			return Never
		case now < due:
			return due
		}
	}
	n.forgetBelow(least, false)
	m.cuts.leap(least)
	n.placePending(now)
	return Never
}

// allOver says that all sources are over, and have no fragment beyond reach that is to be built.
func (m *Matcher) allOver() bool {
	n, reach := &m.numbering, m.cuts.reach
	if !n.allStopped() || m.heldBack {
		return false
	}
	if m.lacksStopped {
		return reach >= n.window.decidedBelow
	}
	waits, leaps := false, true
	for i := range n.sources {
		s := &n.sources[i]
		waits, leaps = waits || len(s.beyondWindow) > 0, leaps && (len(s.beyondWindow) > 0 || s.isOver)
	}
	return reach >= n.window.seenBelow && !(waits && leaps)
}
