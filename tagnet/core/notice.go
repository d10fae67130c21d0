package core

import "slices"

// Audience says to which receivers the scheduler sends a notice without delay. The other receivers get what concerns
// them of it later, with the next notice that the scheduler sends to them without delay.
type Audience uint8

// The audiences.
const (
	ForReadouts Audience = 1 << iota
	ForFirstRU           // only the readout unit that launches tags, while it is the one with index 0
	ForBuilders
	ForControl
)

// A Notice is one entry of the ordered stream of all that a scheduler sends: the news, and the state after it. A notice
// never changes, so readers may keep it.
type Notice struct {
	Sequence uint64 // its place in the stream, from 1
	For      Audience
	AtNs     int64 // ns since the Unix epoch

	Absences    []Absence    // readout units that have gone or rejoined; sent before the cycles that they concern
	Withdrawals []Withdrawal // builder units that were excluded
	Cuts        []Cut        // events of further MEPs
	CutsAt      *CutPosition // of the first of them; nil: the data are not live
	Batch                    // cycles; without cycles, the number of the next one
	Tags        []Tag        // tags that start, after their tokens
	FirstRU     int          // with Tags: the readout unit that gets them
	Incident    *UnitError   // nil: none

	State         State
	Released      uint64 // every MEP below has its outcome, but those held up
	HeldUp        []uint64
	HeldUpChanges uint64 // how often HeldUp has changed since the beginning
	CutsOver      bool   // no further cut will be made
	Triggers      TriggerTotals
	EndKnown      bool    // with Config.Push: the run ends before EndMEP, and tokens from it on are void
	EndMEP        uint64  // with EndKnown
	Unbuilt       Unbuilt // MEPs below Released with another outcome than Built
	// Earlier are the tokens of earlier cycles whose MEPs have no outcome; in the snapshot of a readout unit only.
	Earlier []PlacedToken
	Valid   *ValidTokens // in the first notice to a builder unit from a successor only
}

// Limits of one notice, and of a message made of several. They keep a message below 32 KiB: the next larger buffer of
// gRPC's pool has 1 MiB, and gRPC clears it whole each time. Messages of 48 KiB cost a tenth of all time in that
// (measured 2026-11-21, gRPC 1.85).
const (
	MaxTokensPerNotice = 2560 // of 12 bytes
	MaxCutsPerNotice   = 1024 // of 16 bytes
)

// Position is how far a reader has come in the stream of notices of one scheduler. The scheduler continues a reader
// from there if the term is its own and the sequence number one that it has sent.
type Position struct {
	Term uint64 // of the scheduler's stream; 0: from the beginning
	Next uint64 // sequence number of the first notice that the reader has not got
}

// append gives a notice its sequence number and time, and adds it to ready.
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

// publish appends a notice with all news since the last one, with the cycles that were issued and the tags that start.
// A change of the watermark alone becomes a notice when at least releaseStep more MEPs are released, or when no cycle
// is in flight that the others wait for. Otherwise it goes with the next notice.
func (c *Core) publish(issued Batch, tags []Tag) {
	a, n := c.alloc, c.mark
	n.Tags, n.State, n.Released, n.Unbuilt = tags, a.State(), a.released, a.unbuilt
	n.Absences, n.Withdrawals = a.absences[len(c.absenceNotices):], a.withdrawals[c.withdrawalsPublished:]
	if n.HeldUpChanges != a.heldUp.changes {
		n.HeldUp, n.HeldUpChanges = slices.Clone(a.heldUp.meps), a.heldUp.changes
	}
	if n.EndKnown = a.push.endKnown; n.EndKnown {
		n.EndMEP = a.endMEP
	}
	cuts := c.newCuts(&n)
	n.Triggers = a.triggerTotals()
	idle, released := a.noCycleAwaited(), a.released-uint64(len(a.heldUp.meps))
	if issued.Len() > 0 || len(n.Absences)+len(n.Withdrawals)+len(cuts) > 0 || n.State != c.mark.State ||
		n.CutsOver != c.mark.CutsOver || n.Triggers.Taken != c.mark.Triggers.Taken ||
		n.EndKnown != c.mark.EndKnown || released-c.releasedPublished >= c.releaseStep ||
		idle && (!c.idle || released != c.releasedSeen) {
		n.For |= ForReadouts
		c.releasedPublished = released
	}
	c.idle, c.releasedSeen = idle, released
	if len(tags) > 0 {
		n.For |= ForFirstRU
		if n.FirstRU = a.tagRing.first; n.FirstRU > 0 {
			n.For |= ForReadouts
		}
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
	if n.CutsAt != nil {
		c.mark.CutsAt = new(n.CutsAt.After(cuts))
	}
	split(n, cuts, issued, func(n Notice, _ bool) { c.append(n) })
}

// split calls emit with the notice, in several pieces if it has too many cuts and tokens for one. Absences come with
// the first piece, tags with the last.
func split(n Notice, cuts []Cut, issued Batch, emit func(n Notice, last bool)) {
	tags, over, who := n.Tags, n.CutsOver, n.For
	for {
		n.Batch = Batch{FirstCycle: issued.FirstCycle, PlacesPerCycle: issued.PlacesPerCycle}
		cutsNow := min(len(cuts), MaxCutsPerNotice)
		n.Cuts, cuts = cuts[:cutsNow:cutsNow], cuts[cutsNow:]
		at := n.CutsAt
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
		n.Absences, n.Withdrawals, n.Earlier = nil, nil, nil
		if at != nil {
			n.CutsAt = new(at.After(n.Cuts))
		}
	}
}

// newCuts are the cuts that have not been published yet. It notes in the notice with them where they are.
func (c *Core) newCuts(n *Notice) (cuts []Cut) {
	k := c.alloc.cutter
	if k == nil {
		return nil
	}
	n.CutsOver, n.CutsAt = k.cutsOver, new(k.position(c.cutsPublished))
	cuts = k.from(c.cutsPublished)
	c.cutsPublished = k.nextMEP
	return cuts
}

// snapshot is what the scheduler sends first to a session that has every MEP from firstMEP on: all earlier news that
// still hold. No cycle has these MEPs yet. Only the last notice of a snapshot has a sequence number, so no unit resumes
// within one.
func (c *Core) snapshot(firstMEP uint64) (all []Notice) {
	n := c.mark
	n.Absences, n.Withdrawals = c.alloc.absences, c.alloc.withdrawals
	var cuts []Cut
	if k := c.alloc.cutter; k != nil {
		cuts, n.CutsAt = k.from(firstMEP), new(k.position(firstMEP))
	}
	split(n, cuts, Batch{FirstCycle: n.FirstCycle, PlacesPerCycle: n.PlacesPerCycle}, func(n Notice, last bool) {
		if last {
			n.Sequence = c.next - 1
		}
		all = append(all, n)
	})
	return all
}

// Limits of the packed words of a token (docs/format/tagnet.md).
const (
	// MaxSlots is the largest number of slots a builder unit may have: a slot number has 24 bits.
	MaxSlots = 1 << 24
	// MaxAttempt is the largest attempt number: it has 8 bits.
	MaxAttempt = 1<<8 - 1
	// NoMEP stands in an empty place instead of a MEP number. It equals the end-of-run event id, so that no MEP has it.
	NoMEP uint64 = 1<<64 - 1

	slotMask     = MaxSlots - 1
	attemptShift = 24
)

// A Token sends one MEP to one slot of one builder unit (architecture, "The way of an event").
type Token struct {
	MEP     uint64
	Slot    uint32 // of the builder unit
	BU      uint16 // index in the view, and place in the cycle
	Attempt uint8  // 1 for the first; of several copies the highest attempt counts
}

// A Batch holds whole cycles in order, one entry for every place of every cycle, in their form on the wire. Cycle i of
// the batch has the number FirstCycle+i; its place j is at index i*PlacesPerCycle+j of MEPs and Slots.
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

// Token returns the token in a place of cycle i of the batch, and false if the place is empty. Like an index expression
// it panics if i or place is out of range.
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

// split returns the first cycles of a batch, and the others. Both share the memory of the batch.
func (b *Batch) split(cycles int) (first, rest Batch) {
	first, rest = *b, *b
	n := cycles * b.PlacesPerCycle
	first.MEPs, first.Slots = b.MEPs[:n:n], b.Slots[:n:n]
	rest.FirstCycle, rest.MEPs, rest.Slots = b.FirstCycle+uint64(cycles), b.MEPs[n:], b.Slots[n:]
	return first, rest
}

// Reset empties the batch, keeps its memory, and sets the number of its first cycle and the places per cycle.
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

// PackSlot packs an attempt and a slot into one word.
func PackSlot(attempt uint8, slot uint32) uint32 {
	return uint32(attempt)<<attemptShift | slot&slotMask
}

// UnpackSlot unpacks what PackSlot has packed.
func UnpackSlot(word uint32) (attempt uint8, slot uint32) {
	return uint8(word >> attemptShift), word & slotMask
}
