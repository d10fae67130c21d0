package core

// With Config.Push readout units assign MEPs to builder units (LHCb-EB §II): MEP after MEP, round robin by number, as
// they read them. A token is a credit: a slot is announced as soon as it is free, with the number of the MEP that will
// have it, and no MEP waits for the scheduler while there are credits. The scheduler keeps the account: it orders
// credits, losses and outcomes in one stream for all units, so that all units assign alike.
//
// Credits go beyond the end of the run. The end is known when the input has ended, or when all readout units have
// stopped: then every credit from the end on is taken back, as if it had never been issued.
//
//	Drain ─► units stop ─► applyStop of each ─► findEnd ─► the end, in a notice ─► units go on, up to the end

// pushEnd is what is known of the end of a run with Config.Push.
type pushEnd struct {
	drainEnd uint64 // what Drain was given; 0: no MEPs beyond those that a unit has assigned
	endKnown bool
}

// creditEnd is the MEP below which credits may be issued.
func (c *Allocator) creditEnd() uint64 {
	if c.draining && !c.push.endKnown {
		return min(c.endMEP, c.push.drainEnd)
	}
	return c.endMEP
}

// applyStop notes that readout unit ru has assigned no MEP from mep on, and waits for the end. It refuses, with an
// *inputError, a stop in a run that goes on, and a second one that differs.
func (c *Allocator) applyStop(ru int, mep uint64) error {
	if ru < 0 || ru >= len(c.rus) {
		return c.refuse(UnknownUnit, "scheduler", "stop of readout unit %d of %d", ru, len(c.rus))
	}
	s, name := &c.rus[ru], c.cfg.RUs[ru]
	switch {
	case s.excluded:
		return c.refuse(UnitExcluded, name, "stop at MEP %d after the unit was excluded", mep)
	case s.hasStopped && s.stopMEP == mep:
		return nil
	case s.hasStopped:
		return c.refuse(AfterEnd, name, "stop at MEP %d after one at %d", mep, s.stopMEP)
	case !c.cfg.Push || !c.draining && !c.inputEnded:
		return c.refuse(NotNow, name, "stop at MEP %d in a run that goes on", mep)
	case !c.push.endKnown && mep > max(c.nextMEP, s.ReadBelow):
		return c.refuse(NeverIssued, name, "stop at MEP %d, which was never issued (next is %d)", mep, c.nextMEP)
	}
	s.hasStopped, s.stopMEP = true, mep
	return nil
}

// findEnd finds the end of the run, once that is possible: where the input ends, or at the first MEP that no
// readout unit has assigned.
func (c *Allocator) findEnd() {
	if !c.cfg.Push || c.push.endKnown || !c.inputEnded && !c.draining {
		return
	}
	end := c.push.drainEnd
	for i := range c.rus {
		switch r := &c.rus[i]; {
		case r.excluded:
		case !r.hasStopped && !c.inputEnded:
			return // it may still assign MEPs
		case r.hasStopped:
			end = max(end, r.stopMEP)
		}
	}
	if c.inputEnded {
		end = c.readWatermark
	}
	end = max(min(end, c.endMEP), c.released)
	for k := c.nextMEP; k > end; k-- { // a MEP that a lost unit had assigned may have its outcome
		if c.recordOf(k - 1).state.isFinal() {
			end = k
		}
	}
	c.push.endKnown, c.endMEP = true, end
	c.takeBack()
}

// takeBack takes back the credits from the end on.
func (c *Allocator) takeBack() {
	for range c.reissue.len() {
		if mep := c.reissue.pop(); mep < c.endMEP {
			c.reissue.push(mep)
		} else {
			c.counters.Reissued++ // its withdrawn token counts, and takeBackCredit counts one less
		}
	}
	c.depths.reissue.set(uint64(c.reissue.len()))
	for ; c.nextMEP > c.endMEP; c.nextMEP-- {
		k := c.nextMEP - 1
		r := c.recordOf(k)
		if r.state == recordInFlight {
			c.leaveCycle(r)
			b := &c.bus[r.bu]
			if b.freeSlots.len() == 0 {
				c.blockedBUs--
			}
			b.freeSlots.push(uint64(r.slot))
			b.usedSlots.set(b.usedSlots.Now - 1)
			b.counters.Tokens--
		}
		c.counters.Issued--
		c.counters.EventsIssued -= c.eventCount(k)
		r.state = recordUnused
	}
}

// learnShortMEP notes that a MEP has fewer events than Packing: with Push a builder unit may have built the last MEP
// before the readout units have reported it.
func (c *Allocator) learnShortMEP(f *Feedback) {
	if !c.cfg.Push || f.Outcome != Built || c.shortMEP != NoMEP || f.Events == 0 || int(f.Events) >= c.cfg.Packing ||
		f.MEP < c.readWatermark || f.MEP >= c.nextMEP {
		return
	}
	for i := range c.rus {
		if r := &c.rus[i]; !r.excluded && r.ReadBelow > f.MEP {
			return
		}
	}
	c.setShortMEP(f.MEP, uint32(c.cfg.Packing)-f.Events)
}

// setShortMEP notes which MEP has fewer events than Packing, and how many it lacks.
func (c *inputs) setShortMEP(mep uint64, lacks uint32) {
	c.shortMEP, c.shortMEPLacks = mep, lacks
	if mep < c.nextMEP { // with Push it has been issued
		c.counters.EventsIssued -= uint64(lacks)
	}
}

// stampRead has the latency of MEPs that every readout unit has just read count from now: their slots were announced
// long before.
func (c *Core) stampRead(from uint64) {
	a := c.alloc
	if !a.cfg.Push {
		return
	}
	for k := max(from, a.released); k < min(a.readWatermark, a.nextMEP); k++ {
		if r := a.recordOf(k); r.state == recordInFlight {
			*c.issuedAt(int(r.bu), r.slot) = c.now
		}
	}
}
