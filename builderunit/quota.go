package builderunit

import (
	"fmt"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/invariants"
	"ringlet/shmem"
	"ringlet/transport"
)

// QuotaAssembler is the pure core of a builder unit in whose slots every readout unit owns a fixed part: nothing is announced and
// nothing granted per MEP. A part comes in one write, and what it is of stands in the write's Imm. Like the Assembler it does no
// I/O and takes no locks; its owner calls it under one, for many placements at a time.
type QuotaAssembler struct {
	// immutable after NewQuotaAssembler
	parts []quotaPart // by readout unit

	refs    []shmem.Ref // the standing windows, at slot·len(parts)+ru
	slots   []quotaSlot
	lengths []uint32 // bytes of a part that is in place, at slot·len(parts)+ru; 0 for one that is not
	newest  uint64   // highest MEP that was whole
	stats   QuotaStats
}

// quotaPart is what a readout unit owns of every slot.
type quotaPart struct {
	offset      int // from the slot's start, bytes
	least, room uint32
}

// quotaSlot keeps its MEP and attempt when it is idle: they were the last it held. Attempts count from 1, so 0 is a slot that
// never held any.
type quotaSlot struct {
	mep     uint64
	done    uint32 // parts in place
	attempt uint8
	phase   slotPhase // idle, filling or whole
}

// A Stray is why a placement was not taken for what it says.
type Stray uint8

// The reasons, in the order they are looked for.
const (
	NoStray       Stray = iota
	NoSlot              // there is no slot of this number
	OtherWindow         // the bytes are not in the unit's part of the slot it names
	BadPart             // they are not such as a part can be
	NoMEP               // it names a MEP before the first, or attempt 0
	BuiltBefore         // the slot is free, and held the MEP last, at this attempt or a later one
	OtherMEP            // the slot holds another MEP
	OldAttempt          // the slot holds a later attempt at the MEP
	NewAttempt          // the slot holds an earlier attempt at the MEP, which has no outcome yet
	DuplicatePart       // the part is in place
	strayKinds
)

var strayNames = [strayKinds]string{"none", "no such slot", "another window", "no part", "no such MEP", "built before", "another MEP",
	"an old attempt", "a new attempt", "a duplicate"}

func (s Stray) String() string {
	if s < strayKinds {
		return strayNames[s]
	}
	return fmt.Sprintf("stray(%d)", uint8(s))
}

// QuotaStats counts what a QuotaAssembler has seen.
type QuotaStats struct {
	Stats  `count:"-"` // as those of the Builder
	Parts  uint64      `help:"parts taken that were placed by quota"`
	ByKind strayCounts `count:"strays." help:"strays by reason, where placing is by quota"`
}

type strayCounts [strayKinds]uint64

// Kinds names the reasons.
func (strayCounts) Kinds() []string { return append([]string{""}, strayNames[NoSlot:]...) }

// NewQuotaAssembler makes the core of a builder unit with a number of slots, laid out by l.
func NewQuotaAssembler(l *placing.Layout, slots int) *QuotaAssembler {
	a := &QuotaAssembler{
		refs:  make([]shmem.Ref, slots*l.RUs()),
		slots: make([]quotaSlot, slots), lengths: make([]uint32, slots*l.RUs()),
	}
	for ru := range l.RUs() {
		offset, room := l.Part(ru)
		least := l.Entries() + l.Streams()*event.MFPFixedSize
		a.parts = append(a.parts, quotaPart{offset, uint32(least), uint32(room)})
	}
	return a
}

// Stats returns a copy of the counters.
func (a *QuotaAssembler) Stats() QuotaStats { return a.stats }

// Granted notes the window that a readout unit was given for its part of a slot, before anything is placed in it.
func (a *QuotaAssembler) Granted(slot, ru int, ref shmem.Ref) {
	a.refs[slot*len(a.parts)+ru] = ref
	a.stats.Granted++
}

// Refs appends the windows of a readout unit in the slots [first, first+n).
func (a *QuotaAssembler) Refs(ru, first, n int, to []placing.Ref) []placing.Ref {
	for slot := first; slot < first+n; slot++ {
		to = append(to, placing.Ref(a.refs[slot*len(a.parts)+ru]))
	}
	return to
}

// Placed takes the notice that parts of a readout unit are in place, and appends to full the slots that they make whole.
// A placement that contradicts what is known is counted by its reason and changes nothing: the first part that comes for a free
// slot says what the slot is to hold.
func (a *QuotaAssembler) Placed(ru int, ps []transport.Placement, full []uint32) []uint32 {
	for i := range ps {
		mep, attempt, slot := placing.ParseImmediate(ps[i].Imm)
		if why := a.part(ru, &ps[i], mep, attempt, slot); why != NoStray {
			a.stats.Strays++
			a.stats.ByKind[why]++
			continue
		}
		a.stats.Parts++
		s := &a.slots[slot]
		if s.done++; int(s.done) == len(a.parts) {
			s.phase = whole
			a.newest = max(a.newest, s.mep)
			full = append(full, slot)
		}
	}
	return full
}

// part takes one part, or says why not.
func (a *QuotaAssembler) part(ru int, p *transport.Placement, low uint32, attempt uint8, slot uint32) Stray {
	if uint64(slot) >= uint64(len(a.slots)) {
		return NoSlot
	}
	s, at := &a.slots[slot], int(slot)*len(a.parts)+ru
	switch {
	case a.refs[at] != p.Ref:
		return OtherWindow
	case p.Offset != 0 || p.Length < a.parts[ru].least || p.Length > a.parts[ru].room || p.Length%event.MEPWord != 0:
		return BadPart
	case attempt == 0:
		return NoMEP
	}
	if s.phase == idle {
		if why := a.begin(s, low, attempt); why != NoStray {
			return why
		}
	} else if s.attempt != attempt || uint32(s.mep) != low {
		switch {
		case uint32(s.mep) != low:
			return OtherMEP
		case attempt < s.attempt:
			return OldAttempt
		}
		return NewAttempt
	} else if a.lengths[at] != 0 {
		return DuplicatePart
	}
	a.lengths[at] = p.Length
	return NoStray
}

// begin makes a free slot hold the MEP of the first part that comes for it. The part tells the low half of the number, and of
// those that end so the MEP is the one nearest to the newest that was whole: MEPs in flight are thousands, 2^31 apart none. Only
// a MEP that all readout units agreed on moves that, so none of them can lead the others astray.
func (a *QuotaAssembler) begin(s *quotaSlot, low uint32, attempt uint8) Stray {
	ahead := int64(int32(low - uint32(a.newest)))
	mep := a.newest + uint64(ahead)
	if ahead < 0 && mep > a.newest {
		return NoMEP
	}
	if mep == s.mep && attempt <= s.attempt {
		return BuiltBefore
	}
	s.mep, s.attempt, s.phase = mep, attempt, filling
	return NoStray
}

// Slot describes a slot's MEP. What it says of a whole one, and what Length says, stays so until Finish or Abandon.
func (a *QuotaAssembler) Slot(i int) MEP {
	s, m := &a.slots[i], MEP{}
	m.MEP, m.Attempt = s.mep, uint32(s.attempt)
	if last := len(a.parts) - 1; s.phase == whole {
		m.Size = a.parts[last].offset + int(a.lengths[i*len(a.parts)+last])
	}
	return m
}

// Part is where a readout unit's part of a slot begins, in bytes, and how many are in place.
func (a *QuotaAssembler) Part(slot, ru int) (offset, length int) {
	return a.parts[ru].offset, int(a.lengths[slot*len(a.parts)+ru])
}

// Finish counts whole MEPs, of mfps MFPs and so many bytes in all, and makes their slots free.
func (a *QuotaAssembler) Finish(slots []uint32, mfps, bytes uint64) {
	for _, i := range slots {
		if phase := a.slots[i].phase; invariants.Enabled && phase != whole {
			invariants.Check(false, "slot %d finished while %s", i, phase)
		}
		a.free(int(i))
	}
	a.stats.MEPs += uint64(len(slots))
	a.stats.MFPs += mfps
	a.stats.Bytes += bytes
}

// Discard counts whole MEPs that nobody has time for, and makes their slots free.
func (a *QuotaAssembler) Discard(slots []uint32) {
	for _, i := range slots {
		if phase := a.slots[i].phase; invariants.Enabled && phase != whole {
			invariants.Check(false, "slot %d was discarded while %s", i, phase)
		}
		a.free(int(i))
	}
	a.stats.DiscardedMEPs += uint64(len(slots))
}

// Abandon gives up a MEP that will not be whole, or not be written, and makes its slot free. On a free slot it does nothing.
func (a *QuotaAssembler) Abandon(i int) {
	if a.slots[i].phase != idle {
		a.stats.Incomplete++
		a.free(i)
	}
}

// Withdraw gives up every MEP that is not whole, since they are given to others, and returns how many slots hold a MEP still.
func (a *QuotaAssembler) Withdraw() (left int) {
	for i := range a.slots {
		switch a.slots[i].phase {
		case idle:
		case filling:
			a.stats.Withdrawn++
			a.free(i)
		default:
			left++
		}
	}
	return left
}

func (a *QuotaAssembler) free(i int) {
	s := &a.slots[i]
	s.phase, s.done = idle, 0
	clear(a.lengths[i*len(a.parts) : (i+1)*len(a.parts)])
}

// Unfinished appends the slots that hold part of a MEP.
func (a *QuotaAssembler) Unfinished(to []int) []int {
	for i := range a.slots {
		if a.slots[i].phase != idle {
			to = append(to, i)
		}
	}
	return to
}
