package core

import (
	"fmt"
	"slices"
	"testing"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// A cluster is a run in which schedulers and nodes are lost: folded nodes, each with a readout and a builder unit, one
// of which has the scheduler. It holds each unit to what real ones promise, and fails when a slot would get two MEPs, a
// part is needed that was freed, or a MEP would be built twice with the same attempt.
type cluster struct {
	t     testing.TB
	cfg   Config
	total uint64
	core  *Core
	term  uint64
	now   int64
	home  int // node of the scheduler
	down  bool
	nodes []*clusterNode
	wire  []clusterWrite      // under way between nodes
	ended map[uint64][]uint8  // attempts that have an outcome
	last  map[uint64]Feedback // that of the highest attempt
	drops bool                // builder units discard and reject MEPs, too
	made  map[uint64]Cut      // events of the MEPs on disk, where the data are live
	// of the successor: nodes whose units wait for the answer, by stream
	pending map[uint64]Unit
	streams uint64
	count   struct{ takeovers, late, orphans, killed, back int }
}

type clusterNode struct {
	alive, lost, attachedRU, attachedBU bool
	lacksBelow                          []uint64 // by readout unit

	// readout unit

	session                          uint64
	streamRU, streamBU               uint64
	known                            Recall
	log                              TokenLog
	read, first                      uint64
	cuts                             CutLog
	cutOf                            map[uint64]Cut
	arrived, flush, overdue          uint64 // events below, of live data
	endReported                      bool
	toWrite                          []PlacedToken
	withdrawnBefore                  []uint64 // by builder unit
	fromScheduler, fromSchedulerToBU []Notice

	// builder unit

	slots     []clusterSlot
	outcomes  *OutcomeLog
	entries   uint64
	unsent    []Feedback // not taken by the scheduler
	absences  []Absence
	confirmTo uint64 // position to confirm; 0: none
}

type clusterSlot struct {
	busy    bool
	mep     uint64
	attempt uint8
	cut     Cut
	parts   []bool
}

type clusterWrite struct {
	ru  int
	cut Cut
	PlacedToken
}

func newCluster(t testing.TB, nodes int, cfg Config, total uint64, withHome bool) *cluster {
	c := &cluster{t: t, cfg: cfg, total: total, ended: map[uint64][]uint8{}, last: map[uint64]Feedback{},
		made: map[uint64]Cut{}, pending: map[uint64]Unit{}, home: -1}
	if withHome {
		c.home = 0
	}
	for range nodes {
		c.nodes = append(c.nodes, c.newProcess())
	}
	c.makeCore(nil)
	for i := range c.nodes {
		c.attach(Unit{Readout, i}, nil)
		c.attach(Unit{Builder, i}, nil)
	}
	for i := range c.nodes {
		if cfg.Live { // a unit has begun with the first message
			c.receive(i)
		}
	}
	return c
}

func (c *cluster) newProcess() *clusterNode {
	n := len(c.cfg.BUs)
	effective, err := c.cfg.withDefaults()
	must(c.t, err)
	p := &clusterNode{alive: true, lacksBelow: make([]uint64, n), withdrawnBefore: make([]uint64, n),
		slots: make([]clusterSlot, c.cfg.Slots), outcomes: NewOutcomeLog(effective.Window, c.cfg.Slots),
		cutOf: map[uint64]Cut{}}
	c.streams++
	p.session = c.streams
	for i := range p.slots {
		p.slots[i].parts = make([]bool, n)
	}
	return p
}

func (c *cluster) makeCore(living []Unit) {
	c.term++
	core, err := New(Settings{View: c.cfg, Term: c.term, Living: living})
	must(c.t, err)
	c.core, c.down = core, false
}

// tick is a time for the core.
func (c *cluster) tick() int64 { c.now++; return c.now }

// attach begins a stream.
func (c *cluster) attach(u Unit, recall *Recall) bool {
	c.streams++
	n := c.nodes[u.Index]
	a := c.core.Step(c.tick(), Attach{Unit: u, Stream: c.streams, Session: n.session, Recall: recall})
	if a.Err != nil {
		return false
	}
	if u.Role == Readout {
		n.streamRU = c.streams
	} else {
		n.streamBU = c.streams
	}
	if a.Pending {
		c.pending[c.streams] = u
	} else {
		c.admit(u, a)
	}
	c.takeReady()
	return true
}

// admit gives a unit the answer to its stream.
func (c *cluster) admit(u Unit, a Answer) {
	n := c.nodes[u.Index]
	if u.Role == Readout {
		c.checkTriggers(n)
		n.attachedRU, n.fromScheduler = true, slices.Clone(a.Known)
		c.repeatReport(n, u.Index)
		return
	}
	n.attachedBU, n.fromSchedulerToBU = true, slices.Clone(a.Known)
	n.unsent = n.unsent[len(n.unsent)-int(n.entries-a.Taken):]
}

// takeReady carries out what the core has ready.
func (c *cluster) takeReady() {
	if c.down {
		return
	}
	r := c.core.Ready(c.tick())
	for _, err := range r.Remarks {
		c.t.Fatalf("an outcome was refused: %v", err)
	}
	for _, a := range r.Admitted {
		c.admit(c.pending[a.Stream], a.Answer)
		delete(c.pending, a.Stream)
	}
	for _, e := range r.Ended {
		for _, n := range c.nodes {
			if n.streamRU == e.Stream {
				n.attachedRU = false
			}
			if n.streamBU == e.Stream {
				n.attachedBU = false
			}
		}
	}
	for i := range r.Notices {
		for _, n := range c.nodes {
			// Those of an answer have come already, with their sequence numbers.
			if n.attachedRU && !c.had(n.fromScheduler, r.Notices[i].Sequence) {
				n.fromScheduler = append(n.fromScheduler, r.Notices[i])
			}
			if n.attachedBU && !c.had(n.fromSchedulerToBU, r.Notices[i].Sequence) {
				n.fromSchedulerToBU = append(n.fromSchedulerToBU, r.Notices[i])
			}
		}
	}
}

func (c *cluster) had(queue []Notice, sequence uint64) bool {
	return len(queue) > 0 && queue[len(queue)-1].Sequence >= sequence
}

// A step is something that can happen next.
type clusterStep struct {
	name string
	do   func()
}

// steps are all that can happen, but losses.
func (c *cluster) steps() (all []clusterStep) {
	add := func(do func(), format string, args ...any) {
		all = append(all, clusterStep{fmt.Sprintf(format, args...), do})
	}
	for i, n := range c.nodes {
		if !n.alive {
			if !n.lost && !c.down && c.core.succession == nil {
				add(func() { c.exclude(i) }, "n%d is excluded", i)
			}
			continue
		}
		if ahead := uint64(c.cfg.Slots * len(c.cfg.BUs) * 2); n.attachedRU && !c.down && n.first != NoMEP &&
			n.read < min(c.readable(n), n.known.Released+ahead) {
			add(func() { c.report(i) }, "ru%d reads", i)
		}
		c.addLiveSteps(i, add)
		if len(n.fromScheduler) > 0 {
			add(func() { c.receive(i) }, "ru%d hears", i)
		}
		if len(n.fromSchedulerToBU) > 0 {
			add(func() { c.receiveBU(i) }, "bu%d hears", i)
		}
		if len(n.toWrite) > 0 {
			add(func() { c.write(i) }, "ru%d writes", i)
		}
		for s := range n.slots {
			if c.isComplete(n, s) {
				add(func() { c.finish(i, s, Built) }, "bu%d finishes slot %d", i, s)
				if c.drops {
					add(func() { c.finish(i, s, Discarded) }, "bu%d discards slot %d", i, s)
					add(func() { c.finish(i, s, Rejected) }, "bu%d rejects slot %d", i, s)
				}
			}
		}
		if n.attachedBU && !c.down && (len(n.unsent) > 0 || n.confirmTo > 0) {
			add(func() { c.feedBack(i) }, "bu%d reports", i)
		}
	}
	for w := range c.wire {
		if w == 0 || c.wire[w].ru != c.wire[w-1].ru || c.wire[w].BU != c.wire[w-1].BU {
			add(func() { c.arrive(w) }, "write %d arrives", w)
		}
	}
	for i, n := range c.nodes {
		if !c.down && c.core.succession != nil && n.alive {
			if ru := (Unit{Readout, i}); !n.attachedRU && !c.isPending(ru) {
				add(func() { c.recall(ru) }, "ru%d recalls", i)
			}
			if bu := (Unit{Builder, i}); !n.attachedBU && !c.isPending(bu) {
				add(func() { c.recall(bu) }, "bu%d recalls", i)
			}
		}
	}
	if !c.down && c.core.succession != nil && slices.ContainsFunc(c.nodes, func(n *clusterNode) bool { return !n.alive }) {
		add(c.recallOver, "the wait for recalls is over")
	}
	if c.down {
		add(c.beginSuccessor, "a successor begins")
	}
	c.addTrigger(add)
	return all
}

func (c *cluster) isPending(u Unit) bool {
	for _, p := range c.pending {
		if p == u {
			return true
		}
	}
	return false
}

// report has a readout unit read one MEP more and report it.
func (c *cluster) report(i int) {
	n := c.nodes[i]
	if c.cfg.Live {
		n.arrived = max(n.arrived, n.cutOf[n.read].end()) // what is not there is given up
	}
	n.read++
	c.sendReport(n, i)
	c.takeReady()
}

func (c *cluster) update(n *clusterNode) Update {
	if c.cfg.Live {
		return c.liveUpdate(n)
	}
	return Update{ReadBelow: n.read, Events: n.read - min(n.first, n.read), InputEnded: n.read == c.total}
}

// receive has a readout unit take the next notice.
func (c *cluster) receive(i int) {
	n := c.nodes[i]
	v := n.fromScheduler[0]
	n.fromScheduler = n.fromScheduler[1:]
	k := &n.known
	c.receiveCuts(i, &v)
	n.log.AddEarlier(v.Earlier)
	for _, a := range v.Absences {
		if a.Rejoined && int(a.RU) == i && len(k.Absences) == 0 {
			n.first, n.read, k.NextCycle = a.FirstMEP, a.FirstMEP, a.FirstCycle
		}
	}
	if v.FirstCycle != k.NextCycle {
		c.t.Fatalf("ru%d hears cycle %d where %d is next", i, v.FirstCycle, k.NextCycle)
	}
	k.Absences, k.Withdrawals = append(k.Absences, v.Absences...), append(k.Withdrawals, v.Withdrawals...)
	for _, w := range v.Withdrawals {
		n.withdrawnBefore[w.BU] = max(n.withdrawnBefore[w.BU], w.BeforeCycle)
	}
	n.toWrite = slices.DeleteFunc(n.toWrite, func(t PlacedToken) bool { return t.Cycle < n.withdrawnBefore[t.BU] })
	k.Released, k.HeldUp, k.Unbuilt, k.NextCycle = v.Released, v.HeldUp, v.Unbuilt, v.FirstCycle+uint64(v.Len())
	k.Triggers = v.Triggers
	n.log.Add(v.Batch, v.Released, v.HeldUp)
	n.cuts.Add(v.Cuts, v.Released, v.HeldUp)
	for _, t := range v.appendTokens(nil, func(mep uint64) bool { return mep >= n.first }) {
		if t.Cycle >= n.withdrawnBefore[t.BU] {
			n.toWrite = append(n.toWrite, t)
		}
	}
}

// receiveBU has a builder unit take the next notice.
func (c *cluster) receiveBU(i int) {
	n := c.nodes[i]
	v := n.fromSchedulerToBU[0]
	n.fromSchedulerToBU = n.fromSchedulerToBU[1:]
	for _, a := range v.Absences {
		n.absences = append(n.absences, a)
		if a.Rejoined {
			n.lacksBelow[a.RU] = a.FirstMEP
			continue
		}
		n.lacksBelow[a.RU] = NoMEP
		c.wire = slices.DeleteFunc(c.wire, func(w clusterWrite) bool { // its windows are revoked
			late := w.ru == int(a.RU) && int(w.BU) == i && !c.nodes[w.ru].alive
			c.count.late += map[bool]int{true: 1}[late]
			return late
		})
	}
	if v.Valid != nil {
		for s := range n.slots {
			at := &n.slots[s]
			valid := slices.ContainsFunc(v.Valid.Tokens, func(t PlacedToken) bool {
				return int(t.Slot) == s && t.MEP == at.mep && t.Attempt == at.attempt
			})
			if at.busy && !valid {
				c.count.orphans++
				if c.isComplete(n, s) {
					c.t.Fatalf("bu%d has MEP %d complete, and its token is not valid", i, at.mep)
				}
				*at = clusterSlot{parts: make([]bool, len(at.parts))}
			}
		}
	}
	if v.Valid != nil || len(v.Absences) > 0 {
		n.confirmTo = v.Sequence + 1
	}
}

// write has a readout unit send its part for one token.
func (c *cluster) write(i int) {
	n := c.nodes[i]
	t := n.toWrite[0]
	n.toWrite = n.toWrite[1:]
	if t.MEP < n.known.Released && !isIn(n.known.HeldUp, t.MEP) {
		c.t.Fatalf("ru%d has freed its part of MEP %d, and %+v needs it", i, t.MEP, t)
	}
	if to := c.nodes[t.BU]; to.alive {
		c.wire = append(c.wire, clusterWrite{i, n.cutOf[t.MEP], t})
	}
}

// arrive puts a part into its slot.
func (c *cluster) arrive(w int) {
	x := c.wire[w]
	c.wire = slices.Delete(c.wire, w, w+1)
	n := c.nodes[x.BU]
	if !n.alive || n.lacksBelow[x.ru] > x.MEP {
		return
	}
	s := &n.slots[x.Slot]
	if !s.busy && s.mep == x.MEP && s.attempt >= x.Attempt {
		c.t.Fatalf("bu%d takes %+v for one that it has had", x.BU, x)
	}
	if !s.busy {
		*s = clusterSlot{busy: true, mep: x.MEP, attempt: x.Attempt, cut: x.cut, parts: make([]bool, len(s.parts))}
	}
	if s.cut != x.cut {
		c.t.Fatalf("parts of MEP %d have the events %+v and %+v", s.mep, s.cut, x.cut)
	}
	if s.mep != x.MEP || s.attempt != x.Attempt || s.parts[x.ru] {
		c.t.Fatalf("a part for %+v comes to a slot that has attempt %d of MEP %d", x, s.attempt, s.mep)
	}
	s.parts[x.ru] = true
}

func (c *cluster) isComplete(n *clusterNode, slot int) bool {
	s := &n.slots[slot]
	for ru, there := range s.parts {
		if !there && s.mep >= n.lacksBelow[ru] {
			return false
		}
	}
	return s.busy
}

// finish stores or drops a MEP, and queues its outcome.
func (c *cluster) finish(i, slot int, outcome Outcome) {
	n, s := c.nodes[i], &c.nodes[i].slots[slot]
	if slices.Contains(c.ended[s.mep], s.attempt) {
		c.t.Fatalf("attempt %d of MEP %d has two outcomes", s.attempt, s.mep)
	}
	c.ended[s.mep] = append(c.ended[s.mep], s.attempt)
	f := Feedback{MEP: s.mep, Slot: uint32(slot), Events: 1, Attempt: s.attempt, Outcome: outcome}
	if c.cfg.Live {
		f.Events = s.cut.Events
		c.store(s.mep, s.cut)
	}
	if f.Attempt > c.last[f.MEP].Attempt {
		c.last[f.MEP] = f
	}
	n.outcomes.Add(f)
	n.entries++
	n.unsent = append(n.unsent, f)
	s.busy = false
	clear(s.parts)
}

// feedBack has a builder unit report all that it has.
func (c *cluster) feedBack(i int) {
	n := c.nodes[i]
	m := &tagnetv1.FeedbackBatch{First: n.entries - uint64(len(n.unsent))}
	for _, f := range n.unsent {
		m.Meps, m.Slots = append(m.Meps, f.MEP), append(m.Slots, PackSlot(f.Attempt, f.Slot))
		m.Events, m.HeldUs, m.Outcomes = append(m.Events, f.Events), append(m.HeldUs, 0), append(m.Outcomes, byte(f.Outcome))
	}
	if n.confirmTo > 0 {
		m.Had = &tagnetv1.Position{Term: c.term, Next: n.confirmTo}
	}
	c.core.Step(c.tick(), Outcomes{Unit: i, Stream: n.streamBU, Batch: m})
	n.unsent, n.confirmTo = nil, 0
	c.takeReady()
}

// recall attaches a unit to the successor.
func (c *cluster) recall(u Unit) {
	n := c.nodes[u.Index]
	r := &Recall{Absences: slices.Clone(n.absences), Entries: n.entries}
	if u.Role == Readout {
		*r = n.known
		r.Update = c.update(n)
		r.Tokens, r.TokenCount = n.log.Tokens()
		n.cuts.Recall(r)
		n.fromScheduler = nil
	} else {
		r.Outcomes, r.Totals = n.outcomes.Outcomes()
		n.fromSchedulerToBU, n.confirmTo = nil, 0
	}
	c.attach(u, r)
}
