package builderunit

import (
	"fmt"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/transport"
)

// A rejectedPlacement is why a placement was not taken for what it says.
type rejectedPlacement uint8

// The reasons, in the order they are looked for.
const (
	placementAccepted rejectedPlacement = iota
	noSlot                              // there is no slot of this number
	otherWindow                         // the bytes are not in the unit's part of the slot it names
	badPart                             // they are not such as a part can be
	noMEP                               // it names a MEP before the first, or attempt 0
	builtBefore                         // the slot is free, and held the MEP last, at this attempt or a later one
	otherMEP                            // the slot holds another MEP
	oldAttempt                          // the slot holds a later attempt at the MEP
	newAttempt                          // the slot holds an earlier attempt at the MEP, which has no outcome yet
	duplicatePart                       // the part is in place
	rejectedPlacementKinds
)

var rejectedPlacementNames = [rejectedPlacementKinds]string{
	"none", "no such slot", "another window", "no part", "no such MEP", "built before", "another MEP", "an old attempt",
	"a new attempt", "a duplicate",
}

func (s rejectedPlacement) String() string {
	if s < rejectedPlacementKinds {
		return rejectedPlacementNames[s]
	}
	return fmt.Sprintf("rejectedPlacement(%d)", uint8(s))
}

type rejectedPlacementCounts [rejectedPlacementKinds]uint64

// Kinds names the reasons.
func (rejectedPlacementCounts) Kinds() []string {
	return append([]string{""}, rejectedPlacementNames[noSlot:]...)
}

// Progress says what a placement has completed.
type Progress uint8

// What a placement can complete.
const (
	CompletedNothing Progress = iota // not even a part
	CompletedPart                    // a part: another may be asked for
	CompletedRegion                  // the region of interest: Accept or Reject is wanted
	CompletedMEP                     // the MEP
)

// SlotProgress is a slot in which the region of interest is in place, or all of a MEP.
type SlotProgress struct {
	Slot     uint32
	Progress Progress // CompletedRegion or CompletedMEP
}

// ApplyPlacements takes the notice that bytes of a readout unit are in place, and appends the slots in which they make
// something complete. A placement that contradicts what is known is counted by its reason and changes nothing. Bytes
// are counted, not marked: who writes some twice and others not at all is found out by VerifyCRC.
func (a *Assembler) ApplyPlacements(ru int, ps []transport.Placement, to []SlotProgress) []SlotProgress {
	for i := range ps {
		mep, attempt, slot := placing.ParseImmediate(ps[i].Imm)
		progress, why := a.applyPlacement(ru, &ps[i], mep, attempt, slot)
		if why == otherWindow && a.absent.everAbsent && a.absent.lacksBelow[ru] > 0 {
			a.stats.LateParts++ // of a window that was revoked when it was gone
			continue
		}
		if why != placementAccepted {
			a.stats.RejectedPlacements++
			a.stats.RejectedByReason[why]++
			continue
		}
		if progress >= CompletedRegion {
			to = append(to, SlotProgress{slot, progress})
		}
	}
	return to
}

// applyPlacement takes one placement, or says why not.
func (a *Assembler) applyPlacement(ru int, p *transport.Placement, low uint32, attempt uint8,
	slot uint32) (Progress, rejectedPlacement) {
	if uint64(slot) >= uint64(len(a.slots)) || ru < 0 || ru >= a.rus {
		return CompletedNothing, noSlot
	}
	s, at := &a.slots[slot], int(slot)*a.rus+ru
	if p.Ref == (shmem.Ref{}) || a.windowRefs[at] != p.Ref {
		return CompletedNothing, otherWindow
	}
	switch {
	case !a.fitsPart(at, ru, p):
		return CompletedNothing, badPart
	case attempt == 0:
		return CompletedNothing, noMEP
	}
	if why := a.checkPlacement(s, low, attempt); why != placementAccepted {
		return CompletedNothing, why
	}
	if a.isPreGranted() && a.placedBytes[at] != 0 {
		return CompletedNothing, duplicatePart
	}
	if a.placedBytes[at] += p.Length; !a.isPreGranted() && a.placedBytes[at] < uint32(a.parts[at].size) {
		return CompletedNothing, placementAccepted
	}
	return a.completePart(int(slot)), placementAccepted
}

// fitsPart tells that bytes can be a readout unit's part, or some of those that its part lacks.
func (a *Assembler) fitsPart(at, ru int, p *transport.Placement) bool {
	if !a.isPreGranted() {
		return p.Length > 0 && p.Length <= uint32(a.parts[at].size)-a.placedBytes[at]
	}
	r := &a.preGrantedWindows[ru]
	return p.Offset == 0 && p.Length >= r.minLength && p.Length <= r.maxLength && p.Length%event.MEPWordBytes == 0
}

// checkPlacement tells why a slot does not wait for bytes of that attempt at a MEP. A free slot with pre-granted
// windows begins with it.
func (a *Assembler) checkPlacement(s *slot, low uint32, attempt uint8) rejectedPlacement {
	switch {
	case s.phase == slotIdle && a.isPreGranted():
		return a.beginFilling(s, low, attempt)
	case uint32(s.mep) != low:
		return otherMEP
	case uint32(attempt) < s.attempt:
		return oldAttempt
	case uint32(attempt) > s.attempt:
		return newAttempt
	}
	return placementAccepted
}

// beginFilling makes a free slot hold the MEP of the first part that comes for it. The part tells the low half of the
// number, and of those that end so the MEP is the one nearest to the newest that was whole: MEPs in flight are
// thousands, 2^31 apart none. Only a MEP that all readout units agreed on moves that, so none of them can lead the
// others astray.
func (a *Assembler) beginFilling(s *slot, low uint32, attempt uint8) rejectedPlacement {
	ahead := int64(int32(low - uint32(a.newestComplete)))
	mep := a.newestComplete + uint64(ahead)
	if ahead < 0 && mep > a.newestComplete {
		return noMEP
	}
	if mep == s.mep && uint32(attempt) <= s.attempt {
		return builtBefore
	}
	s.mep, s.attempt, s.phase, s.completedParts = mep, uint32(attempt), slotFilling, a.absent.countLackingRUs(mep)
	return placementAccepted
}

// completePart counts a part that is in place, and tells what that completes.
func (a *Assembler) completePart(i int) Progress {
	s := &a.slots[i]
	s.completedParts++
	a.stats.PartsInPlace++
	regionComplete := !a.isPreGranted() && a.pull.completeRequest(i)
	switch {
	case int(s.completedParts) == a.rus:
		s.phase, s.lacksParts = slotComplete, a.absent.everAbsent && a.hasMissing(i)
		a.newestComplete = max(a.newestComplete, s.mep)
		return CompletedMEP
	case regionComplete:
		s.phase = slotDeciding
		return CompletedRegion
	}
	return CompletedPart
}
