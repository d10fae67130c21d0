package shmem

import "sync/atomic"

// busy marks a slot's state word while the one goroutine that takes a step writes the words next
// to it. Other steps and Info wait those few instructions.
const busy = uint64(1) << 7

// Offer gives a free slot to the scheduler.
func (s *Slots) Offer(i int) error {
	return s.count(&s.offered, s.step(i, SlotFree, SlotOffered, 0, 0))
}

// Fill gives an offered slot to the readout units, for the MEP tag.
func (s *Slots) Fill(i int, tag uint64) error {
	return s.step(i, SlotOffered, SlotFilling, 0, tag)
}

// Build gives a filled slot, with a MEP of used bytes, to the consumer. All grants to it are revoked before.
func (s *Slots) Build(i, used int) error {
	if used < 0 || used > s.size {
		s.wrong.Add(1)
		return &SlotError{Segment: s.seg.Name(), Slot: i, From: SlotFilling, To: SlotBuilt, State: SlotFilling, Err: ErrBadSize}
	}
	return s.count(&s.built, s.step(i, SlotFilling, SlotBuilt, used, 0))
}

// Free takes a built slot back from the consumer.
func (s *Slots) Free(i int) error {
	return s.step(i, SlotBuilt, SlotFree, 0, 0)
}

// Abandon takes a slot back whose MEP will not be complete. All grants to it are revoked before.
func (s *Slots) Abandon(i int) error {
	return s.count(&s.abandoned, s.step(i, SlotFilling, SlotFree, 0, 0))
}

// Withdraw takes a slot back that the scheduler did not use, as at the end of a run.
func (s *Slots) Withdraw(i int) error {
	return s.count(&s.taken, s.step(i, SlotOffered, SlotFree, 0, 0))
}

// Turn takes offered slots through Filling, Built and Free to Offered again, all steps of a slot at once: for MEPs that land by
// standing grants, and that the consumer is done with before anybody else could look. It stops at the first slot that is not
// offered, with a *SlotError; those before it are turned.
//
// A slot costs one compare-and-swap where the four steps cost twenty such instructions.
func (s *Slots) Turn(slots []uint32) error {
	done, err := 0, error(nil)
	for _, i := range slots {
		if err = s.turn(int(i)); err != nil {
			break
		}
		done++
	}
	s.built.Add(uint64(done))
	s.offered.Add(uint64(done))
	return err
}

func (s *Slots) turn(i int) error {
	is, why := SlotFree, ErrNoSlot
	switch {
	case !s.owner:
		why = ErrReadOnly
	case i >= 0 && i < s.n:
		state := word64(s.mem, slotLine*(i+1)+offSlotState)
		before := state.Load()
		// Used and tag are 0 while a slot is offered, and stay so.
		if before&0xFF == uint64(SlotOffered) && state.CompareAndSwap(before, (before>>8+turnSteps)<<8|uint64(SlotOffered)) {
			return nil
		}
		is, why = SlotState(state.Load()&^busy), ErrSlotState
	}
	s.wrong.Add(1)
	return &SlotError{Segment: s.seg.Name(), Slot: i, From: SlotOffered, To: SlotOffered, State: is, Err: why}
}

// turnSteps is the number of steps from Offered to Offered.
const turnSteps = 4

func (s *Slots) count(c *atomic.Uint64, err error) error {
	if err == nil {
		c.Add(1)
	}
	return err
}

// step moves slot i from one state to another, or says with a *SlotError why not.
func (s *Slots) step(i int, from, to SlotState, used int, tag uint64) error {
	fail := func(is SlotState, err error) error {
		s.wrong.Add(1)
		return &SlotError{Segment: s.seg.Name(), Slot: i, From: from, To: to, State: is, Err: err}
	}
	if !s.owner {
		return fail(0, ErrReadOnly)
	}
	if i < 0 || i >= s.n {
		return fail(0, ErrNoSlot)
	}
	state, usedWord, tagWord := s.words(i)
	before := state.Load()
	if before&0xFF != uint64(from) || !state.CompareAndSwap(before, before|busy) {
		return fail(SlotState(state.Load()&^busy), ErrSlotState)
	}
	usedWord.Store(uint64(used))
	if to != SlotBuilt { // the MEP is still the one of Fill
		tagWord.Store(tag)
	}
	if from == SlotFree {
		s.raise(s.inUse.Add(1))
	}
	if to == SlotFree {
		s.inUse.Add(-1)
	}
	state.Store((before>>8+1)<<8 | uint64(to))
	return nil
}

// raise lifts the high-water mark.
func (s *Slots) raise(n int64) {
	for h := s.high.Load(); n > h && !s.high.CompareAndSwap(h, n); h = s.high.Load() {
	}
}

// SlotStats is a reading of the slots and of their counters. Free + Offered + Filling + Built + Corrupt =
// Slots, each as it was when it was looked at.
type SlotStats struct {
	Slots   int `count:"all" kind:"level" help:"slots of the builder unit"`
	Free    int `kind:"level" help:"slots that nobody uses"`
	Offered int `kind:"level" help:"slots that the scheduler may give tokens for"`
	Filling int `kind:"level" help:"slots with a MEP that is not complete"`
	Built   int `kind:"level" help:"slots with a complete MEP"`
	Corrupt int `kind:"level" help:"slots with a state that another process must have written"`

	InUse     int    `kind:"level" help:"slots that are not free"` // creator only, as all below
	HighWater int    `kind:"max" help:"most slots in use at a time"`
	Offers    uint64 `help:"slots offered to the scheduler"`
	Builds    uint64 `help:"slots filled with a complete MEP"`
	Abandons  uint64 `help:"slots whose MEP was given up"`
	Withdraws uint64 `help:"slots that the scheduler did not use"`
	Refused   uint64 `help:"steps of slots refused"`
}

// Stats reads states and counters, from any goroutine.
func (s *Slots) Stats() SlotStats {
	st := SlotStats{
		Slots: s.n, InUse: int(s.inUse.Load()), HighWater: int(s.high.Load()),
		Offers: s.offered.Load(), Builds: s.built.Load(), Abandons: s.abandoned.Load(),
		Withdraws: s.taken.Load(), Refused: s.wrong.Load(),
	}
	for i := range s.n {
		info, err := s.Info(i)
		switch {
		case err != nil:
			st.Corrupt++
		case info.State == SlotFree:
			st.Free++
		case info.State == SlotOffered:
			st.Offered++
		case info.State == SlotFilling:
			st.Filling++
		default:
			st.Built++
		}
	}
	return st
}

// Close unmaps the slots; the creator removes the segment, whatever the slots' states. Before
// that the caller revokes the grants; after it no method but Close may be called.
func (s *Slots) Close() error { return s.seg.Close() }
