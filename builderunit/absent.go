package builderunit

import (
	"errors"
	"fmt"

	"ringlet/shmem"
)

// How a builder unit goes on without a readout unit: it treats the parts that have not come from the unit as missing,
// makes them itself, of fragments that say so, and builds the MEP. A readout unit that rejoins has every MEP from a
// number on and none before, so one number for each readout unit says of each MEP whether to wait for its part.
//
//	MarkRUGone ─► revokes its windows; parts that are not in place count as missing, in MEPs under way and in later ones
//	MarkRUBack ─► MEPs from a number on have its part again; if it was gone, it gets new pre-granted windows
//
// The finisher makes the missing parts (verify.go) once all other parts are in place.

// MissingCounts counts the parts of a readout unit that were treated as missing in built MEPs.
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

// errNoDivision says that the builder unit was not configured to go on without readout units.
var errNoDivision = errors.New("the builder unit does not know the sources of the readout units, so it cannot go on " +
	"without one: set readout-loss before the run")

// MarkRUGone notes that nothing will come any more from readout unit ru. When it returns, the network writes nothing of
// the unit into memory any more. A second call does nothing, and one after Close neither. goesOn says that MEPs under
// way are built without its parts; a builder unit that is excluded has no such right, and gives them up in Reset.
func (b *Builder) MarkRUGone(ru int, goesOn bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil
	case ru < 0 || ru >= len(b.cfg.RURanks):
		return fmt.Errorf("readout unit %d is reported gone, but there is no such unit", ru)
	case b.cfg.Division.Units() == 0 || b.cfg.MaxEventsPerMEP == 0:
		return errNoDivision
	}
	before := len(b.completedSlots)
	var refs []shmem.Ref
	b.completedSlots, refs = b.asm.markRUGone(ru, goesOn, b.completedSlots, nil)
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return fmt.Errorf("readout unit %d is gone: %w", ru, err)
		}
	}
	if !goesOn {
		return nil
	}
	for _, slot := range b.asm.appendSizedSlots(nil) {
		if err := errors.Join(b.asm.layOutSlot(slot), b.cfg.Slots.Fill(slot)); err != nil {
			return err
		}
	}
	b.submitLocked(before)
	return nil
}

// MarkRUBack notes that a readout unit that was gone has every MEP from the given one on. With pre-granted windows the
// unit may then request its own, if it has not before. If it was gone and back before this builder unit began, it has
// its windows, and keeps them: MarkRUGone is not called then.
func (b *Builder) MarkRUBack(ru int, from uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	if ru < 0 || ru >= len(b.cfg.RURanks) {
		return fmt.Errorf("readout unit %d is reported back, but there is no such unit", ru)
	}
	b.asm.absent.everAbsent, b.asm.absent.lacksBelow[ru] = true, from
	return b.preGrant(ru)
}

// MissingByRU counts the missing parts of each readout unit so far, by index.
func (b *Builder) MissingByRU() []MissingCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]MissingCounts(nil), b.missingByRU...)
}
