package core

// builders are the builder units: their slots, which of them hold up the others, which absences they know.
type builders struct {
	inputs

	bus           []buState
	activeBUs     int // BUs not excluded
	blockedBUs    int // active BUs without a free slot
	leftBehindBUs int // active BUs left behind
	// how many absences every builder unit must have acknowledged before a new MEP is issued; 0: none
	absencesToAck int
	isSuccessor   bool     // the state was rebuilt from what the units know
	chooser       *chooser // nil where the rules are plain and cycles are full: the cursor nextPlace is enough
}

type buState struct {
	freeSlots     queue // slots, first in first out as in the queues of TagNet-farm §III.B.4
	usedSlots     depth
	excluded      bool
	lost          bool // excluded, and its process is lost
	returned      bool // it was lost, and another process has taken its place
	unconfirmed   bool // it may have parts of tokens that are not valid; see recall.go
	ackedAbsences int  // how many of the absences the unit has acknowledged
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

// ApplyFeedback takes the outcome of a MEP from builder unit bu and frees the slot. It checks the entry in full against
// the issued token. An entry that does not match is refused with an *inputError, counted, and changes nothing. Only
// WrongEvents is a report rather than a refusal: the slot is free and the outcome is final, but the readout units or
// the builder unit counted the events wrongly.
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
		return c.refuse(WrongEvents, c.cfg.BUs[bu], "MEP %d was built with %d events, the readout units reported %d",
			f.MEP, f.Events, want)
	}
	return nil
}

// checkFeedback returns nil if the feedback answers the last token of its MEP, and otherwise the refusal.
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
	case r.state.isFinal():
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

// batchStep is the share of maxInFlight that is worth a message: an eighth leaves the units seven eighths to work on
// meanwhile. Below 256 tokens there are few messages anyway and latency counts, so the share is 0.
func batchStep(capacity int) int {
	if capacity < 256 {
		return 0
	}
	return capacity / 8
}

// worthBatching tells whether it pays to wait for more outcomes before the next Issue: each Issue costs one message to
// every readout unit, however many tokens the message holds. It pays if enough MEPs are in flight that more outcomes
// will come soon. Only a view with room for many small MEPs ever has enough.
func (c *builders) worthBatching() bool {
	capacity, used := c.maxInFlight(), c.tokensInFlight()
	if c.leftBehindBUs > 0 { // cycles do not wait for the MEPs of these units
		capacity -= c.leftBehindBUs * c.cfg.creditPerBU()
		for j := range c.bus {
			if b := &c.bus[j]; b.leftBehind {
				used -= int(b.usedSlots.Now)
			}
		}
	}
	return capacity-used < batchStep(capacity) && (c.blockedBUs == 0 || !c.hasIdleBU())
}

// hasIdleBU tells that an active builder unit has no MEP.
func (c *builders) hasIdleBU() bool {
	for j := range c.bus {
		if b := &c.bus[j]; !b.excluded && b.usedSlots.Now == 0 {
			return true
		}
	}
	return false
}

// leaveBehind takes the builder units that hold up the others out of the open cycles, and reports whether there were
// any: units with all the MEPs that they can have while another unit has none. ApplyFeedback has cycles wait for such a
// unit again once it has worked off half of its credit. Under Wait the Core says when cycles have waited for too long.
func (c *builders) leaveBehind() bool {
	return c.cfg.NoSlotPolicy == Skip && c.hasIdleBU() && c.leaveBehindFrom(c.behindThreshold())
}

// holdUp tells that builder units without a free slot hold up a unit that has no MEP.
func (c *builders) holdUp() bool { return c.blockedBUs > c.blockedBehind() && c.hasIdleBU() }

// blockedBehind is how many of the units left behind have no free slot.
func (c *builders) blockedBehind() (n int) {
	if c.leftBehindBUs == 0 {
		return 0
	}
	for j := range c.bus {
		if b := &c.bus[j]; b.leftBehind && b.freeSlots.len() == 0 {
			n++
		}
	}
	return n
}

// passOver leaves behind the builder units that have all that they can have, under either policy.
func (c *builders) passOver() { c.leaveBehindFrom(uint64(c.cfg.creditPerBU())) }

// leaveBehindFrom leaves the builder units behind that have so many MEPs.
func (c *builders) leaveBehindFrom(threshold uint64) (found bool) {
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

// behindThreshold is the number of MEPs from which a builder unit holds up the others. Where a unit stands in every
// cycle, it has its whole credit by then. Where rules pass over builder units, the threshold is the most that any unit
// has: a unit that has stopped may have a single MEP if its group may have no more. So a healthy unit may be left
// behind, and counted, until it has worked off half of its credit; cycles need not be full meanwhile.
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

// ackAbsences notes that builder unit bu goes by the first count of total absences.
func (c *builders) ackAbsences(bu int, count uint64, total int) error {
	if bu < 0 || bu >= len(c.bus) {
		return c.refuse(UnknownUnit, "scheduler", "absences known to builder unit %d of %d", bu, len(c.bus))
	}
	b := &c.bus[bu]
	if count > uint64(total) {
		return c.refuse(BadConfirmation, c.cfg.BUs[bu], "acknowledges %d absences of readout units, there were only %d",
			count, total)
	}
	b.ackedAbsences = max(b.ackedAbsences, int(count))
	return nil
}

// absencesUnacked tells that a builder unit may not know of the last rejoin of a readout unit yet. A builder unit that
// was excluded at that time may be included later, and not know of it either.
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
	Discarded Outcome = 3 // the builder unit could not keep up and dropped it (LHCb-EB §IV.B)
	Rejected  Outcome = 4 // a decision on some of its parts rejected it (TagNet-farm §II.H: regions of interest)
	Abandoned Outcome = 5 // the scheduler gave it up: too many attempts, or the run was abandoned
)

func (o Outcome) String() string {
	return enumName(int(o), "unknown", "built", "unknown", "discarded", "rejected", "abandoned")
}

// Feedback frees a slot and reports the outcome of the MEP in it (TagNet-farm §III.B.4).
type Feedback struct {
	MEP     uint64
	Slot    uint32
	Events  uint32 // events found in the MEP; checked if it was built
	Attempt uint8  // as in the token
	Outcome Outcome
}
