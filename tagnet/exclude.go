package tagnet

// ExcludeBU gives builder unit bu no more tokens. Its MEPs without outcome are issued again, to other units, with the
// next attempt number; those out of attempts are abandoned. It returns how many will be issued again. Feedback of the
// unit is refused from now on. Excluding it twice does nothing.
func (c *Core) ExcludeBU(bu int) (int, error) {
	if bu < 0 || bu >= len(c.bus) {
		return 0, c.refuse(UnknownUnit, "scheduler", "exclusion of builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if b.excluded {
		return 0, nil
	}
	b.excluded = true
	b.counters.Exclusions++
	c.activeBUs--
	if b.leftBehind {
		b.leftBehind = false
		c.leftBehindBUs--
	}
	if b.freeSlots.len() == 0 {
		c.blockedBUs--
	}
	n := 0
	c.forEachUnfinished(func(k uint64, r *mepRecord) {
		if r.state != recordInFlight || int(r.bu) != bu {
			return
		}
		c.leaveCycle(r)
		b.counters.Withdrawn++
		if int(r.attempt) >= c.cfg.MaxAttempts {
			c.recordOutcome(k, r, Abandoned)
			return
		}
		r.state = recordToReissue
		c.reissue.push(k)
		n++
	})
	if c.chooser != nil {
		c.chooser.rebuildTurns()
	}
	c.depths.reissue.set(uint64(c.reissue.len()))
	if c.tagRing != nil {
		c.tagRing.exclude(bu)
	}
	c.recordWithdrawal(bu)
	b.usedSlots.set(0)
	c.advanceReleased()
	return n, nil
}

// loseBU is ExcludeBU for a builder unit that will not come back: readout units give up what they have under way to it.
// One that is excluded is lost by it, too.
func (c *Core) loseBU(bu int) (int, error) {
	if bu < 0 || bu >= len(c.bus) || c.bus[bu].lost {
		return c.ExcludeBU(bu)
	}
	b := &c.bus[bu]
	b.lost = true
	if b.excluded {
		c.recordWithdrawal(bu)
	}
	return c.ExcludeBU(bu)
}

// recordWithdrawal notes for the readout units that a builder unit is excluded.
func (c *Core) recordWithdrawal(bu int) {
	c.withdrawals = append(c.withdrawals, Withdrawal{BU: uint16(bu), Lost: c.bus[bu].lost, BeforeCycle: c.nextCycle})
	c.confirmedExclusions = append(c.confirmedExclusions, make([]bool, len(c.rus)))
}

// Withdrawals are the exclusions of builder units so far, which concern what readout units have not sent yet. The list
// only grows: an exclusion is a decision of run control.
func (c *Core) Withdrawals() []Withdrawal { return c.withdrawals }

// ConfirmExclusion takes from readout unit ru that nothing of an exclusion, known by its place among Withdrawn, is
// under way there any more.
func (c *Core) ConfirmExclusion(ru int, exclusion uint64) error {
	if exclusion >= uint64(len(c.confirmedExclusions)) || c.confirmedExclusions[exclusion][ru] {
		return c.refuse(BadConfirmation, c.cfg.RUs[ru], "exclusion %d of %d is confirmed that is not open", exclusion,
			len(c.confirmedExclusions))
	}
	c.confirmedExclusions[exclusion][ru] = true
	return nil
}

// unconfirmedRUs names the readout units that have something under way to an excluded builder unit still.
func (c *Core) unconfirmedRUs(bu int) (rus []string) {
	last := len(c.withdrawals) - 1
	for last >= 0 && int(c.withdrawals[last].BU) != bu {
		last--
	}
	for ru := range c.rus {
		if last >= 0 && !c.confirmedExclusions[last][ru] && !c.rus[ru].excluded {
			rus = append(rus, c.cfg.RUs[ru])
		}
	}
	return rus
}

// IncludeBU gives an excluded builder unit tokens again. The caller promises that the unit has forgotten the tokens it
// had and that all its slots are free. Including it twice does nothing; it is refused with NotNow when drained.
func (c *Core) IncludeBU(bu int) error {
	if bu < 0 || bu >= len(c.bus) {
		return c.refuse(UnknownUnit, "scheduler", "inclusion of builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if !b.excluded {
		return nil
	}
	if b.lost {
		return c.refuse(NotNow, c.cfg.BUs[bu], "is lost: it joins again when the next run is configured")
	}
	if c.drained() {
		return c.refuseInState("include a builder unit")
	}
	b.excluded = false
	b.freeAllSlots(c.cfg.creditPerBU())
	c.activeBUs++
	if c.chooser != nil {
		c.chooser.rebuildTurns()
	}
	return nil
}
