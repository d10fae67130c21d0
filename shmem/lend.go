package shmem

// Slots lie in blocks. Where there are more blocks than slots, a slot that holds a MEP can take a spare block in place
// of its own: the MEP stays where it is, for whoever it is lent to, and the slot can be offered again at once.

// WithSpare has CreateSlots make so many blocks more than there are slots, each of which has margin bytes behind the
// slot for what the owner adds to a MEP. Neither may be negative.
func WithSpare(blocks, margin int) Option {
	return func(o *options) { o.spareBlocks, o.blockMargin = max(blocks, 0), max(margin, 0) }
}

// BlockBytes is the memory of slot i with the margin behind it; nil where there is no slot i.
func (s *Slots) BlockBytes(i int) []byte {
	off := s.Offset(i)
	if off < 0 {
		return nil
	}
	return s.mem[off : off+s.blockSize : off+s.blockSize]
}

// SpareBlocks is how many blocks can be had by Lend. One goroutine calls Spare, Lend and Return.
func (s *Slots) SpareBlocks() int { return len(s.spareBlocks) }

// Lend gives slot i a spare block in place of its own, whose offset in the segment it returns: that block is the
// caller's until Return. The slot must be built. Errors: ErrSlotState, errNoSlot, errNoSpare.
func (s *Slots) Lend(i int) (offset int, err error) {
	switch {
	case i < 0 || i >= s.slotCount || s.State(i) != SlotBuilt:
		return 0, s.slotStateError(i, SlotBuilt, SlotBuilt)
	case len(s.spareBlocks) == 0:
		return 0, stepError(errNoSpare, "segment %s slot %d", s.seg.Name(), i)
	}
	last := len(s.spareBlocks) - 1
	was := s.blocks[i]
	s.blocks[i], s.spareBlocks = s.spareBlocks[last], s.spareBlocks[:last]
	return int(was) * s.blockSize, nil
}

// Return makes a block that was lent spare again, by the offset that Lend gave.
func (s *Slots) Return(offset int) { s.spareBlocks = append(s.spareBlocks, uint32(offset/s.blockSize)) }
