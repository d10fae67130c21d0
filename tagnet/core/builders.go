package core

// builders are the builder units: who has slots, who holds up the others, who goes by which absences.
type builders struct {
	inputs

	bus           []buState
	activeBUs     int // BUs not excluded
	blockedBUs    int // active BUs without a free slot
	leftBehindBUs int // active BUs left behind
	// absences that every builder unit must go by before a new MEP is issued; 0: there is no such
	absencesToAck int
	chooser       *chooser // nil where the rules are plain and cycles are full: then the cursor is all it takes
}

type buState struct {
	freeSlots     queue // of slots, first in first out as in the queues of TagNet-farm §III.B.4
	usedSlots     depth
	excluded      bool
	lost          bool // excluded for good
	ackedAbsences int  // of the absences
	leftBehind    bool // the others do not wait for it; see leaveBehind
	counters      *BUCounters
}

func newBuilders(cfg Config) builders {
	c := builders{inputs: newInputs(cfg), bus: make([]buState, len(cfg.BUs)), activeBUs: len(cfg.BUs)}
	for j := range c.bus {
		c.bus[j].freeSlots = newQueue(cfg.Slots)
		c.bus[j].usedSlots = newDepth(uint64(cfg.creditPerBU()))
		c.bus[j].freeAllSlots(cfg.creditPerBU())
		c.bus[j].counters = &BUCounters{}
	}
	return c
}

// freeAllSlots makes all slots free.
func (b *buState) freeAllSlots(slots int) {
	b.freeSlots.clear()
	for s := range slots {
		b.freeSlots.push(uint64(s))
	}
	b.usedSlots.set(0)
}

// ApplyFeedback takes the outcome of a MEP from builder unit bu and frees its slot. The entry is checked in full
// against the token that was issued; one that does not match is refused with an *inputError and counted, and changes
// nothing. Only WrongEvents is a report rather than a refusal: the slot is free and the outcome stands, but somebody
// counted wrongly.
func (c *builders) ApplyFeedback(bu int, f Feedback) error {
	if bu < 0 || bu >= len(c.bus) {
		return c.refuse(UnknownUnit, "scheduler", "feedback of builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	r := c.recordOf(f.MEP)
	if err := c.checkFeedback(bu, f, r); err != nil {
		b.counters.Refused++
		return err
	}
	c.leaveCycle(r)
	if b.freeSlots.len() == 0 {
		c.blockedBUs--
	}
	b.freeSlots.push(uint64(f.Slot))
	b.usedSlots.set(b.usedSlots.Now - 1)
	want := c.eventCount(f.MEP)
	c.recordOutcome(f.MEP, r, f.Outcome, b.counters)
	switch {
	case f.MEP == c.released:
		c.advanceReleased()
	case f.MEP < c.released:
		c.heldUp.prune()
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
func (c *builders) checkFeedback(bu int, f Feedback, r *mepRecord) error {
	unit := c.cfg.BUs[bu]
	switch {
	case c.bus[bu].excluded:
		return c.refuse(UnitExcluded, unit, "feedback for MEP %d after the unit was excluded", f.MEP)
	case f.Outcome != Built && f.Outcome != Discarded && f.Outcome != Rejected:
		return c.refuse(BadOutcome, unit, "feedback for MEP %d has outcome %d", f.MEP, f.Outcome)
	case f.Slot >= uint32(c.cfg.Slots):
		return c.refuse(SlotOutOfRange, unit, "feedback for MEP %d names slot %d of %d", f.MEP, f.Slot, c.cfg.Slots)
	case f.MEP >= c.nextMEP || f.MEP < c.cfg.FirstMEP:
		return c.refuse(NeverIssued, unit, "feedback for MEP %d, which was never issued (next is %d)", f.MEP, c.nextMEP)
	case r.state == recordFinal:
		return c.refuse(AlreadyFinal, unit, "feedback for MEP %d, slot %d, which has its outcome already", f.MEP, f.Slot)
	case r.state == recordToReissue:
		return c.refuse(WrongAttempt, unit, "feedback for attempt %d of MEP %d, which waits to be issued again", f.Attempt,
			f.MEP)
	case f.Attempt != r.attempt:
		return c.refuse(WrongAttempt, unit, "feedback for attempt %d of MEP %d, the last one issued is %d", f.Attempt, f.MEP,
			r.attempt)
	case int(r.bu) != bu:
		return c.refuse(WrongBuilder, unit, "feedback for MEP %d, which was given to %s", f.MEP, c.cfg.BUs[r.bu])
	case r.slot != f.Slot:
		return c.refuse(WrongSlot, unit, "feedback for MEP %d names slot %d, the token says %d", f.MEP, f.Slot, r.slot)
	}
	return nil
}

// maxInFlight is how many MEPs can be in flight.
func (c *builders) maxInFlight() int {
	return min(c.cfg.LookAhead*c.placesPerCycle, c.cfg.Slots*c.activeBUs)
}

// batchStep is the share of maxInFlight that is worth a message: an eighth leaves the units seven to work on meanwhile.
// Below 256 tokens messages are few anyway, and latency counts: 0.
func batchStep(capacity int) int {
	if capacity < 256 {
		return 0
	}
	return capacity / 8
}

// worthBatching tells that so much is in flight that it pays to wait for more outcomes before issuing again: what is
// issued at a time goes to every readout unit in a message, whose cost does not depend on what is in it. Since much is
// in flight, more outcomes will come. Only a view with room for many small MEPs ever has so much.
func (c *builders) worthBatching() bool {
	capacity, used := c.maxInFlight(), c.tokensInFlight()
	if c.leftBehindBUs > 0 { // nobody waits for what they have
		capacity -= c.leftBehindBUs * c.cfg.creditPerBU()
		for j := range c.bus {
			if b := &c.bus[j]; b.leftBehind {
				used -= int(b.usedSlots.Now)
			}
		}
	}
	return capacity-used < batchStep(capacity) && (c.blockedBUs == 0 || !c.hasIdleBU())
}

// hasIdleBU tells that an active builder unit has nothing.
func (c *builders) hasIdleBU() bool {
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && b.usedSlots.Now == 0 {
			return true
		}
	}
	return false
}

// leaveBehind lets the others go on without the builder units that hold them up, and reports whether there was any:
// those that have all they can have while another has nothing. One that has worked off half of what it can have is
// waited for again.
func (c *builders) leaveBehind() bool {
	if c.cfg.NoSlotPolicy != Skip || !c.hasIdleBU() {
		return false
	}
	found, threshold := false, c.behindThreshold()
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && !b.leftBehind && b.usedSlots.Now >= threshold {
			b.leftBehind, found = true, true
			c.leftBehindBUs++
			b.counters.LeftBehind++
		}
	}
	if found {
		c.forEachUnfinished(func(_ uint64, r *mepRecord) {
			if r.state == recordInFlight && c.bus[r.bu].leftBehind {
				c.releaseFromCycle(r)
			}
		})
	}
	return found
}

// behindThreshold is how many MEPs a builder unit has that holds the others up. Who stands in every cycle has all it
// can have by then; where rules pass over builder units, it is whoever has most: one that has stopped may have a single
// MEP, where its group has no more. So a healthy one may be taken for it, and counted, until it has worked off half of
// what it can have; cycles need not be full then.
func (c *builders) behindThreshold() uint64 {
	if c.cfg.Rules.isPlain() && !c.cfg.Loose {
		return uint64(c.cfg.creditPerBU())
	}
	most := uint64(1)
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && !b.leftBehind {
			most = max(most, b.usedSlots.Now)
		}
	}
	return most
}

// ackAbsences takes from builder unit bu by how many of the changes it goes.
func (c *builders) ackAbsences(bu int, count uint64, total int) error {
	if bu < 0 || bu >= len(c.bus) {
		return c.refuse(UnknownUnit, "scheduler", "absences known to builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if count > uint64(total) {
		return c.refuse(BadConfirmation, c.cfg.BUs[bu], "%d changes of the readout units are known there, there were %d",
			count, total)
	}
	b.ackedAbsences = max(b.ackedAbsences, int(count))
	return nil
}

// absencesUnacked tells that a builder unit may not go by the last rejoin of a readout unit yet. One that was excluded
// then may be included later, and not know.
func (c *builders) absencesUnacked() bool {
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

// Outcome of a MEP. Every issued MEP gets exactly one.
type Outcome uint8

// The outcomes. The values of the first three are those of the protocol, in which 2 is reserved.
const (
	Built     Outcome = 1 // all MFPs are in the MEP
	Discarded Outcome = 3 // the builder unit could not keep up and let it go (LHCb-EB §IV.B)
	Rejected  Outcome = 4 // by a decision on a part of it (TagNet-farm §II.H: regions of interest)
	Abandoned Outcome = 5 // the scheduler gave it up: too many attempts, or the run was abandoned
)

func (o Outcome) String() string {
	return enumName(int(o), "unknown", "built", "unknown", "discarded", "rejected", "abandoned")
}

// Feedback returns a slot and tells the outcome of the MEP that was in it (TagNet-farm §III.B.4).
type Feedback struct {
	MEP     uint64
	Slot    uint32
	Events  uint32 // found in the MEP; checked if it was built
	Attempt uint8  // as in the token
	Outcome Outcome
}
