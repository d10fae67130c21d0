package builderunit

import (
	"fmt"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/invariants"
	"ringlet/shmem"
)

// Assembler is the pure core of a builder unit: it follows each slot from the first size announced to the last byte placed. It
// does no I/O and takes no locks; its owner calls it under one.
type Assembler struct {
	// immutable after NewAssembler
	rus      int
	slotSize int

	group int // slots given back together

	slots []slot
	pull  puller
	busy  int // slots with a MEP
	held  int // outcomes that are not told yet
	stats Stats
}

// Stats counts what an Assembler has seen.
type Stats struct {
	Announced  uint64 `help:"announcements taken: sizes that came"`
	Refused    uint64 `count:"announce_refused" help:"announcements that made no sense"`
	Granted    uint64 `count:"requests" help:"windows granted, each a request for a part with --discipline pull"`
	Strays     uint64 `help:"placements that no grant explains, or that contradict what a slot holds"`
	MEPs       uint64 `count:"meps_built" help:"complete MEPs"`
	MFPs       uint64 `count:"mfps_placed" help:"MFPs in complete MEPs"`
	Bytes      uint64 `count:"bytes_built" unit:"bytes" help:"bytes of MFPs in complete MEPs"`
	Incomplete uint64 `count:"meps_incomplete" help:"MEPs given up: incomplete, or no time left to write them"`

	WindowHigh   uint64 `kind:"max" help:"most requests without an answer"`
	RejectedMEPs uint64 `count:"meps_rejected" help:"MEPs rejected after their region of interest"`
	RejectedMFPs uint64 `count:"mfps_rejected" help:"MFPs of rejected MEPs that were placed"`
	UnaskedMFPs  uint64 `count:"mfps_unasked" help:"MFPs of rejected MEPs that were never asked for"`
	UnaskedParts uint64 `count:"unasked" help:"parts of rejected MEPs that were never asked for"`

	Withdrawn uint64 `count:"meps_withdrawn" help:"MEPs not whole when the unit was excluded, and given to others"`

	DiscardedMEPs uint64 `count:"meps_discarded" help:"complete MEPs let go since the output could not keep up"`
}

type slotPhase uint8

const (
	idle     slotPhase = iota // nothing announced
	sizing                    // some readout units have announced
	filling                   // grants are out, or wait for the window
	deciding                  // the region of interest is in place, and nobody has decided yet
	whole                     // every byte is in place
)

func (p slotPhase) String() string {
	return [...]string{"free", "waiting for sizes", "being filled", "waiting for a decision", "complete"}[p]
}

type slot struct {
	phase    slotPhase
	mep      uint64
	attempt  uint32
	sources  int // MFPs that the readout units heard so far have in all
	announce int // readout units that have announced all
	done     int // readout units whose bytes are all in
	size     int // bytes of the MEP
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

// NewAssembler makes the core of a builder unit with the given number of slots, filled by rus readout units that are asked for their
// parts as p says.
func NewAssembler(rus, slots, slotSize int, p Pull) *Assembler {
	a := &Assembler{rus: rus, slotSize: slotSize, group: p.Group, slots: make([]slot, slots), pull: newPuller(p, rus, slots)}
	for i := range a.slots {
		a.slots[i].parts = make([]part, rus)
	}
	return a
}

// Stats returns a copy of the counters.
func (a *Assembler) Stats() Stats {
	s := a.stats
	s.WindowHigh = uint64(a.pull.high)
	return s
}

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
// every Part of the slot is known and waits to be asked for. An *AnnounceError says what is wrong with the announcement, which
// then had no effect; a *SlotTooSmallError that the MEP cannot be built, which leaves the slot to Abandon.
func (a *Assembler) Announce(m *placing.Announce) (bool, error) {
	if reason := a.object(m); reason != "" {
		a.stats.Refused++
		return false, &AnnounceError{RU: int(m.RU), Slot: m.Slot, MEP: m.MEP, Reason: reason}
	}
	s := &a.slots[m.Slot]
	if s.phase == idle {
		s.begin(m.MEP, m.Attempt)
		a.busy++
	}
	p := &s.parts[m.RU]
	if p.streams == 0 {
		p.streams = int(m.Streams)
		s.sources += p.streams
	}
	p.entries = append(p.entries, m.Entries...)
	a.stats.Announced++
	if len(p.entries) < p.streams {
		return false, nil
	}
	if s.announce++; s.announce < a.rus {
		return false, nil
	}
	return true, a.layOut(int(m.Slot))
}

// object says what is wrong with an announcement; nothing is an empty sentence.
func (a *Assembler) object(m *placing.Announce) string {
	if int(m.RU) >= a.rus {
		return fmt.Sprintf("there are %d readout units", a.rus)
	}
	if int64(m.Slot) >= int64(len(a.slots)) {
		return fmt.Sprintf("there are %d slots", len(a.slots))
	}
	s, known := &a.slots[m.Slot], part{}
	sources := 0
	switch {
	case s.phase == idle:
	case s.phase != sizing:
		return fmt.Sprintf("the slot is %s, with MEP %d", s.phase, s.mep)
	case s.mep != m.MEP || s.attempt != m.Attempt:
		return fmt.Sprintf("the slot expects attempt %d of MEP %d", s.attempt, s.mep)
	default:
		known, sources = s.parts[m.RU], s.sources
	}
	if known.streams == 0 {
		sources += int(m.Streams)
	}
	switch n := len(known.entries); {
	case len(m.Entries) == 0:
		return "it has no sizes"
	case known.streams != 0 && known.streams != int(m.Streams):
		return fmt.Sprintf("it says %d streams, and before it was %d", m.Streams, known.streams)
	case n != int(m.First):
		return fmt.Sprintf("it goes on at stream %d, the next is %d of %d", m.First, n, m.Streams)
	case n+len(m.Entries) > int(m.Streams):
		return fmt.Sprintf("it has sizes up to stream %d of %d", n+len(m.Entries), m.Streams)
	case sources > event.MaxMFPs:
		return fmt.Sprintf("that makes %d MFPs, a MEP holds %d", sources, event.MaxMFPs)
	}
	for _, e := range m.Entries {
		if e.Size < event.MFPFixedSize {
			return fmt.Sprintf("an MFP of %d bytes is shorter than its header", e.Size)
		}
	}
	return ""
}

// begin makes a free slot wait for the sizes of a MEP.
func (s *slot) begin(mep uint64, attempt uint32) {
	s.phase, s.mep, s.attempt = sizing, mep, attempt
	s.sources, s.announce, s.done, s.size = 0, 0, 0, 0
	for i := range s.parts {
		s.parts[i] = part{entries: s.parts[i].entries[:0]}
	}
}

// layOut computes where each readout unit's MFPs go: behind the header, in order of source id (a prefix sum). The sum cannot
// wrap: 65535 MFPs of 4 GiB are 2^48 bytes.
func (a *Assembler) layOut(i int) error {
	s := &a.slots[i]
	end := event.MEPHeaderSize(s.sources)
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
	a.pull.sized(i, s.mep)
	return nil
}

// padded is the room an MFP takes in a MEP, whose offsets count 32-bit words.
func padded(size uint32) int { return (int(size) + 3) &^ 3 }

// Ask makes the next request: the readout unit is to be granted its part of the slot. False says that nothing is to be asked for now.
func (a *Assembler) Ask() (slot, ru int, ok bool) { return a.pull.ask() }

// Part tells which bytes of a slot belong to a readout unit; Granted notes the window it was given for them.
func (a *Assembler) Part(slot, ru int) (offset, size int) {
	p := &a.slots[slot].parts[ru]
	return p.offset, p.size
}

// Granted notes the window that a readout unit was given for its part.
func (a *Assembler) Granted(slot, ru int, ref shmem.Ref) {
	a.slots[slot].parts[ru].ref = ref
	a.stats.Granted++
}

// Landed says what a placement has completed.
type Landed uint8

// What a placement can complete.
const (
	Partly   Landed = iota // not even a part
	Part                   // a part: another may be asked for
	Interest               // the region of interest: Accept or Reject is wanted
	Whole                  // the MEP
)

// Placed takes the notice that n bytes of a readout unit's part are in place, and tells what that completes. Bytes are counted,
// not marked: who writes some twice and others not at all is found out by VerifyCRC.
func (a *Assembler) Placed(slot, ru int, ref shmem.Ref, n uint32) Landed {
	if slot < 0 || slot >= len(a.slots) || ru < 0 || ru >= a.rus {
		a.stats.Strays++
		return Partly
	}
	s := &a.slots[slot]
	p := &s.parts[ru]
	// A write of nothing must not make a part that is complete complete once more.
	if s.phase != filling || n == 0 || ref == (shmem.Ref{}) || p.ref != ref || int64(n) > int64(p.size-p.placed) {
		a.stats.Strays++
		return Partly
	}
	if p.placed += int(n); p.placed < p.size {
		return Partly
	}
	s.done++
	switch interest := a.pull.answered(slot); {
	case s.done == a.rus:
		s.phase = whole
		return Whole
	case interest:
		s.phase = deciding
		return Interest
	}
	return Part
}

// Accept says of a slot whose region of interest is in place that the other parts are asked for. Its windows count as revoked.
func (a *Assembler) Accept(i int) {
	s := &a.slots[i]
	if invariants.Enabled {
		invariants.Check(s.phase == deciding, "slot %d was accepted while %s", i, s.phase)
	}
	s.phase = filling
	s.forgetRefs()
	a.pull.queue(i, s.mep)
}

// Reject counts a MEP of which no more is asked for, and makes its slot free for the next.
func (a *Assembler) Reject(i int) {
	s := &a.slots[i]
	if invariants.Enabled {
		invariants.Check(s.phase == deciding, "slot %d was rejected while %s", i, s.phase)
	}
	a.stats.RejectedMEPs++
	for r := range s.parts {
		if p := &s.parts[r]; p.inPlace() {
			a.stats.RejectedMFPs += uint64(p.streams)
		} else {
			a.stats.UnaskedMFPs += uint64(p.streams)
			a.stats.UnaskedParts++
		}
	}
	a.free(i)
}

// Discard counts a whole MEP that nobody has time for, and makes its slot free for the next.
func (a *Assembler) Discard(i int) {
	if phase := a.slots[i].phase; invariants.Enabled {
		invariants.Check(phase == whole, "slot %d was discarded while %s", i, phase)
	}
	a.stats.DiscardedMEPs++
	a.free(i)
}

// Hold notes that an outcome is there to be told, and reports whether that can wait: until as many slots as the group has can be given
// back together, and only while other MEPs are under way, whose outcomes will come.
func (a *Assembler) Hold() bool {
	if a.held++; a.held < a.group && a.busy > 0 {
		return true
	}
	a.held = 0
	return false
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
func (a *Assembler) Places(i int, to []Place) []Place { return a.slots[i].places(to, false) }

// InPlace is Places of those parts alone whose bytes are all in.
func (a *Assembler) InPlace(i int, to []Place) []Place { return a.slots[i].places(to, true) }

func (s *slot) places(to []Place, inPlace bool) []Place {
	source := uint16(0)
	for r := range s.parts {
		p := &s.parts[r]
		if inPlace && !p.inPlace() {
			source += uint16(p.streams)
			continue
		}
		off := p.offset
		for _, e := range p.entries {
			to = append(to, Place{Source: source, Offset: off, Size: int(e.Size), CRC: e.CRC})
			off += padded(e.Size)
			source++
		}
	}
	return to
}

// inPlace tells that all bytes of a part are in. No part is empty.
func (p *part) inPlace() bool { return p.placed == p.size }

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
	if invariants.Enabled {
		invariants.Check(s.phase == whole, "slot %d finished while %s", i, s.phase)
	}
	a.stats.MEPs++
	for r := range s.parts {
		a.stats.MFPs += uint64(s.parts[r].streams)
		for _, e := range s.parts[r].entries {
			a.stats.Bytes += uint64(e.Size)
		}
	}
	a.free(i)
}

// Abandon gives up a MEP that will not be whole, or not be written, and makes its slot free. On a free slot it does nothing.
func (a *Assembler) Abandon(i int) {
	if a.slots[i].phase != idle {
		a.stats.Incomplete++
		a.pull.drop(i)
		a.free(i)
	}
}

// Withdraw gives up every MEP that is not whole or being decided on, since they are given to others. It calls each with the slot before that is free, and
// returns how many slots hold a MEP still.
func (a *Assembler) Withdraw(each func(slot int)) (left int) {
	for i := range a.slots {
		switch a.slots[i].phase {
		case idle:
		case sizing, filling:
			each(i)
			a.stats.Withdrawn++
			a.pull.drop(i)
			a.free(i)
		default:
			left++
		}
	}
	a.held = 0
	return left
}

func (a *Assembler) free(i int) {
	s := &a.slots[i]
	s.phase = idle
	a.busy--
	s.forgetRefs()
}

func (s *slot) forgetRefs() {
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
