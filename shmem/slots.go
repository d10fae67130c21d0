package shmem

import (
	"fmt"
	"math"
	"sync/atomic"
)

// SlotState says who owns a slot.
type SlotState uint32

const (
	// SlotFree is nobody's. The builder unit may offer it.
	SlotFree SlotState = iota
	// SlotOffered is the scheduler's. It is on TagNet's list of free slots, or has a token.
	SlotOffered
	// SlotFilling is the readout units'. Grants to its bytes are live.
	SlotFilling
	// SlotBuilt is the consumer's. It holds a complete MEP.
	SlotBuilt

	numSlotStates
)

var slotStateNames = [numSlotStates]string{"free", "offered", "filling", "built"}

// String names the state.
func (s SlotState) String() string {
	if s < numSlotStates {
		return slotStateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint32(s))
}

// slotLine is a cache line: slots are whole lines, so that no two share one.
const slotLine = 64

// maxSlots keeps the size of all slots far from overflow.
const maxSlots = 1 << 24

// Slots is a segment divided into slots of one size, each with one owner at a time:
//
//	Free ─Offer→ Offered ─Fill→ Filling ─Build→ Built ─Free→ Free
//	              └─Withdraw→ Free  └─Abandon→ Free
//
// Recycle takes slots from Offered through all of that to Offered again at once.
//
// The steps may be taken from any goroutine; of two that try the same step of a slot, one succeeds. The states
// are this process's own: peers get at the bytes of a slot by grants, and at nothing else.
type Slots struct {
	// immutable after CreateSlots
	seg                 *Segment
	mem                 []byte
	slotCount, slotSize int // slots, bytes of each
	blockSize           int // bytes of a block: a slot and its margin

	// of whoever owns a slot, and of the one goroutine that lends
	blocks      []uint32 // the block that each slot lies in
	spareBlocks []uint32 // blocks that no slot lies in and that are not lent

	// atomic
	states                                              []atomic.Uint32 // the SlotState of each slot
	offerCount, buildCount, abandonCount, withdrawCount atomic.Uint64
}

// CreateSlots makes the segment dir/name with n slots of size bytes, rounded up to cache lines: small
// slots lie so close that thousands of them stay in a cache, and no two share a line. Errors
// are those of Create; errBadSize also where there are no slots, or more than 2^24.
func CreateSlots(name string, n, size int, opts ...Option) (*Slots, error) {
	if n <= 0 || n > maxSlots || size <= 0 || size > (math.MaxInt-1<<40)/n {
		return nil, &SegmentError{Op: "create", Path: name, Err: errBadSize}
	}
	o := applyOptions(opts)
	if o.spareBlocks > maxSlots-n || o.blockMargin > math.MaxInt32 {
		return nil, &SegmentError{Op: "create", Path: name, Err: errBadSize}
	}
	size = roundUp(size, slotLine)
	block := roundUp(size+o.blockMargin, slotLine)
	seg, err := Create(name, (n+o.spareBlocks)*block, opts...)
	if err != nil {
		return nil, err
	}
	s := &Slots{
		seg:       seg,
		mem:       seg.Bytes(),
		slotCount: n,
		slotSize:  size,
		blockSize: block,
		blocks:    make([]uint32, n),
		states:    make([]atomic.Uint32, n),
	}
	for i := range s.blocks {
		s.blocks[i] = uint32(i)
	}
	for i := range o.spareBlocks {
		s.spareBlocks = append(s.spareBlocks, uint32(n+i))
	}
	return s, nil
}

// Len is the number of slots.
func (s *Slots) Len() int { return s.slotCount }

// SlotSize is the size of each slot, bytes.
func (s *Slots) SlotSize() int { return s.slotSize }

// Segment is the segment the slots lie in, for Table.Export.
func (s *Slots) Segment() *Segment { return s.seg }

// Offset is where slot i begins in the segment, bytes, for Table.Grant; -1 where there is no slot i.
func (s *Slots) Offset(i int) int {
	if i < 0 || i >= s.slotCount {
		return -1
	}
	return int(s.blocks[i]) * s.blockSize
}

// Bytes is the memory of slot i; nil where there is no slot i. Whose they are, the state says.
func (s *Slots) Bytes(i int) []byte {
	off := s.Offset(i)
	if off < 0 {
		return nil
	}
	return s.mem[off : off+s.slotSize : off+s.slotSize]
}

// State is the state of slot i, which must be there.
func (s *Slots) State(i int) SlotState { return SlotState(s.states[i].Load()) }

// Offer gives a free slot to the scheduler.
func (s *Slots) Offer(i int) error { return s.changeState(i, SlotFree, SlotOffered, &s.offerCount) }

// Fill gives an offered slot to the readout units.
func (s *Slots) Fill(i int) error { return s.changeState(i, SlotOffered, SlotFilling, nil) }

// Build gives a filled slot, which holds a MEP, to the consumer. All grants to it are revoked before.
func (s *Slots) Build(i int) error { return s.changeState(i, SlotFilling, SlotBuilt, &s.buildCount) }

// Free takes a built slot back from the consumer.
func (s *Slots) Free(i int) error { return s.changeState(i, SlotBuilt, SlotFree, nil) }

// Abandon takes a slot back whose MEP will not be complete. All grants to it are revoked before.
func (s *Slots) Abandon(i int) error { return s.changeState(i, SlotFilling, SlotFree, &s.abandonCount) }

// Withdraw takes a slot back that the scheduler did not use, as at the end of a run.
func (s *Slots) Withdraw(i int) error {
	return s.changeState(i, SlotOffered, SlotFree, &s.withdrawCount)
}

// ForceFree makes a slot Free, whoever owns it.
func (s *Slots) ForceFree(i int) error {
	if i < 0 || i >= s.slotCount {
		return s.slotStateError(i, SlotOffered, SlotFree)
	}
	switch s.State(i) {
	case SlotOffered:
		return s.Withdraw(i)
	case SlotFilling:
		return s.Abandon(i)
	case SlotBuilt:
		return s.Free(i)
	}
	return nil
}

// Recycle takes offered slots through Filling, Built and Free to Offered again, all steps of a slot at once: for MEPs
// that land by pre-granted windows, and that the consumer is done with before anybody else could look. It stops at the
// first slot that is not offered, with ErrSlotState or errNoSlot; those before it are recycled.
func (s *Slots) Recycle(slots []uint32) error {
	done, err := uint64(0), error(nil)
	for _, i := range slots {
		if int64(i) >= int64(s.slotCount) || s.State(int(i)) != SlotOffered {
			err = s.slotStateError(int(i), SlotOffered, SlotOffered)
			break
		}
		done++
	}
	s.buildCount.Add(done)
	s.offerCount.Add(done)
	return err
}

// changeState moves slot i from one state to another and counts it, or says why not.
func (s *Slots) changeState(i int, from, to SlotState, count *atomic.Uint64) error {
	if i < 0 || i >= s.slotCount || !s.states[i].CompareAndSwap(uint32(from), uint32(to)) {
		return s.slotStateError(i, from, to)
	}
	if count != nil {
		count.Add(1)
	}
	return nil
}

// slotStateError says why a step was not taken.
func (s *Slots) slotStateError(i int, from, to SlotState) error {
	if i < 0 || i >= s.slotCount {
		return stepError(errNoSlot, "segment %s slot %d: %v to %v", s.seg.Name(), i, from, to)
	}
	return stepError(ErrSlotState, "segment %s slot %d: %v to %v while %v", s.seg.Name(), i, from, to, s.State(i))
}

// SlotStats is a reading of the slots and of their counters. Free + Offered + Filling + Built =
// Slots, each as it was when it was looked at.
type SlotStats struct {
	Slots   int `count:"all" kind:"level" help:"slots of the builder unit"`
	Free    int `kind:"level" help:"slots that nobody uses"`
	Offered int `kind:"level" help:"slots that the scheduler may give tokens for"`
	Filling int `kind:"level" help:"slots with a MEP that is not complete"`
	Built   int `kind:"level" help:"slots with a complete MEP"`

	Offers    uint64 `help:"slots offered to the scheduler"`
	Builds    uint64 `help:"slots filled with a complete MEP"`
	Abandons  uint64 `help:"slots whose MEP was given up"`
	Withdraws uint64 `help:"slots that the scheduler did not use"`
}

// Stats reads states and counters, from any goroutine.
func (s *Slots) Stats() SlotStats {
	var in [numSlotStates]int
	for i := range s.states {
		in[s.State(i)]++
	}
	return SlotStats{
		Slots:     s.slotCount,
		Free:      in[SlotFree],
		Offered:   in[SlotOffered],
		Filling:   in[SlotFilling],
		Built:     in[SlotBuilt],
		Offers:    s.offerCount.Load(),
		Builds:    s.buildCount.Load(),
		Abandons:  s.abandonCount.Load(),
		Withdraws: s.withdrawCount.Load(),
	}
}

// Close unmaps the slots and removes the segment, whatever the slots' states. Before
// that the caller revokes the grants; after it no method but Close may be called.
func (s *Slots) Close() error { return s.seg.Close() }

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
