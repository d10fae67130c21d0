package builderunit

import "ringlet/internal/invariants"

// What follows is the Assembler's share in regions of interest: a MEP whose region is in place waits for Accept or
// Reject.

// awaitsDecision tells whether a slot waits for a decision on that attempt at a MEP.
func (a *Assembler) awaitsDecision(i int, mep uint64, attempt uint32) bool {
	if i < 0 || i >= len(a.slots) {
		return false
	}
	s := &a.slots[i]
	return s.phase == slotDeciding && s.mep == mep && s.attempt == attempt
}

// markRejecting notes that a region was rejected; Reject follows.
func (a *Assembler) markRejecting(i int) { a.slots[i].phase = slotRejecting }

// Accept says of a slot whose region of interest is in place that the other parts are asked for. Its windows count as
// revoked.
func (a *Assembler) Accept(i int) {
	s := &a.slots[i]
	if invariants.Enabled {
		invariants.Check(s.phase == slotDeciding, "slot %d was accepted while %s", i, s.phase)
	}
	s.phase = slotFilling
	clear(slotRow(a, a.windowRefs, i))
	a.pull.enqueue(i, s.mep)
}

// Reject counts a MEP of which no more is asked for, and makes its slot free for the next.
func (a *Assembler) Reject(i int) {
	s := &a.slots[i]
	if invariants.Enabled {
		invariants.Check(s.phase == slotDeciding || s.phase == slotRejecting, "slot %d was rejected while %s", i, s.phase)
	}
	a.stats.RejectedMEPs++
	for ru, p := range slotRow(a, a.parts, i) {
		if a.partInPlace(i, ru) {
			a.stats.RejectedMFPs += uint64(p.streams)
		} else {
			a.stats.UnrequestedMFPs += uint64(p.streams)
			a.stats.UnrequestedParts++
			if !a.absent.lacksPart(ru, a.slots[i].mep) {
				a.stats.SparedBytes += uint64(p.size)
			}
		}
	}
	a.freeSlot(i)
}
