package builderunit

import (
	"fmt"

	"ringlet/event"
	"ringlet/internal/placing"
	"ringlet/shmem"
)

// Assembler is the pure core of a builder unit: it follows each slot from the first size announced to the last byte placed. It
// does no I/O and takes no locks; its owner calls it under one.
type Assembler struct {
	// immutable after NewAssembler
	rus      int
	slotSize int

	slots []slot
	stats Stats
}

// Stats counts what an Assembler has seen.
type Stats struct {
	Announced  uint64 // announcements taken
	Refused    uint64 // announcements that made no sense
	Granted    uint64 // grants given
	Strays     uint64 // placements that no grant explains
	MEPs       uint64 // complete
	MFPs       uint64 // in complete MEPs
	Bytes      uint64 // of MFPs in complete MEPs, padding between them included
	Incomplete uint64 // MEPs given up with something missing
}

type slotPhase uint8

const (
	idle    slotPhase = iota // nothing announced
	sizing                   // some readout units have announced
	filling                  // grants are out
	whole                    // every byte is in place
)

func (p slotPhase) String() string {
	return [...]string{"free", "waiting for sizes", "being filled", "complete"}[p]
}

type slot struct {
	phase    slotPhase
	mep      uint64
	attempt  uint32
	announce int // readout units that have announced all
	done     int // readout units whose bytes are all in
	size     int // bytes of the MEP
	header   int
	parts    []part
}

// part is one readout unit's share of a slot.
type part struct {
	streams int
	entries []placing.Entry
	offset  int // from the slot's start, bytes
	size    int
	placed  int
	ref     shmem.Ref
}

// NewAssembler makes the core of a builder unit with the given number of slots, filled by rus readout units.
func NewAssembler(rus, slots, slotSize int) *Assembler {
	a := &Assembler{rus: rus, slotSize: slotSize, slots: make([]slot, slots)}
	for i := range a.slots {
		a.slots[i].parts = make([]part, rus)
	}
	return a
}

// Stats returns a copy of the counters.
func (a *Assembler) Stats() Stats { return a.stats }

// An AnnounceError is an announcement that contradicts what is known.
type AnnounceError struct {
	RU     int
	Slot   uint32
	MEP    uint64
	Reason string
}

func (e *AnnounceError) Error() string {
	return fmt.Sprintf("readout unit %d announced MEP %d for slot %d: %s", e.RU, e.MEP, e.Slot, e.Reason)
}

// A SlotTooSmallError is a MEP that no slot can hold.
type SlotTooSmallError struct {
	MEP        uint64
	Need, Have int // bytes
}

func (e *SlotTooSmallError) Error() string {
	return fmt.Sprintf("MEP %d needs %d bytes, but a slot holds %d: raise --slot-size or lower --packing", e.MEP, e.Need, e.Have)
}

// Announce takes the sizes that a readout unit has for one MEP. It reports true when all readout units have announced, and so
// every Part of the slot is known and waits to be granted.
func (a *Assembler) Announce(m *placing.Announce) (bool, error) {
	refuse := func(format string, args ...any) (bool, error) {
		a.stats.Refused++
		return false, &AnnounceError{RU: int(m.RU), Slot: m.Slot, MEP: m.MEP, Reason: fmt.Sprintf(format, args...)}
	}
	if int(m.RU) >= a.rus {
		return refuse("there are %d readout units", a.rus)
	}
	if int(m.Slot) >= len(a.slots) {
		return refuse("there are %d slots", len(a.slots))
	}
	s := &a.slots[m.Slot]
	switch {
	case s.phase == idle:
		s.phase, s.mep, s.attempt, s.announce, s.done = sizing, m.MEP, m.Attempt, 0, 0
		for i := range s.parts {
			s.parts[i] = part{entries: s.parts[i].entries[:0]}
		}
	case s.phase != sizing:
		return refuse("the slot is %s, with MEP %d", s.phase, s.mep)
	case s.mep != m.MEP || s.attempt != m.Attempt:
		return refuse("the slot expects attempt %d of MEP %d", s.attempt, s.mep)
	}
	for _, e := range m.Entries {
		if e.Size < event.MFPFixedSize {
			return refuse("an MFP of %d bytes is shorter than its header", e.Size)
		}
	}
	p := &s.parts[m.RU]
	if len(p.entries) != int(m.First) || p.streams != 0 && p.streams != int(m.Streams) || m.Streams == 0 {
		return refuse("streams from %d of %d do not follow the %d of %d announced before", m.First, m.Streams, len(p.entries), p.streams)
	}
	p.streams = int(m.Streams)
	p.entries = append(p.entries, m.Entries...)
	a.stats.Announced++
	if len(p.entries) < p.streams {
		return false, nil
	}
	if s.announce++; s.announce < a.rus {
		return false, nil
	}
	return true, a.layOut(s)
}

// layOut computes where each readout unit's MFPs go: behind the header, in order of source id (a prefix sum).
func (a *Assembler) layOut(s *slot) error {
	sources := 0
	for i := range s.parts {
		sources += s.parts[i].streams
	}
	s.header = event.MEPHeaderSize(sources)
	end := s.header
	for i := range s.parts {
		p := &s.parts[i]
		p.offset, p.size = end, 0
		for _, e := range p.entries {
			p.size += padded(e.Size)
		}
		end += p.size
	}
	s.size = end
	if end > a.slotSize {
		return &SlotTooSmallError{MEP: s.mep, Need: end, Have: a.slotSize}
	}
	s.phase = filling
	a.stats.Granted += uint64(a.rus)
	return nil
}

// padded is the room an MFP takes in a MEP, whose offsets count 32-bit words.
func padded(size uint32) int { return (int(size) + 3) &^ 3 }

// Part tells which bytes of a slot belong to a readout unit; Granted notes the window it was given for them.
func (a *Assembler) Part(slot, ru int) (offset, size int) {
	p := &a.slots[slot].parts[ru]
	return p.offset, p.size
}

// Granted notes the window that a readout unit was given for its part.
func (a *Assembler) Granted(slot, ru int, ref shmem.Ref) { a.slots[slot].parts[ru].ref = ref }

// Placed takes the notice that n bytes of a readout unit's part are in place. It reports true when that makes the MEP whole.
func (a *Assembler) Placed(slot, ru int, ref shmem.Ref, n uint32) bool {
	if slot < 0 || slot >= len(a.slots) || ru < 0 || ru >= a.rus {
		a.stats.Strays++
		return false
	}
	s := &a.slots[slot]
	p := &s.parts[ru]
	if s.phase != filling || p.ref != ref || p.placed+int(n) > p.size {
		a.stats.Strays++
		return false
	}
	if p.placed += int(n); p.placed < p.size {
		return false
	}
	if s.done++; s.done < a.rus {
		return false
	}
	s.phase = whole
	return true
}

// MEP describes what a slot holds.
type MEP struct {
	MEP     uint64
	Attempt uint32
	Size    int // bytes, header included
}

// Slot describes a slot's MEP.
func (a *Assembler) Slot(i int) MEP {
	s := &a.slots[i]
	return MEP{MEP: s.mep, Attempt: s.attempt, Size: s.size}
}

// A Place is where one MFP lies in a slot, and what it should look like.
type Place struct {
	Source uint16
	Offset int // from the slot's start, bytes
	Size   int
	CRC    uint32
}

// Places appends where each MFP of a slot lies, in order of source id. Sources are numbered through the readout units.
func (a *Assembler) Places(i int, to []Place) []Place {
	source := uint16(0)
	for r := range a.slots[i].parts {
		p := &a.slots[i].parts[r]
		off := p.offset
		for _, e := range p.entries {
			to = append(to, Place{Source: source, Offset: off, Size: int(e.Size), CRC: e.CRC})
			off += padded(e.Size)
			source++
		}
	}
	return to
}

// Refs appends the windows that are granted into a slot.
func (a *Assembler) Refs(i int, to []shmem.Ref) []shmem.Ref {
	for r := range a.slots[i].parts {
		if ref := a.slots[i].parts[r].ref; ref != (shmem.Ref{}) {
			to = append(to, ref)
		}
	}
	return to
}

// Finish counts a whole MEP and makes its slot free for the next.
func (a *Assembler) Finish(i int) {
	s := &a.slots[i]
	a.stats.MEPs++
	a.stats.Bytes += uint64(s.size - s.header)
	for r := range s.parts {
		a.stats.MFPs += uint64(s.parts[r].streams)
	}
	a.free(s)
}

// Abandon gives up a MEP that will not be whole and makes its slot free.
func (a *Assembler) Abandon(i int) {
	a.stats.Incomplete++
	a.free(&a.slots[i])
}

func (a *Assembler) free(s *slot) {
	s.phase = idle
	for r := range s.parts {
		s.parts[r].ref = shmem.Ref{}
	}
}

// Unfinished appends the slots that hold part of a MEP.
func (a *Assembler) Unfinished(to []int) []int {
	for i := range a.slots {
		if a.slots[i].phase != idle {
			to = append(to, i)
		}
	}
	return to
}
