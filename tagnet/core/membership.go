package core

// An Absence is one change of who among the readout units takes part: one has gone, or has rejoined. Who goes by them
// knows, of each MEP, which parts to expect:
//
//   - once a unit is gone, whatever has not come from it will not come: for the MEPs under way, and for all later ones
//     up to the first that a rejoin names;
//   - once it has rejoined it has every MEP from that one on, and none before it, whatever attempt.
//
// Cycles before FirstCycle were issued under what held before. Readout units that keep phases end them first, as they
// can, and have new phases from FirstCycle on.
type Absence struct {
	RU         uint16
	Rejoined   bool   // it takes part again
	FirstCycle uint64 // the first that was issued after the change
	FirstMEP   uint64 // the first that was not issued before the change
}

// A Withdrawal says that a builder unit has been excluded: nothing that was not sent yet is sent by its tokens of
// earlier cycles.
type Withdrawal struct {
	BU          uint16
	Lost        bool   // it is lost, and will not come back in this view
	BeforeCycle uint64 // number of the first cycle whose token for it would be good again
}

// excludeRU goes on without readout unit ru: its watermark no longer counts, and builder units take what has not come
// from it for missing. With the last unit excluded the input has ended. Excluding it twice does nothing. It is refused
// with NotNow where the units form a ring.
func (c *Allocator) excludeRU(ru int) error {
	if ru < 0 || ru >= len(c.rus) {
		return c.refuse(UnknownUnit, "scheduler", "exclusion of readout unit %d of %d", ru, len(c.rus))
	}
	if c.tagRing != nil {
		return c.refuse(NotNow, c.cfg.RUs[ru], "cannot be excluded: tags pass through every readout unit of the ring")
	}
	s := &c.rus[ru]
	if s.excluded {
		return nil
	}
	if c.drained() {
		c.endMEP = c.nextMEP // drained is for good, even if the unit that had ended is the one excluded
	}
	s.excluded = true
	s.exclusions++
	c.recordAbsence(ru, false)
	c.updateReadWatermark()
	return nil
}

// recordAbsence notes that a readout unit has gone or has rejoined.
func (c *Allocator) recordAbsence(ru int, rejoined bool) {
	c.absences = append(c.absences, Absence{
		RU:         uint16(ru),
		Rejoined:   rejoined,
		FirstCycle: c.nextCycle,
		FirstMEP:   c.nextMEP,
	})
}

// includeRU takes an excluded readout unit in again, which has every MEP from the next new one on, and tells what it
// holds of them by Update. No new MEP is issued before every builder unit that is not excluded has said by ackAbsences
// that it goes by the rejoin: it would else take the unit's parts for missing. It is refused with NotNow when drained,
// and where the unit's input had ended. Including it twice does nothing.
func (c *Allocator) includeRU(ru int) error {
	if ru < 0 || ru >= len(c.rus) {
		return c.refuse(UnknownUnit, "scheduler", "inclusion of readout unit %d of %d", ru, len(c.rus))
	}
	s := &c.rus[ru]
	if !s.excluded {
		return nil
	}
	if err := c.checkIncludeRU(); err != nil {
		return err
	}
	s.excluded = false
	s.Update = Update{ReadBelow: c.nextMEP, Events: (c.nextMEP - c.cfg.FirstMEP) * uint64(c.cfg.Packing)}
	if c.cutter != nil {
		s.Update.Events = c.cutter.eventsBelow(c.nextMEP)
		c.cutter.reachByRU[ru] = Reach{} // that of another process
	}
	c.recordAbsence(ru, true)
	for x := range c.confirmedExclusions {
		c.confirmedExclusions[x][ru] = false // it is told of all of them, and has nothing under way
	}
	c.absencesToAck = len(c.absences)
	c.updateReadWatermark()
	return nil
}

// checkIncludeRU says why no readout unit can be taken in now; nil if it can.
func (c *Allocator) checkIncludeRU() error {
	if c.drained() || c.inputEnded || c.draining {
		return c.refuseInState("include a readout unit")
	}
	return nil
}

// ExcludeBU gives builder unit bu no more tokens. Its MEPs without outcome are issued again, to other units, with the
// next attempt number; those out of attempts are abandoned. It returns how many will be issued again. Feedback of the
// unit is refused from now on. One that is lost will not come back: readout units give up what they have under way to
// it. Excluding it twice does nothing, but that one that was excluded may be lost.
func (c *Allocator) ExcludeBU(bu int, lost bool) (int, error) {
	if bu < 0 || bu >= len(c.bus) {
		return 0, c.refuse(UnknownUnit, "scheduler", "exclusion of builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if b.excluded && (b.lost || !lost) {
		return 0, nil
	}
	b.lost = b.lost || lost
	c.recordWithdrawal(bu)
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
			c.recordOutcome(k, r, Abandoned, nil)
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
	b.usedSlots.set(0)
	c.advanceReleased()
	return n, nil
}

// recordWithdrawal notes for the readout units that a builder unit is excluded.
func (c *Allocator) recordWithdrawal(bu int) {
	c.withdrawals = append(c.withdrawals, Withdrawal{BU: uint16(bu), Lost: c.bus[bu].lost, BeforeCycle: c.nextCycle})
	c.confirmedExclusions = append(c.confirmedExclusions, make([]bool, len(c.rus)))
}

// isConfirmed tells that a readout unit has confirmed an exclusion, known by its place among the withdrawals.
func (c *Allocator) isConfirmed(ru int, exclusion uint64) bool {
	return exclusion < uint64(len(c.confirmedExclusions)) && c.confirmedExclusions[exclusion][ru]
}

// ConfirmExclusion takes from readout unit ru that nothing of an exclusion, known by its place among the
// withdrawals, is under way there any more.
func (c *Allocator) ConfirmExclusion(ru int, exclusion uint64) error {
	if exclusion >= uint64(len(c.confirmedExclusions)) || c.isConfirmed(ru, exclusion) {
		return c.refuse(BadConfirmation, c.cfg.RUs[ru], "exclusion %d of %d is confirmed that is not open", exclusion,
			len(c.confirmedExclusions))
	}
	c.confirmedExclusions[exclusion][ru] = true
	return nil
}

// unconfirmedRUs names the readout units that have something under way to an excluded builder unit still.
func (c *Allocator) unconfirmedRUs(bu int) (rus []string) {
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
func (c *Allocator) IncludeBU(bu int) error {
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
