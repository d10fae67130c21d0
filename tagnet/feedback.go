package tagnet

// ApplyFeedback takes the outcome of a MEP from builder unit bu and frees its slot. The entry is checked in full
// against the token that was issued; one that does not match is refused with an *inputError and counted, and changes
// nothing. Only WrongEvents is a report rather than a refusal: the slot is free and the outcome stands, but somebody
// counted wrongly.
func (c *Core) ApplyFeedback(bu int, f Feedback) error {
	if bu < 0 || bu >= len(c.bus) {
		return c.refuse(UnknownUnit, "scheduler", "feedback of builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	r := c.recordOf(f.MEP)
	if reason, ok := c.checkFeedback(bu, f, r); !ok {
		b.counters.Refused++
		return c.refuseFeedback(reason, bu, f, r)
	}
	c.leaveCycle(r)
	if b.freeSlots.len() == 0 {
		c.blockedBUs--
	}
	b.freeSlots.push(uint64(f.Slot))
	b.usedSlots.set(b.usedSlots.Now - 1)
	want := c.eventCount(f.MEP)
	c.recordOutcome(f.MEP, r, f.Outcome)
	switch {
	case f.MEP == c.released:
		c.advanceReleased()
	case f.MEP < c.released:
		c.heldUp.drop(f.MEP)
		c.dropCut(f.MEP)
	}
	if b.leftBehind && b.usedSlots.Now <= uint64(c.cfg.creditPerBU()/2) {
		b.leftBehind = false
		c.leftBehindBUs--
	}
	if f.Outcome == Built && uint64(f.Events) != want {
		return c.refuse(WrongEvents, c.cfg.BUs[bu], "MEP %d was built with %d events, the readout units told %d",
			f.MEP, f.Events, want)
	}
	return nil
}

// checkFeedback tells whether the feedback answers the token issued last for its MEP, and if not, why not.
func (c *Core) checkFeedback(bu int, f Feedback, r *mepRecord) (Reason, bool) {
	switch {
	case c.bus[bu].excluded:
		return UnitExcluded, false
	case f.Outcome < Built || f.Outcome > Rejected:
		return BadOutcome, false
	case f.Slot >= uint32(c.cfg.Slots):
		return SlotOutOfRange, false
	case f.MEP >= c.nextMEP || f.MEP < c.cfg.FirstMEP:
		return NeverIssued, false
	case r.state == recordFinal:
		return AlreadyFinal, false
	case f.Attempt != r.attempt || r.state != recordInFlight:
		return WrongAttempt, false
	case int(r.bu) != bu:
		return WrongBuilder, false
	case r.slot != f.Slot:
		return WrongSlot, false
	}
	return 0, true
}

func (c *Core) refuseFeedback(reason Reason, bu int, f Feedback, r *mepRecord) error {
	unit := c.cfg.BUs[bu]
	switch reason {
	case UnitExcluded:
		return c.refuse(reason, unit, "feedback for MEP %d after the unit was excluded", f.MEP)
	case BadOutcome:
		return c.refuse(reason, unit, "feedback for MEP %d has outcome %d", f.MEP, f.Outcome)
	case SlotOutOfRange:
		return c.refuse(reason, unit, "feedback for MEP %d names slot %d of %d", f.MEP, f.Slot, c.cfg.Slots)
	case NeverIssued:
		return c.refuse(reason, unit, "feedback for MEP %d, which was never issued (next is %d)", f.MEP, c.nextMEP)
	case AlreadyFinal:
		return c.refuse(reason, unit, "feedback for MEP %d, slot %d, which has its outcome already", f.MEP, f.Slot)
	case WrongAttempt:
		if r.state == recordToReissue {
			return c.refuse(reason, unit, "feedback for attempt %d of MEP %d, which waits to be issued again", f.Attempt, f.MEP)
		}
		return c.refuse(reason, unit, "feedback for attempt %d of MEP %d, the last one issued is %d", f.Attempt, f.MEP,
			r.attempt)
	case WrongBuilder:
		return c.refuse(reason, unit, "feedback for MEP %d, which was given to %s", f.MEP, c.cfg.BUs[r.bu])
	}
	return c.refuse(reason, unit, "feedback for MEP %d names slot %d, the token says %d", f.MEP, f.Slot, r.slot)
}

// leaveCycle takes a token in flight out of its cycle and its group.
func (c *Core) leaveCycle(r *mepRecord) {
	if c.tagRing == nil {
		c.groups.endEvent(int(r.bu))
	}
	c.releaseFromCycle(r)
}

// releaseFromCycle lets the cycle of a token not wait for it.
func (c *Core) releaseFromCycle(r *mepRecord) {
	if r.cycle == noCycle {
		return
	}
	if c.openTokens[r.cycle]--; c.openTokens[r.cycle] == 0 {
		c.freeCycles = append(c.freeCycles, r.cycle)
		c.depths.cycles.set(uint64(len(c.openTokens) - len(c.freeCycles)))
	}
	r.cycle = noCycle
}

// recordOutcome enters the one outcome of a MEP into its record.
func (c *Core) recordOutcome(mep uint64, r *mepRecord, o Outcome) {
	r.state = recordFinal
	events := c.eventCount(mep)
	var b *BUCounters
	if o != Abandoned {
		b = c.bus[r.bu].counters
	}
	switch o {
	case Built:
		c.counters.Built++
		c.counters.EventsBuilt += events
		b.Built++
		b.EventsBuilt += events
	case Incomplete:
		c.counters.Incomplete++
		c.counters.EventsIncomplete += events
		b.Incomplete++
	case Discarded:
		c.counters.Discarded++
		c.counters.EventsDiscarded += events
		b.Discarded++
	case Rejected:
		c.counters.Rejected++
		c.counters.EventsRejected += events
		b.Rejected++
	default:
		c.counters.Abandoned++
		c.counters.EventsAbandoned += events
	}
}
