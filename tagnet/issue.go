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
// over builder units, whoever has most counts as having all it can have (see enough). So at a medium rate healthy ones
// are left behind for a moment, and counted, and a cycle goes with the MEPs that there are. A Loose view knows no full
// cycles: what can go goes, up to LookAhead × BUs at a time.
//
// The caller gives the Batch, emptied with Reset(core.NextCycle(), core.Places()) or still holding the cycles issued
// just before.
func (c *Core) Issue(out *Batch) int {
	tokens := 0
	targets, avail, reason := c.plan()
	for reason == NotWaiting {
		tokens += c.cycle(out, min(targets, avail))
		c.release()
		targets, avail, reason = c.plan()
	}
	// Waits are counted when they begin, so that the figure does not depend on how often Issue is called.
	if reason != c.waiting || tokens > 0 {
		c.counters.WaitsFor[reason]++
		c.waiting = reason
	}
	c.depths.ready.set(c.fresh())
	c.depths.window.set(c.next - c.released)
	return tokens
}

// NextCycle is the number the next cycle will have.
func (c *Core) NextCycle() uint64 { return c.nextCycle }

// Places is the number of places in a cycle: the builder units of the view, active or not.
func (c *Core) Places() int { return c.places }

// plan applies the rule: to how many builder units a cycle could go, and of how many MEPs; or why there is none.
func (c *Core) plan() (targets, avail int, reason Waiting) {
	switch {
	case c.done():
		return 0, 0, ForEnd
	case !c.started:
		return 0, 0, ForStart
	case c.paused:
		return 0, 0, ForResume
	case c.active == 0:
		return 0, 0, ForBuilders
	}
	fresh := c.fresh()
	room := uint64(c.cfg.Window) - (c.next - c.released)
	windowed := fresh > room
	avail = c.again.len() + saturate(min(fresh, room))
	if avail == 0 {
		switch {
		case windowed:
			return 0, 0, ForWindow
		case c.complete():
			return 0, 0, ForEnd
		}
		return 0, 0, ForInput
	}
	ahead := c.ahead()
	if ahead == 0 && c.leaveBehind() {
		ahead = c.ahead()
	}
	if ahead == 0 {
		return 0, 0, ForLookAhead
	}
	if targets, reason = c.targets(); reason != NotWaiting {
		return 0, 0, reason
	}
	if c.cfg.Loose {
		return targets, min(avail, ahead), NotWaiting
	}
	if avail < targets && !c.quiet() && (windowed || !c.complete()) && !(c.leaveBehind() && c.quiet()) {
		if windowed {
			return 0, 0, ForWindow
		}
		return 0, 0, ForInput
	}
	return targets, avail, NotWaiting
}

// ahead is how many tokens the look-ahead allows in the next cycle.
func (c *Core) ahead() int {
	switch {
	case len(c.freeCycles) == 0:
		return 0
	case c.cfg.Loose:
		return max(0, c.cfg.LookAhead*c.places-(c.InFlight()-c.again.len()))
	}
	return c.places
}

// targets is how many builder units the next cycle can have at most; or why none.
func (c *Core) targets() (int, Waiting) {
	if c.chooser == nil {
		n := c.active - c.blocked
		if n == 0 || c.cfg.Policy == Wait && c.blocked > 0 {
			return 0, ForSlots
		}
		return n, NotWaiting
	}
	n, v := c.chooser.draw()
	if n == 0 || v > again && !c.cfg.Loose {
		return 0, v.why()
	}
	return n, NotWaiting
}

// cycle issues one cycle of n tokens, n at most the number of targets.
func (c *Core) cycle(out *Batch, n int) int {
	last := len(c.freeCycles) - 1
	index := c.freeCycles[last]
	c.freeCycles = c.freeCycles[:last]
	c.open[index] = uint32(n)
	c.depths.cycles.set(uint64(len(c.open) - last))
	c.nextCycle++
	c.counters.Cycles++
	if n < c.active {
		c.counters.PartialCycles++
	}

	at := out.open()
	if c.chooser == nil {
		c.round(out, at, index, n)
		return n
	}
	for _, p := range c.chooser.settle(n, c.counters) {
		c.token(out, at+int(p.bu), index, int(p.bu), &c.bus[p.bu])
	}
	return n
}

// round gives n tokens to the builder units from the cursor on.
func (c *Core) round(out *Batch, at int, index uint32, n int) {
	place := c.cursor
	for left := n; left > 0; place++ {
		if place == c.places {
			place = 0
		}
		b := &c.bus[place]
		if b.excluded {
			continue
		}
		if b.free.len() == 0 {
			b.count.Skips++
			c.counters.Skips++
			continue
		}
		c.token(out, at+place, index, place, b)
		left--
	}
	if place == c.places {
		place = 0
	}
	c.cursor = place
}

// token pairs the next MEP with the next free slot of a builder unit.
func (c *Core) token(out *Batch, at int, cycle uint32, place int, b *buState) {
	var mep uint64
	var r *record
	if c.again.len() > 0 {
		mep = c.again.pop()
		c.depths.again.set(uint64(c.again.len()))
		r = c.line(mep)
		r.attempt++
		c.counters.Reissued++
	} else {
		mep = c.next
		c.next++
		r = &c.ledger[mep&c.mask]
		r.attempt = 1
		c.counters.Issued++
		c.counters.EventsIssued += c.events(mep)
	}
	slot := uint32(b.free.pop())
	if b.free.len() == 0 {
		c.blocked++
	}
	r.slot, r.cycle, r.bu, r.state = slot, cycle, uint16(place), inFlight
	if b.behind {
		c.uncount(r)
	}
	b.count.Tokens++
	b.used.set(b.used.Now + 1)
	out.MEPs[at], out.Slots[at] = mep, packSlot(r.attempt, slot)
	if c.ring == nil {
		c.groups.begin(place)
		return
	}
	c.ring.issued(c.nextCycle-1, Token{
		MEP:     mep,
		Slot:    slot,
		BU:      uint16(place),
		Attempt: r.attempt,
	})
}
