package builderunit

import (
	"fmt"
	"slices"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/invariants"
	"ringlet/shmem"
)

// Assembler is the pure core of a builder unit: it follows each slot until the last byte of a MEP is placed. It does no
// I/O and takes no locks; its owner calls it under one, for many placements at a time.
//
// Windows are granted for each MEP, when all readout units have announced its sizes and a slot can be laid out for it;
// or they stand for all MEPs, where a Layout gives each readout unit a window in every slot: then nothing is announced,
// a part comes in one write, and the first that comes for a free slot says what it is to hold.
type Assembler struct {
	// immutable after NewAssembler and newStanding
	rus      int
	slotSize int
	owned    []owned // by readout unit; nil where windows are granted for each MEP
	group    int     // slots given back together

	slots  []slot
	refs   []shmem.Ref // windows, at slot·rus+ru; zero for none
	placed []uint32    // bytes in place, at slot·rus+ru
	parts  []part      // what was announced, at slot·rus+ru; nil where windows stand
	pull   puller
	newest uint64 // highest MEP that was whole
	busy   int    // slots with a MEP, where windows are granted for each
	held   int    // outcomes that are not told yet
	absent absent
	stats  Stats
}

type slotPhase uint8

const (
	idle     slotPhase = iota // nothing announced
	sizing                    // some readout units have announced
	filling                   // grants are out, or wait for request credit
	deciding                  // the region of interest is in place, and nobody has decided yet
	refusing                  // the region was rejected, and nobody has been told yet
	whole                     // every byte is in place
)

func (p slotPhase) String() string {
	return [...]string{"free", "waiting for sizes", "being filled", "waiting for a decision", "rejected", "complete"}[p]
}

// slot keeps its MEP and attempt when it is idle: they were the last it held. Attempts count from 1, so 0 is a slot
// that never held any.
type slot struct {
	mep      uint64
	size     int // bytes of a MEP that is laid out
	attempt  uint32
	sources  uint32 // MFPs that the readout units heard so far have in all
	announce uint16 // readout units that have announced all
	done     uint16 // readout units whose bytes are all in
	phase    slotPhase
	marked   bool // it is whole without parts that are missing
}

// part is one readout unit's share of a slot, as announced.
type part struct {
	streams int
	entries []placing.Entry
	offset  int // from the slot's start, bytes
	size    int
}

// owned is what a readout unit owns of every slot, where windows stand.
type owned struct {
	offset      int // from the slot's start, bytes
	sources     int
	least, size uint32
}

func newAssembler(rus, slots int) *Assembler {
	return &Assembler{
		rus:    rus,
		slots:  make([]slot, slots),
		refs:   make([]shmem.Ref, slots*rus),
		placed: make([]uint32, slots*rus),
		absent: absent{from: make([]uint64, rus)},
	}
}

// NewAssembler makes the core of a builder unit with the given number of slots, filled by rus readout units that are
// asked for their parts as p says.
func NewAssembler(rus, slots, slotSize int, p Pull) *Assembler {
	a := newAssembler(rus, slots)
	a.slotSize, a.group, a.pull, a.parts = slotSize, p.Group, newPuller(p, rus, slots), make([]part, slots*rus)
	return a
}

// newStanding makes the core of a builder unit with the given number of slots, laid out by l for windows that stand.
func newStanding(l *placing.Layout, slots int) *Assembler {
	a := newAssembler(l.Units(), slots)
	a.slotSize = l.Size()
	for ru := range l.Units() {
		offset, size := l.Part(ru)
		least := l.Entries(ru) + l.Count(ru)*event.MFPFixedSize
		a.owned = append(a.owned, owned{
			offset:  offset,
			sources: l.Count(ru),
			least:   uint32(least),
			size:    uint32(size),
		})
	}
	return a
}

// stands tells that windows stand for all MEPs.
func (a *Assembler) stands() bool { return a.owned != nil }

// of is a slot's share of what is kept by slot and readout unit.
func of[T any](a *Assembler, all []T, slot int) []T { return all[slot*a.rus : (slot+1)*a.rus] }

// Stats returns a copy of the counters.
func (a *Assembler) Stats() Stats {
	s := a.stats
	s.CreditHigh = uint64(a.pull.high)
	return s
}

// An announceError is an announcement that contradicts what is known.
type announceError struct {
	RU     int
	Slot   uint32
	MEP    uint64
	Reason string
	Bad    bool // a size is one that no MFP has
}

func (e *announceError) Error() string {
	return fmt.Sprintf("readout unit %d announced MEP %d for slot %d: %s", e.RU, e.MEP, e.Slot, e.Reason)
}

// A SlotTooSmallError is a MEP that no slot can hold.
type SlotTooSmallError struct {
	MEP        uint64
	Need, Have int // bytes
}

func (e *SlotTooSmallError) Error() string {
	return fmt.Sprintf("MEP %d needs %d bytes, but a slot holds %d: raise --slot-size or lower --packing", e.MEP, e.Need,
		e.Have)
}

// Announce takes the sizes that a readout unit has for one MEP. It reports true when all readout units have announced,
// and so every Part of the slot is known and waits to be asked for. An *announceError says what is wrong with the
// announcement, which then had no effect; a *SlotTooSmallError that the MEP cannot be built, which leaves the slot to
// Abandon.
func (a *Assembler) Announce(m *placing.Announce) (bool, error) {
	if reason := a.object(m); reason != "" {
		a.stats.Refused++
		return false, &announceError{
			RU:     int(m.RU),
			Slot:   m.Slot,
			MEP:    m.MEP,
			Reason: reason,
			Bad:    tooShort(m) >= 0,
		}
	}
	s := &a.slots[m.Slot]
	if s.phase == idle {
		a.begin(int(m.Slot), m.MEP, m.Attempt)
	}
	p := &of(a, a.parts, int(m.Slot))[m.RU]
	if p.streams == 0 {
		p.streams = int(m.Streams)
		s.sources += uint32(m.Streams)
	}
	p.entries = append(p.entries, m.Entries...)
	a.stats.Announced++
	if len(p.entries) < p.streams {
		return false, nil
	}
	if s.announce++; int(s.announce) < a.rus {
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
		known, sources = of(a, a.parts, int(m.Slot))[m.RU], int(s.sources)
	}
	if known.streams == 0 {
		sources += int(m.Streams)
	}
	switch n := len(known.entries); {
	case len(m.Entries) == 0:
		return "it has no sizes"
	case a.absent.sources != nil && a.absent.sources[m.RU] != int(m.Streams):
		return fmt.Sprintf("it says %d streams, and the readout unit has %d sources", m.Streams, a.absent.sources[m.RU])
	case known.streams != 0 && known.streams != int(m.Streams):
		return fmt.Sprintf("it says %d streams, and before it was %d", m.Streams, known.streams)
	case n != int(m.First):
		return fmt.Sprintf("it goes on at stream %d, the next is %d of %d", m.First, n, m.Streams)
	case n+len(m.Entries) > int(m.Streams):
		return fmt.Sprintf("it has sizes up to stream %d of %d", n+len(m.Entries), m.Streams)
	case sources > event.MaxMFPs:
		return fmt.Sprintf("that makes %d MFPs, a MEP holds %d", sources, event.MaxMFPs)
	}
	if i := tooShort(m); i >= 0 {
		return fmt.Sprintf("an MFP of %d bytes is shorter than its header", m.Entries[i].Size)
	}
	return ""
}

// tooShort is the first size that no MFP has; less than 0 if there is none.
func tooShort(m *placing.Announce) int {
	return slices.IndexFunc(m.Entries, func(e placing.Entry) bool { return e.Size < event.MFPFixedSize })
}

// begin makes a free slot wait for the sizes of a MEP.
func (a *Assembler) begin(i int, mep uint64, attempt uint32) {
	a.slots[i] = slot{phase: sizing, mep: mep, attempt: attempt}
	a.busy++
	for ru, p := range of(a, a.parts, i) {
		of(a, a.parts, i)[ru] = part{entries: p.entries[:0]}
		if a.lacks(ru, mep) {
			a.announceMissing(i, ru)
		}
	}
}

// layOut computes where each readout unit's MFPs go: behind the header, in order of source id (a prefix sum). The sum
// cannot wrap: 65535 MFPs of 4 GiB are 2^48 bytes.
func (a *Assembler) layOut(i int) error {
	s, parts := &a.slots[i], of(a, a.parts, i)
	end := event.MEPHeaderSize(int(s.sources))
	for ru := range parts {
		p := &parts[ru]
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

// Ask makes the next request: the readout unit is to be granted its part of the slot. False says that nothing is to be
// asked for now.
func (a *Assembler) Ask() (slot, ru int, ok bool) { return a.pull.ask() }

// Part tells which bytes of a slot belong to a readout unit; where windows stand, those that are in place.
func (a *Assembler) Part(slot, ru int) (offset, size int) {
	if a.stands() {
		return a.owned[ru].offset, int(a.placed[slot*a.rus+ru])
	}
	p := &of(a, a.parts, slot)[ru]
	return p.offset, p.size
}

// Granted notes the window that a readout unit was given for its part of a slot.
func (a *Assembler) Granted(slot, ru int, ref shmem.Ref) {
	a.refs[slot*a.rus+ru] = ref
	a.stats.Granted++
}

// standing appends the windows of a readout unit in the slots [first, first+n).
func (a *Assembler) standing(ru, first, n int, to []placing.Ref) []placing.Ref {
	for slot := first; slot < first+n; slot++ {
		to = append(to, placing.Ref(a.refs[slot*a.rus+ru]))
	}
	return to
}

// discard counts whole MEPs that nobody has time for, and makes their slots free for the next.
func (a *Assembler) discard(slots []uint32) {
	for _, i := range slots {
		if phase := a.slots[i].phase; invariants.Enabled {
			invariants.Check(phase == whole, "slot %d was discarded while %s", i, phase)
		}
		a.free(int(i))
	}
	a.stats.DiscardedMEPs += uint64(len(slots))
	a.held = 0 // what was held is told with them
}

// Hold notes that an outcome is there to be told, and reports whether that can wait: until as many slots as the group
// has can be given back together, and only while other MEPs are under way, whose outcomes will come.
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

// Slot describes a slot's MEP. What it says of a whole one stays so until Finish, Discard or abandon.
func (a *Assembler) Slot(i int) MEP {
	s := &a.slots[i]
	m := MEP{MEP: s.mep, Attempt: s.attempt, Size: s.size}
	if last := a.rus - 1; a.stands() && s.phase == whole {
		m.Size = a.owned[last].offset + int(a.placed[i*a.rus+last])
	}
	return m
}

// A mfpPlace is where one MFP lies in a slot, and what it should look like.
type mfpPlace struct {
	Source uint16
	RU     uint16 // whose it is, by index
	Offset int    // from the slot's start, bytes
	Size   int
	CRC    uint32
	Made   bool // here, of missing fragments
}

// landed appends where each MFP of a slot lies, in order of source id, of those parts whose bytes are all in. Sources
// are numbered through the readout units. Where windows stand the entries tell that, which lie in the slot.
func (a *Assembler) landed(i int, to []mfpPlace) []mfpPlace { return a.places(i, to, false) }

// places is landed, or where each MFP will lie.
func (a *Assembler) places(i int, to []mfpPlace, all bool) []mfpPlace {
	source := uint16(0)
	for ru, p := range of(a, a.parts, i) {
		if !all && !a.inPlace(i, ru) {
			source += uint16(p.streams)
			continue
		}
		off := p.offset
		for _, e := range p.entries {
			to = append(to, mfpPlace{
				Source: source,
				RU:     uint16(ru),
				Offset: off,
				Size:   int(e.Size),
				CRC:    e.CRC,
			})
			off += padded(e.Size)
			source++
		}
	}
	return to
}

// inPlace tells that all bytes of an announced part are in. No part is empty.
func (a *Assembler) inPlace(slot, ru int) bool {
	at := slot*a.rus + ru
	return int(a.placed[at]) == a.parts[at].size
}

// refsOf appends the windows of a slot that end with its MEP.
func (a *Assembler) refsOf(i int, to []shmem.Ref) []shmem.Ref {
	if a.stands() {
		return to
	}
	return appendSet(to, of(a, a.refs, i))
}

// allRefs appends every window.
func (a *Assembler) allRefs(to []shmem.Ref) []shmem.Ref { return appendSet(to, a.refs) }

func appendSet(to, refs []shmem.Ref) []shmem.Ref {
	for _, ref := range refs {
		if ref != (shmem.Ref{}) {
			to = append(to, ref)
		}
	}
	return to
}

// Finish counts whole MEPs, of mfps MFPs and so many bytes in all, and makes their slots free for the next.
func (a *Assembler) Finish(slots []uint32, mfps, bytes uint64) {
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

// abandon gives up a MEP that will not be whole, or not be written, and makes its slot free. On a free slot it does
// nothing.
func (a *Assembler) abandon(i int) {
	if a.slots[i].phase != idle {
		a.stats.Incomplete++
		a.free(i)
	}
}

// withdraw gives up every MEP that is not whole or being decided on, since they are given to others. It calls each with
// the slot before that is free, and returns how many slots hold a MEP still.
func (a *Assembler) withdraw(each func(slot int)) (left int) {
	for i := range a.slots {
		switch a.slots[i].phase {
		case idle:
		case sizing, filling:
			each(i)
			a.stats.Withdrawn++
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
	s.phase, s.done, s.marked = idle, 0, false
	clear(of(a, a.placed, i))
	if !a.stands() {
		a.busy--
		a.pull.drop(i)
		clear(of(a, a.refs, i))
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
