package core

// An Absence is one change among the readout units that take part: one has gone, or has rejoined. From the absences a
// builder unit knows which parts of each MEP to expect:
//
//   - once a unit is gone, its missing parts will not come: for the MEPs under way, and for all later ones before
//     FirstMEP of its rejoin;
//   - once a unit has rejoined, it has every MEP from FirstMEP on and none below, in whichever attempt.
//
// Cycles before FirstCycle were issued under the former membership. Readout units that keep phases finish these cycles
// first, as far as they can, and have new phases from FirstCycle on.
type Absence struct {
	RU         uint16
	Rejoined   bool   // it takes part again
	FirstCycle uint64 // the first cycle that was issued after the change
	FirstMEP   uint64 // the first MEP that had not been issued before the change
}

// A Withdrawal says that a builder unit has been excluded, or that a lost one is back: readout units send nothing more
// under its tokens of earlier cycles.
type Withdrawal struct {
	BU          uint16
	Lost        bool   // the unit is lost: readout units give up what is under way to it
	Returned    bool   // the lost unit is back, as another process, which knows none of its earlier tokens
	BeforeCycle uint64 // number of the first cycle whose token for the unit would be valid again
}

// ExcludeRU goes on without readout unit ru: its watermark no longer counts, and builder units treat parts that have
// not come from it as missing. When the last unit is excluded, the input has ended. A second exclusion does nothing.
func (c *Allocator) ExcludeRU(ru int) error {
	if ru < 0 || ru >= len(c.rus) {
		return c.refuse(UnknownUnit, "scheduler", "exclusion of readout unit %d of %d", ru, len(c.rus))
	}
	s := &c.rus[ru]
	if s.excluded {
		return nil
	}
	if c.drained() {
		c.endMEP = c.nextMEP // once drained, always drained, even if the excluded unit is the one whose end ended the run
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
	if c.tagRing != nil {
		c.tagRing.change(ru, rejoined, len(c.absences))
	}
}

// includeRU takes an excluded readout unit in again. The unit has every MEP from the next new one on, and reports by
// Update which of them it holds. No new MEP is issued until every builder unit that is not excluded has acknowledged
// the rejoin by ackAbsences: a builder unit that did not know of it would treat the unit's parts as missing. It is
// refused with NotNow when drained, and when the input has ended. A second inclusion does nothing.
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
	s.excluded, s.hasStopped, s.clearedAbsences = false, false, 0
	s.Update = Update{ReadBelow: c.nextMEP, Events: (c.nextMEP - c.cfg.FirstMEP) * uint64(c.cfg.Packing)}
	if c.cutter != nil {
		s.Update.Events = c.cutter.eventsBelow(c.nextMEP)
		c.cutter.reachByRU[ru] = Reach{} // the former reach was that of another process
	}
	c.recordAbsence(ru, true)
	for x := range c.confirmedExclusions {
		c.confirmedExclusions[x][ru] = false // the new process is told of all exclusions, and has nothing under way yet
	}
	c.absencesToAck = len(c.absences)
	c.updateReadWatermark()
	return nil
}

// checkIncludeRU returns nil if a readout unit can be taken in now, and otherwise why not.
func (c *Allocator) checkIncludeRU() error {
	if c.drained() || c.inputEnded || c.draining {
		return c.refuseInState("include a readout unit")
	}
	return nil
}

// ExcludeBU gives builder unit bu no more tokens. Its MEPs without outcome are issued again, to other units, with the
// next attempt number; MEPs whose attempts are used up are abandoned. It returns how many will be issued again.
// Feedback of the unit is refused from now on. A lost unit will not come back: readout units give up the writes that
// they have under way to it. A second exclusion does nothing, except that an excluded unit may become lost.
func (c *Allocator) ExcludeBU(bu int, lost bool) (int, error) {
	if bu < 0 || bu >= len(c.bus) {
		return 0, c.refuse(UnknownUnit, "scheduler", "exclusion of builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if b.excluded && (b.lost || !lost) {
		return 0, nil
	}
	b.lost = b.lost || lost
	c.recordWithdrawal(Withdrawal{BU: uint16(bu), Lost: b.lost})
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

// withdrawalLog is all withdrawals so far; the list only grows.
type withdrawalLog struct{ withdrawals []Withdrawal }

// Withdrawals are all withdrawals so far, the oldest first.
func (l *withdrawalLog) Withdrawals() []Withdrawal { return l.withdrawals }

// recordWithdrawal records for the readout units that a builder unit is excluded or back, from the next cycle on.
func (c *Allocator) recordWithdrawal(w Withdrawal) {
	w.BeforeCycle = c.nextCycle
	c.withdrawals = append(c.withdrawals, w)
	c.confirmedExclusions = append(c.confirmedExclusions, make([]bool, len(c.rus)))
}

// isConfirmed tells that a readout unit has confirmed an exclusion, named by its place among the withdrawals.
func (c *Allocator) isConfirmed(ru int, exclusion uint64) bool {
	return exclusion < uint64(len(c.confirmedExclusions)) && c.confirmedExclusions[exclusion][ru]
}

// ConfirmExclusion notes that readout unit ru has nothing under way any more to the builder unit of an exclusion, named
// by its place among the withdrawals.
func (c *Allocator) ConfirmExclusion(ru int, exclusion uint64) error {
	if exclusion >= uint64(len(c.confirmedExclusions)) || c.isConfirmed(ru, exclusion) {
		return c.refuse(BadConfirmation, c.cfg.RUs[ru], "confirms exclusion %d of %d, which is not open", exclusion,
			len(c.confirmedExclusions))
	}
	c.confirmedExclusions[exclusion][ru] = true
	return nil
}

// unconfirmedRUs names the readout units that may still have writes under way to an excluded builder unit.
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

// IncludeBU gives an excluded builder unit tokens again. The caller promises that the unit has forgotten its earlier
// tokens and that all its slots are free; a lost unit is another process now. A second inclusion does nothing; when
// drained, it is refused with NotNow.
func (c *Allocator) IncludeBU(bu int) error {
	if bu < 0 || bu >= len(c.bus) {
		return c.refuse(UnknownUnit, "scheduler", "inclusion of builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if !b.excluded {
		return nil
	}
	if c.drained() {
		return c.refuseInState("include a builder unit")
	}
	if b.lost {
		c.recordWithdrawal(Withdrawal{BU: uint16(bu), Returned: true})
		b.ackedAbsences, b.returned = 0, true
	}
	b.excluded, b.lost = false, false
	b.freeAllSlots(c.cfg.creditPerBU())
	c.activeBUs++
	if c.chooser != nil {
		c.chooser.rebuildTurns()
	}
	return nil
}
