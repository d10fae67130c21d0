package shmem

import (
	"fmt"
	"math"
	"sync/atomic"
)

// SlotState says who owns a slot.
type SlotState uint32

const (
	// SlotFree means: the builder unit owns the slot, and may offer it to the scheduler for a MEP.
	SlotFree SlotState = iota
	// SlotOffered means: the scheduler owns the slot, which is on its list of free slots, or has a token.
	SlotOffered
	// SlotFilling means: the readout units own the slot, and windows to its bytes are granted to them.
	SlotFilling
	// SlotBuilt means: the consumer of MEPs owns the slot, which holds a complete MEP.
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

// slotLine is a cache line, bytes: slots are whole lines, so that no two share one.
const slotLine = 64

// maxSlots keeps the size of all slots far from overflow.
const maxSlots = 1 << 24

// Slots is a segment divided into slots of one size, each with one owner at a time:
//
//	Free ─Offer→ Offered ─Fill→ Filling ─Build→ Built ─Free→ Free
//	              └─Withdraw→ Free  └─Abandon→ Free
//
// Recycle makes all steps from Offered to Offered at once.
//
// The steps may be taken from any goroutine; if two try the same step of a slot, one succeeds. The states are in this
// process alone: peers reach the bytes of a slot only by grants.
type Slots struct {
	// immutable after CreateSlots
	seg                 *Segment
	mem                 []byte
	slotCount, slotSize int // slots, bytes of each
	blockSize           int // bytes of a slot and its margin

	// owned by the owner of the slot, and by the one goroutine that calls Lend
	blocks      []uint32 // the block of each slot
	spareBlocks []uint32 // blocks that belong to no slot and are not lent

	// atomic
	states                                              []atomic.Uint32 // a SlotState for each slot
	offerCount, buildCount, abandonCount, withdrawCount atomic.Uint64
}

// CreateSlots makes the segment dir/name with n slots of size bytes, rounded up to cache lines: thousands of small
// slots fit in a cache, and no two share a line. Errors are those of Create; errBadSize also for n < 1 or n > 2^24.
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

// Segment is the segment of the slots, for Table.Export.
func (s *Slots) Segment() *Segment { return s.seg }

// Offset is where slot i begins in the segment, bytes, for Table.Grant; -1 if there is no slot i.
func (s *Slots) Offset(i int) int {
	if i < 0 || i >= s.slotCount {
		return -1
	}
	return int(s.blocks[i]) * s.blockSize
}

// Bytes is the memory of slot i; nil if there is no slot i. The slot's state says who may use it.
func (s *Slots) Bytes(i int) []byte {
	off := s.Offset(i)
	if off < 0 {
		return nil
	}
	return s.mem[off : off+s.slotSize : off+s.slotSize]
}

// State is the state of slot i, which must exist.
func (s *Slots) State(i int) SlotState { return SlotState(s.states[i].Load()) }

// Offer gives a free slot to the scheduler.
func (s *Slots) Offer(i int) error { return s.changeState(i, SlotFree, SlotOffered, &s.offerCount) }

// Fill gives an offered slot to the readout units.
func (s *Slots) Fill(i int) error { return s.changeState(i, SlotOffered, SlotFilling, nil) }

// Build gives a filled slot, which holds a MEP, to the consumer. The caller has revoked all grants to it.
func (s *Slots) Build(i int) error { return s.changeState(i, SlotFilling, SlotBuilt, &s.buildCount) }

// Free takes a built slot back from the consumer.
func (s *Slots) Free(i int) error { return s.changeState(i, SlotBuilt, SlotFree, nil) }

// Abandon takes back a slot whose MEP will not be complete. The caller has revoked all grants to it.
func (s *Slots) Abandon(i int) error { return s.changeState(i, SlotFilling, SlotFree, &s.abandonCount) }

// Withdraw takes back a slot that the scheduler has not used, as at the end of a run.
func (s *Slots) Withdraw(i int) error {
	return s.changeState(i, SlotOffered, SlotFree, &s.withdrawCount)
}

// ForceFree makes a slot free, whatever its state.
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

// Recycle takes offered slots through Filling, Built and Free to Offered, all steps of a slot at once: for MEPs that
// arrive in pre-granted windows and that the consumer has finished before another goroutine could look. At the first
// slot that is not offered it stops with ErrSlotState or errNoSlot; the slots before it are recycled.
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

// changeState moves slot i from one state to another and counts the step, or returns why it cannot.
func (s *Slots) changeState(i int, from, to SlotState, count *atomic.Uint64) error {
	if i < 0 || i >= s.slotCount || !s.states[i].CompareAndSwap(uint32(from), uint32(to)) {
		return s.slotStateError(i, from, to)
	}
	if count != nil {
		count.Add(1)
	}
	return nil
}

// slotStateError says why a step was refused.
func (s *Slots) slotStateError(i int, from, to SlotState) error {
	if i < 0 || i >= s.slotCount {
		return stepError(errNoSlot, "segment %s slot %d: %v to %v", s.seg.Name(), i, from, to)
	}
	return stepError(ErrSlotState, "segment %s slot %d: %v to %v while %v", s.seg.Name(), i, from, to, s.State(i))
}

// SlotStats is a reading of the slots and their counters. Free + Offered + Filling + Built = Slots, each slot in its
// state at the moment when Stats looked at it.
type SlotStats struct {
	Slots   int `count:"all" kind:"level" help:"slots of the builder unit"`
	Free    int `kind:"level" help:"slots that are not in use"`
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

// Close unmaps the slots and removes the segment, whatever the slots' states. The caller revokes the grants before.
// After it no method but Close may be called.
func (s *Slots) Close() error { return s.seg.Close() }

// Slots lie in blocks. With more blocks than slots, a slot that holds a MEP can take a spare block instead of its own:
// the MEP stays in place for the readers that it is lent to, and the slot can be offered again at once.

// WithSpare has CreateSlots make this many blocks more than slots, and add margin bytes behind the slot in each block,
// for what the owner adds to a MEP. Negative values count as 0.
func WithSpare(blocks, margin int) Option {
	return func(o *options) { o.spareBlocks, o.blockMargin = max(blocks, 0), max(margin, 0) }
}

// BlockBytes is the memory of slot i with the margin behind it; nil if there is no slot i.
func (s *Slots) BlockBytes(i int) []byte {
	off := s.Offset(i)
	if off < 0 {
		return nil
	}
	return s.mem[off : off+s.blockSize : off+s.blockSize]
}

// SpareBlocks is the number of blocks that Lend can use. One goroutine calls SpareBlocks, Lend and Return.
func (s *Slots) SpareBlocks() int { return len(s.spareBlocks) }

// Lend gives slot i a spare block and returns the offset of its former block in the segment: the caller owns that block
// until Return. The slot must be built. Errors: ErrSlotState, errNoSlot, errNoSpare.
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

// Return makes a lent block spare again, by the offset that Lend returned.
func (s *Slots) Return(offset int) { s.spareBlocks = append(s.spareBlocks, uint32(offset/s.blockSize)) }
