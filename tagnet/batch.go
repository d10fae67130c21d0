package tagnet

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

func packSlot(attempt uint8, slot uint32) uint32 {
	return uint32(attempt)<<attemptShift | slot&slotMask
}
