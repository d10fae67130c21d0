package builderunit

import (
	"fmt"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/transport"
)

// A Stray is why a placement was not taken for what it says.
type stray uint8

// The reasons, in the order they are looked for.
const (
	noStray       stray = iota
	noSlot              // there is no slot of this number
	otherWindow         // the bytes are not in the unit's part of the slot it names
	badPart             // they are not such as a part can be
	noMEP               // it names a MEP before the first, or attempt 0
	builtBefore         // the slot is free, and held the MEP last, at this attempt or a later one
	otherMEP            // the slot holds another MEP
	oldAttempt          // the slot holds a later attempt at the MEP
	newAttempt          // the slot holds an earlier attempt at the MEP, which has no outcome yet
	duplicatePart       // the part is in place
	strayKinds
)

var strayNames = [strayKinds]string{
	"none", "no such slot", "another window", "no part", "no such MEP", "built before", "another MEP", "an old attempt",
	"a new attempt", "a duplicate",
}

func (s stray) String() string {
	if s < strayKinds {
		return strayNames[s]
	}
	return fmt.Sprintf("stray(%d)", uint8(s))
}

type strayCounts [strayKinds]uint64

// Kinds names the reasons.
func (strayCounts) Kinds() []string { return append([]string{""}, strayNames[noSlot:]...) }

// Landed says what a placement has completed.
type Landed uint8

// What a placement can complete.
const (
	Partly   Landed = iota // not even a part
	Part                   // a part: another may be asked for
	Interest               // the region of interest: Accept or Reject is wanted
	Whole                  // the MEP
)

// Landing is a slot in which the region of interest is in place, or all of a MEP.
type Landing struct {
	Slot   uint32
	Landed Landed // Interest or Whole
}

// Placed takes the notice that bytes of a readout unit are in place, and appends the slots in which they make something
// complete. A placement that contradicts what is known is counted by its reason and changes nothing. Bytes are counted,
// not marked: who writes some twice and others not at all is found out by VerifyCRC.
func (a *Assembler) Placed(ru int, ps []transport.Placement, to []Landing) []Landing {
	for i := range ps {
		mep, attempt, slot := placing.ParseImmediate(ps[i].Imm)
		landed, why := a.place(ru, &ps[i], mep, attempt, slot)
		if why == otherWindow && a.absent.ever && a.absent.from[ru] > 0 {
			a.stats.LateParts++ // of a window that was revoked when it was gone
			continue
		}
		if why != noStray {
			a.stats.Strays++
			a.stats.ByKind[why]++
			continue
		}
		if landed >= Interest {
			to = append(to, Landing{slot, landed})
		}
	}
	return to
}

// place takes one placement, or says why not.
func (a *Assembler) place(ru int, p *transport.Placement, low uint32, attempt uint8, slot uint32) (Landed, stray) {
	if uint64(slot) >= uint64(len(a.slots)) || ru < 0 || ru >= a.rus {
		return Partly, noSlot
	}
	s, at := &a.slots[slot], int(slot)*a.rus+ru
	if p.Ref == (shmem.Ref{}) || a.refs[at] != p.Ref {
		return Partly, otherWindow
	}
	switch {
	case !a.fits(at, ru, p):
		return Partly, badPart
	case attempt == 0:
		return Partly, noMEP
	}
	if why := a.expected(s, low, attempt); why != noStray {
		return Partly, why
	}
	if a.stands() && a.placed[at] != 0 {
		return Partly, duplicatePart
	}
	if a.placed[at] += p.Length; !a.stands() && a.placed[at] < uint32(a.parts[at].size) {
		return Partly, noStray
	}
	return a.partDone(int(slot)), noStray
}

// fits tells that bytes can be a readout unit's part, or some of those that its part lacks.
func (a *Assembler) fits(at, ru int, p *transport.Placement) bool {
	if !a.stands() {
		return p.Length > 0 && p.Length <= uint32(a.parts[at].size)-a.placed[at]
	}
	r := &a.owned[ru]
	return p.Offset == 0 && p.Length >= r.least && p.Length <= r.size && p.Length%event.MEPWord == 0
}

// expected tells why a slot does not wait for bytes of that attempt at a MEP. A free slot whose windows stand begins
// with it.
func (a *Assembler) expected(s *slot, low uint32, attempt uint8) stray {
	switch {
	case s.phase == idle && a.stands():
		return a.beginWith(s, low, attempt)
	case uint32(s.mep) != low:
		return otherMEP
	case uint32(attempt) < s.attempt:
		return oldAttempt
	case uint32(attempt) > s.attempt:
		return newAttempt
	}
	return noStray
}

// beginWith makes a free slot hold the MEP of the first part that comes for it. The part tells the low half of the
// number, and of those that end so the MEP is the one nearest to the newest that was whole: MEPs in flight are
// thousands, 2^31 apart none. Only a MEP that all readout units agreed on moves that, so none of them can lead the
// others astray.
func (a *Assembler) beginWith(s *slot, low uint32, attempt uint8) stray {
	ahead := int64(int32(low - uint32(a.newest)))
	mep := a.newest + uint64(ahead)
	if ahead < 0 && mep > a.newest {
		return noMEP
	}
	if mep == s.mep && uint32(attempt) <= s.attempt {
		return builtBefore
	}
	s.mep, s.attempt, s.phase, s.done = mep, uint32(attempt), filling, a.lacking(mep)
	return noStray
}

// partDone counts a part that is in place, and tells what that completes.
func (a *Assembler) partDone(i int) Landed {
	s := &a.slots[i]
	s.done++
	a.stats.Parts++
	interest := !a.stands() && a.pull.answered(i)
	switch {
	case int(s.done) == a.rus:
		s.phase, s.marked = whole, a.absent.ever && a.lacksAny(i)
		a.newest = max(a.newest, s.mep)
		return Whole
	case interest:
		s.phase = deciding
		return Interest
	}
	return Part
}
