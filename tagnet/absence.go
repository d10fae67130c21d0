package tagnet

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

// absenceRejoinedBit is the bit of an absence's first word that says Rejoined.
const absenceRejoinedBit = 1 << 63

// wordsPerAbsence is how many words an absence has.
const wordsPerAbsence = 3

// appendWords writes the absence as it travels.
func (a *Absence) appendWords(dst []uint64) []uint64 {
	first := uint64(a.RU)
	if a.Rejoined {
		first |= absenceRejoinedBit
	}
	return append(dst, first, a.FirstCycle, a.FirstMEP)
}

// encodeAbsences writes absences as they travel.
func encodeAbsences(all []Absence) (words []uint64) {
	for i := range all {
		words = all[i].appendWords(words)
	}
	return words
}

// decodeAbsences reads absences that stand one behind the other; false if they are none.
func decodeAbsences(words []uint64) (all []Absence, ok bool) {
	if len(words)%wordsPerAbsence != 0 {
		return nil, false
	}
	for ; len(words) > 0; words = words[wordsPerAbsence:] {
		ru := words[0] &^ absenceRejoinedBit
		if ru > 1<<16-1 {
			return nil, false
		}
		all = append(all, Absence{
			RU:         uint16(ru),
			Rejoined:   words[0] != ru,
			FirstCycle: words[1],
			FirstMEP:   words[2],
		})
	}
	return all, true
}

// rejoinedByRU is which readout units have rejoined, and which are gone, after some absences.
func rejoinedByRU(all []Absence) map[uint16]bool {
	rejoined := map[uint16]bool{}
	for _, a := range all {
		rejoined[a.RU] = a.Rejoined
	}
	return rejoined
}

// absencesSoFar are the changes so far of who takes part among the readout units. The list only grows.
func (c *Core) absencesSoFar() []Absence { return c.absences }

// excludeRU goes on without readout unit ru: its watermark no longer counts, and builder units take what has not come
// from it for missing. With the last unit excluded the input has ended. Excluding it twice does nothing. It is refused
// with NotNow where the units form a ring.
func (c *Core) excludeRU(ru int) error {
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
func (c *Core) recordAbsence(ru int, rejoined bool) {
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
func (c *Core) includeRU(ru int) error {
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
func (c *Core) checkIncludeRU() error {
	if c.drained() || c.inputEnded || c.draining {
		return c.refuseInState("include a readout unit")
	}
	return nil
}

// ackAbsences takes from builder unit bu by how many of the changes it goes.
func (c *Core) ackAbsences(bu int, count uint64) error {
	if bu < 0 || bu >= len(c.bus) {
		return c.refuse(UnknownUnit, "scheduler", "absences known to builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if count > uint64(len(c.absences)) {
		return c.refuse(BadConfirmation, c.cfg.BUs[bu], "%d changes of the readout units are known there, there were %d",
			count, len(c.absences))
	}
	b.ackedAbsences = max(b.ackedAbsences, int(count))
	return nil
}

// absencesUnacked tells that a builder unit may not go by the last rejoin of a readout unit yet. One that was excluded
// then may be included later, and not know.
func (c *Core) absencesUnacked() bool {
	if c.absencesToAck == 0 {
		return false
	}
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && b.ackedAbsences < c.absencesToAck {
			return true
		}
	}
	return false
}
