package builderunit

import (
	"errors"
	"fmt"
	"math"

	"ringlet/event/placing"
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
// The finisher makes the missing parts (data.go), when all the others are in place.

// everyMEP is the MEP below which a readout unit lacks all that is not in place, while it is gone.
const everyMEP = math.MaxUint64

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

// absentUnits is what an Assembler knows of readout units that are gone, or were.
type absentUnits struct {
	lacksBelow     []uint64 // by readout unit: it lacks what is not in place of MEPs below
	everAbsent     bool     // any was ever gone
	sources        []int    // by readout unit; nil: not known
	missingMFPSize uint32   // most bytes of an MFP without data
}

// lacksPart tells that a part of a MEP will not come, unless it is in place.
func (u *absentUnits) lacksPart(ru int, mep uint64) bool {
	return u.everAbsent && mep < u.lacksBelow[ru]
}

// countLackingRUs is how many readout units lack a MEP of which nothing is in place.
func (u *absentUnits) countLackingRUs(mep uint64) (n uint16) {
	for ru := range u.lacksBelow {
		if u.lacksPart(ru, mep) {
			n++
		}
	}
	return n
}

// markRUGone takes that a readout unit is gone. It appends the slots in which that makes something complete, and the
// windows that are to be revoked.
func (a *Assembler) markRUGone(ru int, to []SlotProgress, refs []shmem.Ref) ([]SlotProgress, []shmem.Ref) {
	if a.absent.lacksBelow[ru] == everyMEP {
		return to, refs
	}
	a.absent.everAbsent, a.absent.lacksBelow[ru] = true, everyMEP
	for i := range a.slots {
		s, at := &a.slots[i], i*a.rus+ru
		ref := a.windowRefs[at]
		switch {
		case a.isPreGranted():
			a.windowRefs[at] = shmem.Ref{}
			refs = appendNonZero(refs, []shmem.Ref{ref})
			if s.phase != slotFilling || a.placedBytes[at] != 0 {
				continue
			}
		case s.phase == slotSizing:
			a.announceMissing(i, ru)
			continue
		case s.phase != slotFilling || ref == shmem.Ref{} || a.partInPlace(i, ru):
			continue // it is not asked for yet: see requestPartsLocked
		default:
			a.windowRefs[at] = shmem.Ref{}
			refs = appendNonZero(refs, []shmem.Ref{ref})
		}
		to = a.skipMissingPart(i, to)
	}
	return to, refs
}

// skipMissingPart takes that a part of a MEP is missing. It appends the slot if that makes something
// complete.
func (a *Assembler) skipMissingPart(i int, to []SlotProgress) []SlotProgress {
	progress := a.completePart(i)
	a.stats.PartsInPlace-- // it is none
	if progress >= CompletedRegion {
		to = append(to, SlotProgress{uint32(i), progress})
	}
	return to
}

// announceMissing announces parts without data in the name of a readout unit that has not announced its own.
func (a *Assembler) announceMissing(i, ru int) {
	s, p := &a.slots[i], &slotRow(a, a.parts, i)[ru]
	if p.streams > 0 && len(p.entries) == p.streams {
		return
	}
	if p.streams == 0 {
		p.streams = a.absent.sources[ru]
		s.announcedMFPs += uint32(p.streams)
	}
	p.entries = p.entries[:0]
	for range p.streams {
		p.entries = append(p.entries, placing.Entry{Size: a.absent.missingMFPSize})
	}
	s.announcedUnits++
}

// appendSizedSlots appends the slots whose sizes are all known, and that wait for nothing but to be laid out.
func (a *Assembler) appendSizedSlots(to []int) []int {
	for i := range a.slots {
		if s := &a.slots[i]; s.phase == slotSizing && int(s.announcedUnits) == a.rus {
			to = append(to, i)
		}
	}
	return to
}

// isMissing tells which parts of a whole MEP are missing.
func (a *Assembler) isMissing(slot, ru int) bool {
	if a.isPreGranted() {
		return a.placedBytes[slot*a.rus+ru] == 0
	}
	return !a.partInPlace(slot, ru)
}

// hasMissing tells whether one is.
func (a *Assembler) hasMissing(slot int) bool {
	for ru := range a.rus {
		if a.isMissing(slot, ru) {
			return true
		}
	}
	return false
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
	if b.asm.isPreGranted() {
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
