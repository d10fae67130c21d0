package core

import (
	"math"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Allocator assigns MEPs to free slots: the decisions of the scheduler, without sessions and without a clock.
//
//	ApplyUpdate ─► watermark ─┐
//	                          ├─► Issue ─► cycles of tokens
//	ApplyFeedback ─► free slots ┘
//	              └► outcome ─► record ─► released
//
// One goroutine owns an Allocator. ApplyFeedback and Issue allocate only the error of a refused input and the growth of
// the caller's Batch.
type Allocator struct {
	builders

	nextCycle  uint64
	nextPlace  int // place in the cycle that gets the next MEP: round robin (TagNet-farm §III.B.2)
	waitReason WaitReason

	absences []Absence // all absences so far; the list only grows
	withdrawalLog
	confirmedExclusions [][]bool // by exclusion and readout unit: the unit has nothing of it under way
}

// NewAllocator makes the Allocator of one view: cfg lists the units of the view. The Allocator is Idle: it issues no
// token before Start. The error says which value of cfg is impossible.
func NewAllocator(cfg Config) (*Allocator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Allocator{builders: newBuilders(cfg), waitReason: WaitForStart}
	if len(cfg.Rules.Groups) > 0 {
		c.groups.groupOf, _ = setIndexOf("group", cfg.Rules.Groups, len(cfg.BUs)) // checked with the Config
		for _, group := range cfg.Rules.Groups {
			g := &tagnetv1.GroupRegister{}
			for _, bu := range group {
				g.Members = append(g.Members, cfg.BUs[bu])
			}
			c.groups.registers = append(c.groups.registers, g)
		}
	}
	turns, running := cfg, &c.groups
	if cfg.TagRing {
		// In a ring an event runs while its tag is under way, so tokens need not wait for a group: the ring counts.
		c.tagRing = newTagRing(&cfg, &c.groups)
		c.counters.Tags = c.tagRing.counters
		turns.Rules.Groups, running = nil, &groups{}
	}
	if turns.Loose || !turns.Rules.isPlain() {
		c.chooser = newChooser(&turns, c.bus, running)
	}
	return c, nil
}

// Start leaves Idle: from now on Issue issues. In any other state Start does nothing.
func (c *Allocator) Start() { c.started = true }

// Pause stops Issue until Resume; ApplyFeedback goes on. An Allocator that is drained refuses it with NotNow.
func (c *Allocator) Pause() error {
	if c.drained() {
		return c.refuseInState("pause")
	}
	c.paused = true
	return nil
}

// Resume ends a pause. An Allocator that is drained refuses it with NotNow.
func (c *Allocator) Resume() error {
	if c.drained() {
		return c.refuseInState("resume")
	}
	c.paused = false
	return nil
}

// Drain lets Issue issue new MEPs only below end; 0 means no new MEPs. MEPs of an excluded builder unit are still
// issued again. Drain ends a pause, since a stop must always finish.
//
// Live data that front-ends have delivered are not thrown away. With end 0 the state tells the readout units to accept
// no more; the Allocator cuts and issues what they have, and the end of their input is the end of the run.
func (c *Allocator) Drain(end uint64) {
	c.draining, c.paused = true, false
	if c.cfg.Push && c.started {
		c.push.drainEnd = end
		return
	}
	if end == 0 && c.cutter != nil && c.started {
		return
	}
	if end == 0 && c.cfg.Trigger != "" && c.started {
		end = c.triggers.below // triggers that were taken are served
	}
	c.endMEP = min(c.endMEP, max(end, c.nextMEP))
}

// abandon gives every MEP without outcome the outcome Abandoned, finishes, and returns how many MEPs it abandoned. It
// ends a run that cannot be drained: readout units may free everything, and later feedback is refused as AlreadyFinal.
func (c *Allocator) abandon() int {
	c.endMEP, c.draining, c.paused = c.nextMEP, true, false
	n := 0
	c.forEachUnfinished(func(k uint64, r *mepRecord) {
		if r.state == recordInFlight {
			c.leaveCycle(r)
		}
		c.recordOutcome(k, r, Abandoned, nil)
		n++
	})
	c.reissue.clear()
	c.depths.reissue.set(0)
	c.advanceReleased()
	if c.tagRing != nil {
		c.tagRing.abandon()
	}
	return n
}

// State tells where the scheduler stands.
func (c *Allocator) State() State {
	switch {
	case c.drained():
		return Drained
	case !c.started:
		return Idle
	case c.paused:
		return Paused
	case c.draining || c.inputEnded:
		return Draining
	}
	return Running
}

// Released is the watermark below which every MEP has its final outcome, but those held up. It never decreases.
func (c *Allocator) Released() uint64 { return c.released }

// HeldUp are the MEPs below Released without an outcome, in order. The Allocator owns the slice: use it before the next
// call.
func (c *Allocator) HeldUp() []uint64 { return c.heldUp.meps }

// firstCycleIncomplete tells that the first cycle could be issued but is not full, and that more MEPs will come.
func (c *Allocator) firstCycleIncomplete() bool {
	n := c.newMEPs()
	return c.started && !c.cfg.Loose && c.nextCycle == 0 && !c.inputComplete() && n > 0 && n < uint64(c.activeBUs)
}

// newMEPs is the number of MEPs that could be issued for the first time.
func (c *Allocator) newMEPs() uint64 {
	to := min(c.readWatermark, c.endMEP, c.triggers.below)
	if c.cfg.Push {
		to = c.creditEnd()
	}
	if to > c.nextMEP && !c.absencesUnacked() {
		return to - c.nextMEP
	}
	return 0
}

func (c *Allocator) drained() bool {
	return (c.started || c.draining) && c.allIssued() &&
		c.InFlight() == 0 && (c.tagRing == nil || c.tagRing.isEmpty())
}

func (c *Allocator) refuseInState(op string) error {
	return c.refuse(NotNow, "scheduler", "cannot %s when %s", op, c.State())
}

// saturate converts a count to an int, at most math.MaxInt.
func saturate(v uint64) int { return int(min(v, math.MaxInt)) }

// Issue appends to out every cycle that may be issued now, and returns the number of tokens in these cycles.
//
// The rule, in order (design note 005):
//
//  1. A MEP is issued once all included readout units hold it, and only below the end of the run; MEPs of an excluded
//     builder unit come before new ones.
//  2. There are never more cycles in flight than LookAhead, and never more MEPs past the released watermark than
//     Window. The watermark stays within the window by passing over MEPs that are held up, unless the window holds no
//     more than a cycle. Under Skip, builder units that have their whole credit, while another has no MEP, are left
//     behind: cycles no longer wait for their MEPs.
//  3. Under Wait every active builder unit must have a free slot; under Skip a cycle leaves out a unit without one.
//     Wait has an end: the Core leaves behind builder units that have given no outcome for longer than any did lately.
//  4. The cycle must be full: a MEP for every builder unit that takes part. A cycle with fewer is issued only when no
//     cycle is in flight, so that a low rate is served at once and a high rate in full cycles; or when no more MEPs
//     will come.
//
// With Rules that are not plain the chooser fills the cycle in place of rule 3. The cycle is full when the chooser
// finds no further builder unit or would choose one twice. Under Skip, rule 4 then binds only while no builder unit is
// idle: since such rules pass over builder units, the unit with the most MEPs counts as having all it can have (see
// behindThreshold). So at a medium rate healthy units are left behind for a moment, and counted, and a cycle goes with
// the MEPs that there are. A Loose view knows no full cycles: Issue issues what it can, up to LookAhead × BUs at a
// time.
//
// The caller passes a Batch that it has emptied with Reset(core.NextCycle(), core.PlacesPerCycle()), or that still
// holds the cycles issued just before.
func (c *Allocator) Issue(out *Batch) int {
	c.findEnd()
	tokens := 0
	targets, avail, reason := c.plan()
	for reason == NotWaiting {
		tokens += c.issueCycle(out, min(targets, avail))
		c.advanceReleased()
		targets, avail, reason = c.plan()
	}
	if c.cfg.Push && reason > WaitForEnd && c.readWatermark <= c.released {
		reason = WaitForInput // all slots are announced, and no MEP has come for them
	}
	// A wait is counted when it begins, so that the figure does not depend on how often the caller calls Issue.
	if reason != c.waitReason || tokens > 0 {
		c.counters.WaitsFor[reason]++
		c.waitReason = reason
	}
	ready := c.newMEPs()
	if c.cfg.Push {
		ready = max(c.readWatermark, c.nextMEP) - c.nextMEP
	}
	c.depths.ready.set(ready)
	c.depths.window.set(c.nextMEP - c.released)
	c.noteTriggers()
	return tokens
}

// waitsForBuilders tells that MEPs wait for builder units with all the MEPs that they can have, while another has none.
func (c *Allocator) waitsForBuilders() bool {
	return (c.waitReason == WaitForSlots || c.waitReason == WaitForLookAhead) && c.holdUp()
}

// NextCycle is the number of the next cycle.
func (c *Allocator) NextCycle() uint64 { return c.nextCycle }

// PlacesPerCycle is the number of places in a cycle: the builder units of the view, active or not.
func (c *Allocator) PlacesPerCycle() int { return c.placesPerCycle }

// plan applies the rule: how many builder units the next cycle could have and how many MEPs there are for it, or why no
// cycle can go.
func (c *Allocator) plan() (targets, avail int, reason WaitReason) {
	switch {
	case c.drained():
		return 0, 0, WaitForEnd
	case !c.started:
		return 0, 0, WaitForStart
	case c.paused:
		return 0, 0, WaitForResume
	case c.activeBUs == 0, c.awaitsConfirmation():
		return 0, 0, WaitForBuilders
	}
	unissued := c.newMEPs()
	windowSpace := uint64(c.cfg.Window) - (c.nextMEP - c.released)
	windowed := unissued > windowSpace
	avail = c.reissue.len() + saturate(min(unissued, windowSpace))
	if avail == 0 {
		switch {
		case windowed:
			return 0, 0, WaitForWindow
		case c.triggers.below <= c.nextMEP && !c.allIssued():
			return 0, 0, WaitForTrigger
		case c.inputComplete():
			return 0, 0, WaitForEnd
		}
		return 0, 0, WaitForInput
	}
	budget := c.lookAheadBudget()
	if budget == 0 && c.leaveBehind() {
		budget = c.lookAheadBudget()
	}
	if budget == 0 {
		return 0, 0, WaitForLookAhead
	}
	if targets, reason = c.countTargets(); reason != NotWaiting {
		return 0, 0, reason
	}
	if c.cfg.Loose {
		return targets, min(avail, budget), NotWaiting
	}
	if avail < targets && !c.noCycleAwaited() && (windowed || !c.inputComplete()) &&
		!(c.leaveBehind() && c.noCycleAwaited()) {
		if windowed {
			return 0, 0, WaitForWindow
		}
		return 0, 0, WaitForInput
	}
	return targets, avail, NotWaiting
}

// lookAheadBudget is how many tokens the look-ahead allows in the next cycle.
func (c *Allocator) lookAheadBudget() int {
	switch {
	case len(c.freeCycles) == 0:
		return 0
	case c.cfg.Loose:
		return max(0, c.cfg.LookAhead*c.placesPerCycle-(c.InFlight()-c.reissue.len()))
	}
	return c.placesPerCycle
}

// countTargets returns how many builder units the next cycle can have at most; if none, why.
func (c *Allocator) countTargets() (int, WaitReason) {
	if c.chooser == nil {
		n := c.activeBUs - c.blockedBUs
		if n == 0 || c.cfg.NoSlotPolicy == Wait && c.blockedBUs > c.blockedBehind() {
			return 0, WaitForSlots
		}
		return n, NotWaiting
	}
	n, v := c.chooser.drawCycle()
	if n == 0 || v > alreadyInCycle && !c.cfg.Loose {
		return 0, v.waitReason()
	}
	return n, NotWaiting
}

// issueCycle issues one cycle of n tokens, n at most the number of targets.
func (c *Allocator) issueCycle(out *Batch, n int) int {
	last := len(c.freeCycles) - 1
	index := c.freeCycles[last]
	c.freeCycles = c.freeCycles[:last]
	c.openTokens[index] = uint32(n)
	c.depths.cycles.set(uint64(len(c.openTokens) - last))
	c.nextCycle++
	c.counters.Cycles++
	if n < c.activeBUs {
		c.counters.PartialCycles++
	}

	at := out.appendEmptyCycle()
	if c.chooser == nil {
		c.issueRoundRobin(out, at, index, n)
		return n
	}
	for _, p := range c.chooser.commitPicks(n, c.counters) {
		c.issueToken(out, at+int(p.bu), index, int(p.bu), &c.bus[p.bu])
	}
	return n
}

// issueRoundRobin gives n tokens to the builder units from nextPlace on.
func (c *Allocator) issueRoundRobin(out *Batch, at int, index uint32, n int) {
	place := c.nextPlace
	if c.cfg.Push {
		place = 0 // so MEPs ascend within a cycle, and units that number them need no cursor
	}
	for remaining := n; remaining > 0; place++ {
		if place == c.placesPerCycle {
			place = 0
		}
		b := &c.bus[place]
		if b.excluded {
			continue
		}
		if b.freeSlots.len() == 0 {
			b.counters.Skips++
			c.counters.Skips++
			continue
		}
		c.issueToken(out, at+place, index, place, b)
		remaining--
	}
	if place == c.placesPerCycle {
		place = 0
	}
	c.nextPlace = place
}

// issueToken pairs the next MEP with the next free slot of a builder unit.
func (c *Allocator) issueToken(out *Batch, at int, cycle uint32, place int, b *buState) {
	var mep uint64
	var r *mepRecord
	if c.reissue.len() > 0 {
		mep = c.reissue.pop()
		c.depths.reissue.set(uint64(c.reissue.len()))
		r = c.recordOf(mep)
		r.attempt++
		c.counters.Reissued++
	} else {
		mep = c.nextMEP
		c.nextMEP++
		r = &c.records[mep&c.recordMask]
		r.attempt = 1
		c.counters.Issued++
		c.counters.EventsIssued += c.eventCount(mep)
	}
	slot := uint32(b.freeSlots.pop())
	if b.freeSlots.len() == 0 {
		c.blockedBUs++
	}
	r.slot, r.cycle, r.bu, r.state = slot, cycle, uint16(place), recordInFlight
	r.cycleLow = uint32(c.nextCycle - 1)
	if b.leftBehind {
		c.releaseFromCycle(r)
	}
	b.counters.Tokens++
	b.usedSlots.set(b.usedSlots.Now + 1)
	out.MEPs[at], out.Slots[at] = mep, PackSlot(r.attempt, slot)
	if c.tagRing == nil {
		c.groups.beginEvent(place)
		return
	}
	c.tagRing.enqueue(c.nextCycle-1, Token{
		MEP:     mep,
		Slot:    slot,
		BU:      uint16(place),
		Attempt: r.attempt,
	})
}

// State of the scheduler (TagNet-farm §VII.C, CSR 4).
type State uint8

// The states, in the order of a run without incidents. Their values are those of the protocol.
const (
	Idle     State = iota + 1 // not started
	Running                   // tokens are issued
	Paused                    // nothing is issued, outcomes are taken
	Draining                  // the last MEP is known; what is left is issued, and outcomes are awaited
	Drained                   // every issued MEP has its outcome and none will follow
)

func (s State) String() string {
	return enumName(int(s), "unknown", "idle", "running", "paused", "draining", "drained")
}

// WaitReason says why Issue issues nothing.
type WaitReason uint8

// The reasons, in the order in which plan looks for them.
const (
	NotWaiting    WaitReason = iota
	WaitForStart             // not started
	WaitForResume            // paused
	WaitForEnd               // drained, or no more MEPs will come
	// no MEP is read that is not issued, or too few for a full cycle while others are in flight
	WaitForInput
	WaitForBuilders  // no builder unit is active
	WaitForLookAhead // as many cycles in flight as the look-ahead allows
	WaitForWindow    // the released watermark is too far behind; only with a window of a cycle or less
	WaitForSlots     // Wait: one builder unit has no free slot; Skip: no unit has one
	// Wait: the group whose turn it is has its running event; Skip: all groups with free slots have theirs
	WaitForGroup
	WaitForTrigger      // every MEP that was triggered is issued
	numberOfWaitReasons = iota
)

func (w WaitReason) String() string {
	return enumName(int(w), "", "start", "resume", "end", "input", "builders", "look_ahead", "window", "slots", "group",
		"trigger")
}
