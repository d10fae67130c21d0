package live

import (
	"fmt"
	"math"
	"time"

	"ringlet/event"
)

// A Matcher puts the fragments of all sources of a readout unit together by the numbers of their events. It is a step
// machine without clock: times are told, as what has passed since any beginning.
//
// A number comes from outside, and one may be garbage. So it moves nothing before something else speaks for it: see
// numbering. No call's cost depends on a number: what a loop passes over lies in the window.
//
// Each fragment that is offered and not Ahead ends in one account of its source: used, repeats, backwards, late, jumps,
// or left over. One goroutine at a time calls its methods. None allocates, but for errors and growing lists.
type Matcher struct {
	rules        Rules
	numbering    numbering
	cuts         cuts
	heldBack     bool // at decided: what is cut before it is to be cut without it
	lacksStopped bool // at decided: it lacks what will not be taken any more
}

// NewMatcher makes a Matcher. unordered tells, by source, that fragments may come out of order, and that anybody may
// have sent one.
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

// Offer takes a fragment of a source. The error is a *FragmentError: what is wrong with a fragment that is Thrown; or
// that numbers were left out before fragments that are Kept. How often there was one is counted.
func (m *Matcher) Offer(source int, p FragmentRef, now time.Duration) (OfferResult, error) {
	s := &m.numbering.sources[source]
	if !s.started && p.Event < NoEvent {
		s.started, s.since, s.resumed = true, now, now // for the events that waited for it its time counts from here
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

// SetStalled tells that nothing is taken from a source any more, or that it is again. While it is, nobody waits for it
// in vain.
func (m *Matcher) SetStalled(source int, stalled bool, now time.Duration) {
	s := &m.numbering.sources[source]
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
	m.numbering.sources[source].counts.WaitingFragments += uint64(n)
}

// MarkSourceOver tells that a source will give nothing more.
func (m *Matcher) MarkSourceOver(source int) { m.numbering.sources[source].isOver = true }

// StopSource tells that nothing more is taken from a source, since the run ends. What it has not given is missing at
// once; or is not built at all, where no event may lack a fragment.
func (m *Matcher) StopSource(source int) {
	s := &m.numbering.sources[source]
	s.isOver = s.isOver || m.rules.OnMissing != StopAtMissing
	s.stopped = true
}

// AddCut tells which events a further MEP has.
func (m *Matcher) AddCut(c Cut, now time.Duration) { m.cuts.add(c, now) }

// IsCutDecided tells whether there is a cut that is not taken, and the events of the first one are decided.
func (m *Matcher) IsCutDecided() bool { return m.cuts.isDecided() }

// TakeCut writes the fragments of the first cut to dst, source by source, once its events are decided; false before
// that. What is missing has the type FragmentMissing. FinishCut comes before the next one. The error says why no MEP
// can be made: a *MissingError, if it lacks what it may not lack.
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

// collect writes the fragments of a cut to dst. What has no room, which only those can that came when the cut was made
// without them, came too late.
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

// firstMissing is the first fragment that is missing in a cut, as an error; nil if all are there.
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

// FinishCut counts the events of the first cut as built and gives their fragments back to the caller, who has copied
// them.
func (m *Matcher) FinishCut(now time.Duration) {
	c, n := m.cuts.list[0], &m.numbering
	m.cuts.remove()
	for i := range n.sources {
		n.sources[i].counts.Missing += uint64(c.Events)
	}
	n.forgetBelow(c.First, false)
	n.forgetBelow(c.End(), true)
	n.placePending(now)
}

// Low is the number below which no fragment is kept any more.
func (m *Matcher) Low() uint64 { return m.numbering.window.low }

// NextEvent is the number behind the highest one of a source that is accepted.
func (m *Matcher) NextEvent(source int) uint64 { return m.numbering.sources[source].nextNumber }

// TakeDropped gives the fragments that the Matcher does not need any more; they are the caller's until the next call of
// any other method.
func (m *Matcher) TakeDropped() []DroppedFragment {
	d := m.numbering.dropped
	m.numbering.dropped = d[:0]
	return d
}

// Counts are the accounts of a source.
func (m *Matcher) Counts(source int) Counts { return m.numbering.sources[source].counts }

// Step decides what time decides. It returns how far the data go, and when to call it again; Never, if only a fragment
// changes anything.
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

// expectCut takes from the cut that is to be taken next that its events are, and that they have waited as long as an
// event may. What is before it is in no MEP.
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

// decideEvents moves on over events of which every fragment is there or given up.
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
		for j := range n.sources { // it is decided now, and with it what is suspect of it
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

// leapAhead goes on to numbers far ahead that are accepted, if there is nothing before them. It returns when to look
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

// allOver tells that all sources are, and have nothing beyond reach that is to be built.
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
