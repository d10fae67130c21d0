package builderunit

import (
	"errors"
	"fmt"

	"ringlet/shmem"
)

// What follows is how a builder unit goes on without a readout unit. It takes what has not come from that for missing:
// the part is made here, of fragments that say so, and the MEP is built. When the unit is back, it has every MEP from a
// number on, and none before, so one number for each readout unit says of each MEP whether to wait for its part.
//
//	MarkRUGone ─► its windows are revoked; parts that are not in place count as missing, of MEPs under way and of later
//	              ones
//	MarkRUBack ─► MEPs from a number on have its part again; where windows are pre-granted it has new ones
//
// The finisher makes the missing parts (verify.go), when all the others are in place.

// MissingCounts counts what a readout unit was taken to lack in MEPs that were built.
type MissingCounts struct {
	MEPs, Events      uint64
	FirstMEP, LastMEP uint64 // MEP numbers; of any attempt, and in any order
}

func (m *MissingCounts) add(mep uint64, events int) {
	if m.MEPs == 0 {
		m.FirstMEP, m.LastMEP = mep, mep
	}
	m.FirstMEP, m.LastMEP = min(m.FirstMEP, mep), max(m.LastMEP, mep)
	m.MEPs++
	m.Events += uint64(events)
}

// errNoDivision says that a builder unit was not made to go on without readout units.
var errNoDivision = errors.New("the builder unit was not told which sources a readout unit has, so it cannot go on " +
	"without one: set readout-loss before the run")

// MarkRUGone takes that nothing comes any more from a readout unit, by its index. Nothing of it is under way to memory
// when it returns. Twice is once.
func (b *Builder) MarkRUGone(ru int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errClosed
	case ru < 0 || ru >= len(b.cfg.RURanks):
		return fmt.Errorf("readout unit %d was told to be gone, and there is no such unit", ru)
	case b.cfg.Division.Units() == 0 || b.cfg.MaxEventsPerMEP == 0:
		return errNoDivision
	}
	before := len(b.completedSlots)
	var refs []shmem.Ref
	b.completedSlots, refs = b.asm.markRUGone(ru, b.completedSlots, nil)
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return fmt.Errorf("readout unit %d is gone: %w", ru, err)
		}
	}
	for _, slot := range b.asm.appendSizedSlots(nil) {
		if err := errors.Join(b.asm.layOutSlot(slot), b.cfg.Slots.Fill(slot)); err != nil {
			return err
		}
	}
	b.submitLocked(before)
	return nil
}

// MarkRUBack takes that a readout unit that was gone has every MEP from that one on. Where windows are pre-granted it
// may then ask for its own.
func (b *Builder) MarkRUBack(ru int, from uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	if ru < 0 || ru >= len(b.cfg.RURanks) {
		return fmt.Errorf("readout unit %d was told to be back, and there is no such unit", ru)
	}
	b.asm.absent.lacksBelow[ru] = from
	if b.asm.isPreGranted {
		return b.preGrant(ru)
	}
	return nil
}

// MissingByRU is what each readout unit was taken to lack so far, by index.
func (b *Builder) MissingByRU() []MissingCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]MissingCounts(nil), b.missingByRU...)
}
