package core

import "slices"

// Audience is who is to be told of a notice at once. Everybody else takes what there is for him along with the next
// one that he is to be told.
type Audience uint8

// The audiences.
const (
	ForReadouts Audience = 1 << iota
	ForFirstRU           // the readout unit that launches tags, alone
	ForBuilders
	ForControl
)

// A Notice is one entry of the one ordered stream of what a scheduler tells: what is new, and where it stands after
// that. It is never changed, and whoever has it may keep it.
type Notice struct {
	Sequence uint64 // its place in the stream, from 1
	For      Audience
	AtNs     int64 // ns since the Unix epoch

	Absences    []Absence    // readout units that went or rejoined; before the cycles that they concern
	Withdrawals []Withdrawal // builder units that were excluded
	Cuts        []Cut        // which events further MEPs have
	Batch                    // cycles; without any, the number of the next one
	Tags        []Tag        // that set out, behind their tokens
	Incident    *UnitError   // nil: none

	State         State
	Released      uint64 // every MEP below has its outcome, but those held up
	HeldUp        []uint64
	HeldUpChanges uint64 // of HeldUp, since the beginning
	CutsOver      bool   // no MEP comes behind the cuts told so far
}

// Limits of one notice, and of a message made of several. With them a message is below 32 KiB: gRPC's pool has nothing
// between that and buffers of 1 MiB, which it clears whole every time: with 48 KiB a tenth of all time went there
// (measured 2026-11-21, gRPC 1.85).
const (
	MaxTokensPerNotice = 2560 // of 12 bytes
	MaxCutsPerNotice   = 1024 // of 16 bytes
)

// Position is how far somebody has come in the stream of notices of one scheduler. Whoever resumes is continued where
// the terms are the same and the sequence number is one that was told.
type Position struct {
	Term uint64 // of the scheduler, drawn when it begins; 0: from the beginning
	Next uint64 // sequence number of the first notice that is missing
}

// append gives a notice its place, and the marks that hold after it.
func (c *Core) append(n Notice) {
	n.Sequence, n.AtNs = c.next, c.unixNano(c.now)
	c.next++
	c.ready.Notices = append(c.ready.Notices, n)
}

// report tells the control of an incident.
func (c *Core) report(u Unit, what Incident, err error) {
	n := c.mark
	n.For, n.Incident = ForControl, &UnitError{Role: u.Role, Unit: c.name(u), Incident: what, Err: err}
	c.append(n)
}

// publish tells what is new since the last notice, with the cycles that were issued and the tags that set out. A
// watermark alone is worth a notice when so many more MEPs are released that they make a step, or when nothing is in
// flight that anybody waits for: else it goes with the next one.
func (c *Core) publish(issued Batch, tags []Tag) {
	a, n := c.alloc, c.mark
	n.Tags, n.State, n.Released = tags, a.State(), a.released
	n.Absences, n.Withdrawals = a.absences[len(c.absenceNotices):], a.withdrawals[c.withdrawalsPublished:]
	if n.HeldUpChanges != a.heldUp.changes {
		n.HeldUp, n.HeldUpChanges = slices.Clone(a.heldUp.meps), a.heldUp.changes
	}
	cuts := c.newCuts()
	if a.cutter != nil {
		n.CutsOver = a.cutter.cutsOver
	}
	idle, released := a.noCycleAwaited(), a.released-uint64(len(a.heldUp.meps))
	if issued.Len() > 0 || len(n.Absences)+len(n.Withdrawals)+len(cuts) > 0 || n.State != c.mark.State ||
		n.CutsOver != c.mark.CutsOver || released-c.releasedPublished >= c.releaseStep ||
		idle && (!c.idle || released != c.releasedSeen) {
		n.For |= ForReadouts
		c.releasedPublished = released
	}
	c.idle, c.releasedSeen = idle, released
	if len(tags) > 0 {
		n.For |= ForFirstRU
	}
	if n.State != c.mark.State {
		n.For |= ForControl
	}
	if len(n.Absences) > 0 || n.State != c.mark.State && n.State >= Draining {
		n.For |= ForBuilders
	}
	if n.For == 0 {
		return
	}
	c.withdrawalsPublished = len(a.withdrawals)
	for range n.Absences {
		c.absenceNotices = append(c.absenceNotices, c.next)
	}
	c.mark = n
	c.mark.For, c.mark.Absences, c.mark.Withdrawals, c.mark.Tags = 0, nil, nil, nil
	c.mark.FirstCycle = issued.FirstCycle + uint64(issued.Len())
	split(n, cuts, issued, func(n Notice, _ bool) { c.append(n) })
}

// split gives a notice to emit, or several where there are too many cuts and tokens for one. Absences come with the
// first of them, tags with the last.
func split(n Notice, cuts []Cut, issued Batch, emit func(n Notice, last bool)) {
	tags, over, who := n.Tags, n.CutsOver, n.For
	for {
		n.Batch = Batch{FirstCycle: issued.FirstCycle, PlacesPerCycle: issued.PlacesPerCycle}
		cutsNow := min(len(cuts), MaxCutsPerNotice)
		n.Cuts, cuts = cuts[:cutsNow:cutsNow], cuts[cutsNow:]
		if len(cuts) == 0 && issued.Len() > 0 {
			cycles := min(issued.Len(), max(1, MaxTokensPerNotice/issued.PlacesPerCycle))
			n.Batch, issued = issued.split(cycles)
		}
		last := len(cuts) == 0 && issued.Len() == 0
		n.Tags, n.CutsOver, n.For = nil, over && len(cuts) == 0, who&^ForControl
		if last {
			n.Tags, n.For = tags, who
		}
		if emit(n, last); last {
			return
		}
		n.Absences, n.Withdrawals = nil, nil
	}
}

// newCuts are the cuts that were not told yet.
func (c *Core) newCuts() (cuts []Cut) {
	if c.alloc.cutter == nil {
		return nil
	}
	cuts = c.alloc.cutter.from(c.cutsPublished)
	c.cutsPublished = c.alloc.cutter.nextMEP
	return cuts
}

// snapshot is what a session is told at first that has every MEP from one on, which is in no cycle yet: all that others
// were told before and that still counts. Only the last of several notices has a place in the stream, so nobody resumes
// between them.
func (c *Core) snapshot(firstMEP uint64) (all []Notice) {
	n := c.mark
	n.Absences, n.Withdrawals = c.alloc.absences, c.alloc.withdrawals
	var cuts []Cut
	if c.alloc.cutter != nil {
		cuts = c.alloc.cutter.from(firstMEP)
	}
	split(n, cuts, Batch{FirstCycle: n.FirstCycle, PlacesPerCycle: n.PlacesPerCycle}, func(n Notice, last bool) {
		if last {
			n.Sequence = c.next - 1
		}
		all = append(all, n)
	})
	return all
}

// Limits of the packed words that a token travels in (docs/format/tagnet.md).
const (
	// MaxSlots is the largest number of slots a builder unit may have: a slot number has 24 bits.
	MaxSlots = 1 << 24
	// MaxAttempt is the largest attempt number: it has 8 bits.
	MaxAttempt = 1<<8 - 1
	// NoMEP stands in an empty place instead of a MEP number. It equals the end-of-run event id, so no MEP has it.
	NoMEP uint64 = 1<<64 - 1

	slotMask     = MaxSlots - 1
	attemptShift = 24
)

// A Token sends one MEP to one slot of one builder unit (architecture, "The way of an event").
type Token struct {
	MEP     uint64
	Slot    uint32 // of the builder unit
	BU      uint16 // index in the view, which is also its place in the cycle
	Attempt uint8  // 1 for the first; the highest attempt counts
}

// A Batch holds whole cycles in order, one entry for every place of every cycle, in the form they travel in. Cycle i of
// the batch has the number First+i; its place j is at index i*Places+j of MEPs and Slots.
type Batch struct {
	FirstCycle     uint64   // number of the first cycle
	PlacesPerCycle int      // places in a cycle
	MEPs           []uint64 // NoMEP in an empty place
	Slots          []uint32 // attempt<<24 | slot; 0 in an empty place
}

// Len is the number of cycles in the batch.
func (b *Batch) Len() int {
	if b.PlacesPerCycle == 0 {
		return 0
	}
	return len(b.MEPs) / b.PlacesPerCycle
}

// Token returns what stands in a place of cycle i of the batch, and false if the place is empty. It panics if i or
// place is out of range, like an index expression.
func (b *Batch) Token(i, place int) (Token, bool) {
	at := i*b.PlacesPerCycle + place
	mep := b.MEPs[at]
	if mep == NoMEP {
		return Token{}, false
	}
	word := b.Slots[at]
	return Token{
		MEP:     mep,
		Slot:    word & slotMask,
		BU:      uint16(place),
		Attempt: uint8(word >> attemptShift),
	}, true
}

// split is the first cycles of a batch, and the others. They share its memory.
func (b *Batch) split(cycles int) (first, rest Batch) {
	first, rest = *b, *b
	n := cycles * b.PlacesPerCycle
	first.MEPs, first.Slots = b.MEPs[:n:n], b.Slots[:n:n]
	rest.FirstCycle, rest.MEPs, rest.Slots = b.FirstCycle+uint64(cycles), b.MEPs[n:], b.Slots[n:]
	return first, rest
}

// Reset empties the batch, keeps its memory, and sets the number the next cycle will have.
func (b *Batch) Reset(first uint64, places int) {
	b.FirstCycle, b.PlacesPerCycle = first, places
	b.MEPs, b.Slots = b.MEPs[:0], b.Slots[:0]
}

// appendEmptyCycle appends a cycle of empty places and returns the index of its first place.
func (b *Batch) appendEmptyCycle() int {
	at := len(b.MEPs)
	for range b.PlacesPerCycle {
		b.MEPs = append(b.MEPs, NoMEP)
		b.Slots = append(b.Slots, 0)
	}
	return at
}

// PackSlot is the word of an attempt and a slot.
func PackSlot(attempt uint8, slot uint32) uint32 {
	return uint32(attempt)<<attemptShift | slot&slotMask
}
