package tagnet

// Issue appends to out every cycle that may be issued now, and returns the number of tokens in them.
//
// The rule, in order (design note 005):
//
//  1. A MEP is issued once all included readout units hold it and only up to the limit; MEPs of an excluded builder
//     unit come before new ones.
//  2. There are never more cycles in flight than LookAhead, and never more MEPs past the released watermark than
//     Window, which the watermark sees to by passing over those that are held up, unless a cycle is all the window
//     holds. Under Skip, builder units that have all they can have while another has nothing are left behind: what they
//     have counts no more.
//  3. Under Wait every active builder unit must have a free slot; under Skip one that has none is left out.
//  4. The cycle must be full: a MEP for every builder unit that takes part. A cycle with fewer is issued only when no
//     cycle is in flight, so that a low rate is served at once and a high rate in full cycles; or when no more MEPs
//     will come.
//
// With Rules of its own the chooser fills the cycle in place of rule 3, and a cycle is full when it says no or a
// builder unit would stand twice. Under Skip rule 4 then binds only while no builder unit is idle: since rules pass
// over builder units, whoever has most counts as having all it can have (see behindThreshold). So at a medium rate
// healthy ones are left behind for a moment, and counted, and a cycle goes with the MEPs that there are. A Loose view
// knows no full cycles: what can go goes, up to LookAhead × BUs at a time.
//
// The caller gives the Batch, emptied with Reset(core.NextCycle(), core.Places()) or still holding the cycles issued
// just before.
func (c *Core) Issue(out *Batch) int {
	tokens := 0
	targets, avail, reason := c.plan()
	for reason == NotWaiting {
		tokens += c.issueCycle(out, min(targets, avail))
		c.advanceReleased()
		targets, avail, reason = c.plan()
	}
	// Waits are counted when they begin, so that the figure does not depend on how often Issue is called.
	if reason != c.waitReason || tokens > 0 {
		c.counters.WaitsFor[reason]++
		c.waitReason = reason
	}
	c.depths.ready.set(c.newMEPs())
	c.depths.window.set(c.nextMEP - c.released)
	return tokens
}

// NextCycle is the number the next cycle will have.
func (c *Core) NextCycle() uint64 { return c.nextCycle }

// PlacesPerCycle is the number of places in a cycle: the builder units of the view, active or not.
func (c *Core) PlacesPerCycle() int { return c.placesPerCycle }

// plan applies the rule: to how many builder units a cycle could go, and of how many MEPs; or why there is none.
func (c *Core) plan() (targets, avail int, reason WaitReason) {
	switch {
	case c.drained():
		return 0, 0, WaitForEnd
	case !c.started:
		return 0, 0, WaitForStart
	case c.paused:
		return 0, 0, WaitForResume
	case c.activeBUs == 0:
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
func (c *Core) lookAheadBudget() int {
	switch {
	case len(c.freeCycles) == 0:
		return 0
	case c.cfg.Loose:
		return max(0, c.cfg.LookAhead*c.placesPerCycle-(c.InFlight()-c.reissue.len()))
	}
	return c.placesPerCycle
}

// countTargets is how many builder units the next cycle can have at most; or why none.
func (c *Core) countTargets() (int, WaitReason) {
	if c.chooser == nil {
		n := c.activeBUs - c.blockedBUs
		if n == 0 || c.cfg.NoSlotPolicy == Wait && c.blockedBUs > 0 {
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
func (c *Core) issueCycle(out *Batch, n int) int {
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

// issueRoundRobin gives n tokens to the builder units from the cursor on.
func (c *Core) issueRoundRobin(out *Batch, at int, index uint32, n int) {
	place := c.nextPlace
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
func (c *Core) issueToken(out *Batch, at int, cycle uint32, place int, b *buState) {
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
	if b.leftBehind {
		c.releaseFromCycle(r)
	}
	b.counters.Tokens++
	b.usedSlots.set(b.usedSlots.Now + 1)
	out.MEPs[at], out.Slots[at] = mep, packSlot(r.attempt, slot)
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
