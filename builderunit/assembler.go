package builderunit

import (
	"fmt"
	"math"
	"slices"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/invariants"
	"ringlet/shmem"
	"ringlet/transport"
)

// Assembler is the pure core of a builder unit: it follows each slot until the last byte of a MEP is placed. It does no
// I/O and takes no locks; its owner calls it under one, for many placements at a time.
//
// Windows are granted for each MEP, when all readout units have announced its sizes and a slot can be laid out for it;
// or they are granted once, for all MEPs, where a Layout gives each readout unit a window in every slot: then nothing
// is announced, a part comes in one write, and the first that comes for a free slot says what it is to hold.
type Assembler struct {
	// immutable after makeAssembler
	rus             int
	slotSize        int
	isPreGranted    bool // windows are granted once, for all MEPs
	partsPerSlot    int  // readout units; 0 where all slots are alike, and have their parts in common
	slotsPerRelease int  // slots given back together

	slots          []slot
	windowRefs     []shmem.Ref // windows, at slot·rus+ru; zero for none
	placedBytes    []uint32    // bytes in place, at slot·rus+ru
	parts          []part      // where each readout unit's bytes go, by slot
	pull           puller
	newestComplete uint64 // highest MEP that was whole
	busySlots      int    // slots with a MEP, where windows are granted for each
	heldOutcomes   int    // outcomes that are not reported yet
	absent         absentUnits
	stats          Stats
}

type slotPhase uint8

const (
	slotIdle      slotPhase = iota // nothing announced
	slotSizing                     // some readout units have announced
	slotFilling                    // grants are out, or wait for request credit
	slotDeciding                   // the region of interest is in place, and nobody has decided yet
	slotRejecting                  // the region was rejected, and that is not reported yet
	slotComplete                   // every byte is in place
)

func (p slotPhase) String() string {
	return [...]string{"free", "waiting for sizes", "being filled", "waiting for a decision", "rejected", "complete"}[p]
}

// slot keeps its MEP and attempt when it is idle: they were the last it held. Attempts count from 1, so 0 is a slot
// that never held any.
type slot struct {
	mep            uint64
	mepBytes       int // bytes of a MEP that is laid out
	attempt        uint32
	announcedMFPs  uint32 // MFPs that the readout units that have announced have in all
	announcedUnits uint16 // readout units that have announced all
	completedParts uint16 // readout units whose bytes are all in
	phase          slotPhase
	lacksParts     bool // it is whole without parts that are missing
}

// part is one readout unit's share of a slot: where it goes, and how many bytes it may have. As announced these are one
// number, and come in any pieces; of a part that brings its entries along they are bounds, and it comes in one write.
type part struct {
	streams     int
	entries     []placing.Entry // as announced; of a part that brings them along none
	offset      int             // from the slot's start, bytes
	least, most int             // bytes
	inOneWrite  bool
}

// fits tells that bytes can be a part, or some of those that it lacks.
func (p *part) fits(w *transport.Placement, placed uint32) bool {
	n := int(w.Length)
	if p.inOneWrite {
		return w.Offset == 0 && n >= p.least && n <= p.most && n%event.MEPWordBytes == 0
	}
	return n > 0 && n <= p.most-int(placed)
}

func newAssembler(rus, slots int) *Assembler {
	return &Assembler{
		rus:         rus,
		slots:       make([]slot, slots),
		windowRefs:  make([]shmem.Ref, slots*rus),
		placedBytes: make([]uint32, slots*rus),
		absent:      absentUnits{lacksBelow: make([]uint64, rus)},
	}
}

// NewAssembler makes the core of a builder unit with the given number of slots, filled by rus readout units that are
// asked for their parts as p says.
func NewAssembler(rus, slots, slotSize int, p Pull) *Assembler {
	a := newAssembler(rus, slots)
	a.slotSize, a.slotsPerRelease, a.pull = slotSize, p.SlotsPerRelease, newPuller(p, rus, slots)
	a.partsPerSlot, a.parts = rus, make([]part, slots*rus)
	return a
}

// newPreGrantedAssembler makes the core of a builder unit with the given number of slots, laid out by l for pre-granted
// windows.
func newPreGrantedAssembler(l *placing.Layout, slots int) *Assembler {
	a := newAssembler(l.Units(), slots)
	a.slotSize, a.isPreGranted = l.Size(), true
	for ru := range l.Units() {
		offset, size := l.PartRange(ru)
		least := l.EntriesSize(ru) + l.SourceCount(ru)*event.MFPFixedSize
		a.parts = append(a.parts, part{
			streams:    l.SourceCount(ru),
			offset:     offset,
			least:      least,
			most:       size,
			inOneWrite: true,
		})
	}
	return a
}

// slotParts are the parts of a slot, by readout unit.
func (a *Assembler) slotParts(slot int) []part { return a.parts[slot*a.partsPerSlot:][:a.rus] }

// slotRow is a slot's share of what is kept by slot and readout unit.
func slotRow[T any](a *Assembler, table []T, slot int) []T { return table[slot*a.rus : (slot+1)*a.rus] }

// Stats returns a copy of the counters.
func (a *Assembler) Stats() Stats {
	s := a.stats
	s.OutstandingRequestsHigh = uint64(a.pull.outstandingHigh)
	return s
}

// An announceError is an announcement that contradicts what is known.
type announceError struct {
	RU      int
	Slot    uint32
	MEP     uint64
	Reason  string
	BadSize bool // a size is one that no MFP has
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
// and so every part of the slot is known and waits to be asked for. An *announceError says what is wrong with the
// announcement, which then had no effect; a *SlotTooSmallError that the MEP cannot be built, which leaves the slot to
// abandon.
func (a *Assembler) Announce(m *placing.Announce) (bool, error) {
	if reason := a.checkAnnounce(m); reason != "" {
		a.stats.RefusedAnnouncements++
		return false, &announceError{
			RU:      int(m.RU),
			Slot:    m.Slot,
			MEP:     m.MEP,
			Reason:  reason,
			BadSize: findTooShort(m) >= 0,
		}
	}
	s := &a.slots[m.Slot]
	if s.phase == slotIdle {
		a.beginSizing(int(m.Slot), m.MEP, m.Attempt)
	}
	p := &a.slotParts(int(m.Slot))[m.RU]
	if p.streams == 0 {
		p.streams = int(m.StreamCount)
		s.announcedMFPs += uint32(m.StreamCount)
	}
	p.entries = append(p.entries, m.Entries...)
	a.stats.Announcements++
	if len(p.entries) < p.streams {
		return false, nil
	}
	if s.announcedUnits++; int(s.announcedUnits) < a.rus {
		return false, nil
	}
	return true, a.layOutSlot(int(m.Slot))
}

// checkAnnounce says what is wrong with an announcement; nothing is an empty sentence.
func (a *Assembler) checkAnnounce(m *placing.Announce) string {
	if int(m.RU) >= a.rus {
		return fmt.Sprintf("there are %d readout units", a.rus)
	}
	if int64(m.Slot) >= int64(len(a.slots)) {
		return fmt.Sprintf("there are %d slots", len(a.slots))
	}
	s, known := &a.slots[m.Slot], part{}
	sources := 0
	switch {
	case s.phase == slotIdle:
	case s.phase != slotSizing:
		return fmt.Sprintf("the slot is %s, with MEP %d", s.phase, s.mep)
	case s.mep != m.MEP || s.attempt != m.Attempt:
		return fmt.Sprintf("the slot expects attempt %d of MEP %d", s.attempt, s.mep)
	default:
		known, sources = a.slotParts(int(m.Slot))[m.RU], int(s.announcedMFPs)
	}
	if known.streams == 0 {
		sources += int(m.StreamCount)
	}
	switch n := len(known.entries); {
	case len(m.Entries) == 0:
		return "it has no sizes"
	case a.absent.sources != nil && a.absent.sources[m.RU] != int(m.StreamCount):
		return fmt.Sprintf("it says %d streams, and the readout unit has %d sources", m.StreamCount, a.absent.sources[m.RU])
	case known.streams != 0 && known.streams != int(m.StreamCount):
		return fmt.Sprintf("it says %d streams, and before it was %d", m.StreamCount, known.streams)
	case n != int(m.FirstStream):
		return fmt.Sprintf("it goes on at stream %d, the next is %d of %d", m.FirstStream, n, m.StreamCount)
	case n+len(m.Entries) > int(m.StreamCount):
		return fmt.Sprintf("it has sizes up to stream %d of %d", n+len(m.Entries), m.StreamCount)
	case sources > event.MaxMFPs:
		return fmt.Sprintf("that makes %d MFPs, a MEP holds %d", sources, event.MaxMFPs)
	}
	if i := findTooShort(m); i >= 0 {
		return fmt.Sprintf("an MFP of %d bytes is shorter than its header", m.Entries[i].Size)
	}
	return ""
}

// findTooShort is the first size that no MFP has; less than 0 if there is none.
func findTooShort(m *placing.Announce) int {
	return slices.IndexFunc(m.Entries, func(e placing.Entry) bool { return e.Size < event.MFPFixedSize })
}

// beginSizing makes a free slot wait for the sizes of a MEP.
func (a *Assembler) beginSizing(i int, mep uint64, attempt uint32) {
	a.slots[i] = slot{phase: slotSizing, mep: mep, attempt: attempt}
	a.busySlots++
	for ru, p := range a.slotParts(i) {
		a.slotParts(i)[ru] = part{entries: p.entries[:0]}
		if a.absent.lacksPart(ru, mep) {
			a.announceMissing(i, ru)
		}
	}
}

// layOutSlot computes where each readout unit's MFPs go: behind the header, in order of source id (a prefix sum). The
// sum cannot wrap: 65535 MFPs of 4 GiB are 2^48 bytes.
func (a *Assembler) layOutSlot(i int) error {
	s, parts := &a.slots[i], a.slotParts(i)
	end := event.MEPHeaderSize(int(s.announcedMFPs))
	for ru := range parts {
		p := &parts[ru]
		p.offset = end
		for _, e := range p.entries {
			end += paddedBytes(e.Size)
		}
		p.least, p.most = end-p.offset, end-p.offset
	}
	s.mepBytes = end
	if end > a.slotSize {
		return &SlotTooSmallError{MEP: s.mep, Need: end, Have: a.slotSize}
	}
	s.phase = slotFilling
	a.pull.add(i, s.mep)
	return nil
}

// paddedBytes is the room an MFP takes in a MEP, whose offsets count 32-bit words.
func paddedBytes(size uint32) int { return (int(size) + 3) &^ 3 }

// NextRequest makes the next request: the readout unit is to be granted its part of the slot. False says that nothing
// is to be asked for now.
func (a *Assembler) NextRequest() (slot, ru int, ok bool) { return a.pull.nextRequest() }

// PartRange tells which bytes of a slot are a readout unit's to write.
func (a *Assembler) PartRange(slot, ru int) (offset, size int) {
	p := &a.slotParts(slot)[ru]
	return p.offset, p.most
}

// placedRange tells which bytes of a readout unit are in place.
func (a *Assembler) placedRange(slot, ru int) (offset, size int) {
	return a.slotParts(slot)[ru].offset, int(a.placedBytes[slot*a.rus+ru])
}

// RecordGrant notes the window that a readout unit was given for its part of a slot.
func (a *Assembler) RecordGrant(slot, ru int, ref shmem.Ref) {
	a.windowRefs[slot*a.rus+ru] = ref
	a.stats.WindowsGranted++
}

// appendPreGrants appends the windows of a readout unit in the slots [first, first+n).
func (a *Assembler) appendPreGrants(ru, first, n int, to []placing.Ref) []placing.Ref {
	for slot := first; slot < first+n; slot++ {
		to = append(to, placing.Ref(a.windowRefs[slot*a.rus+ru]))
	}
	return to
}

// discardSlot counts a whole MEP that nobody has time for, and makes its slot free for the next.
func (a *Assembler) discardSlot(i int) {
	if phase := a.slots[i].phase; invariants.Enabled {
		invariants.Check(phase == slotComplete, "slot %d was discarded while %s", i, phase)
	}
	a.stats.DiscardedMEPs++
	a.freeSlot(i)
}

// HoldOutcome notes that an outcome is there to be reported, and returns whether that can wait: until as many slots as
// the group has can be given back together, and only while other MEPs are under way, whose outcomes will come.
func (a *Assembler) HoldOutcome() bool {
	if a.heldOutcomes++; a.heldOutcomes < a.slotsPerRelease && a.busySlots > 0 {
		return true
	}
	a.heldOutcomes = 0
	return false
}

// MEP describes what a slot holds.
type MEP struct {
	MEP     uint64
	Attempt uint32
	Size    int // bytes, header included
}

// SlotMEP describes a slot's MEP. What it says of a whole one stays so until Finish, discard or abandon.
func (a *Assembler) SlotMEP(i int) MEP {
	s := &a.slots[i]
	return MEP{MEP: s.mep, Attempt: s.attempt, Size: s.mepBytes}
}

// A mfpPlace is where one MFP lies in a slot, and what it should look like.
type mfpPlace struct {
	Source    uint16
	RU        uint16 // whose it is, by index
	Offset    int    // from the slot's start, bytes
	Size      int
	CRC       uint32
	Synthetic bool // made here, of missing fragments
}

// appendMFPPlaces appends where each MFP of a slot lies, in order of source id, of those parts whose bytes are all in;
// withPending, where each will lie. Sources are numbered through the readout units. Where windows are pre-granted it is
// the entries in the slot that tell.
func (a *Assembler) appendMFPPlaces(i int, to []mfpPlace, withPending bool) []mfpPlace {
	source := uint16(0)
	for ru, p := range a.slotParts(i) {
		if !withPending && !a.partInPlace(i, ru) {
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
			off += paddedBytes(e.Size)
			source++
		}
	}
	return to
}

// partInPlace tells that all bytes of a part are in. No part is empty.
func (a *Assembler) partInPlace(slot, ru int) bool {
	return int(a.placedBytes[slot*a.rus+ru]) >= a.slotParts(slot)[ru].least
}

// appendMEPRefs appends the windows of a slot that end with its MEP.
func (a *Assembler) appendMEPRefs(i int, to []shmem.Ref) []shmem.Ref {
	if a.isPreGranted {
		return to
	}
	return appendNonZero(to, slotRow(a, a.windowRefs, i))
}

// appendAllRefs appends every window.
func (a *Assembler) appendAllRefs(to []shmem.Ref) []shmem.Ref { return appendNonZero(to, a.windowRefs) }

func appendNonZero(to, refs []shmem.Ref) []shmem.Ref {
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
		if phase := a.slots[i].phase; invariants.Enabled && phase != slotComplete {
			invariants.Check(false, "slot %d finished while %s", i, phase)
		}
		a.freeSlot(int(i))
	}
	a.stats.BuiltMEPs += uint64(len(slots))
	a.stats.PlacedMFPs += mfps
	a.stats.BuiltBytes += bytes
}

// abandonSlot gives up a MEP that will not be whole, or not be written, and makes its slot free. On a free slot it does
// nothing.
func (a *Assembler) abandonSlot(i int) {
	if a.slots[i].phase != slotIdle {
		a.stats.IncompleteMEPs++
		a.freeSlot(i)
	}
}

// withdrawSlots gives up every MEP that is not whole or being decided on, since they are given to others. It calls each
// with the slot before that is free, and returns how many slots hold a MEP still.
func (a *Assembler) withdrawSlots(each func(slot int)) (remaining int) {
	for i := range a.slots {
		switch a.slots[i].phase {
		case slotIdle:
		case slotSizing, slotFilling:
			each(i)
			a.stats.WithdrawnMEPs++
			a.freeSlot(i)
		default:
			remaining++
		}
	}
	a.heldOutcomes = 0
	return remaining
}

func (a *Assembler) freeSlot(i int) {
	s := &a.slots[i]
	s.phase, s.completedParts, s.lacksParts, s.mepBytes = slotIdle, 0, false, 0
	clear(slotRow(a, a.placedBytes, i))
	if !a.isPreGranted {
		a.busySlots--
		a.pull.drop(i)
		clear(slotRow(a, a.windowRefs, i))
	}
}

// AppendUnfinished appends the slots that hold part of a MEP.
func (a *Assembler) AppendUnfinished(to []int) []int {
	for i := range a.slots {
		if a.slots[i].phase != slotIdle {
			to = append(to, i)
		}
	}
	return to
}

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
	part := &a.slotParts(int(slot))[ru]
	switch {
	case !part.fits(p, a.placedBytes[at]):
		return CompletedNothing, badPart
	case attempt == 0:
		return CompletedNothing, noMEP
	}
	if why := a.checkPlacement(s, low, attempt); why != placementAccepted {
		return CompletedNothing, why
	}
	if part.inOneWrite && a.placedBytes[at] != 0 {
		return CompletedNothing, duplicatePart
	}
	if a.placedBytes[at] += p.Length; int(a.placedBytes[at]) < part.least {
		return CompletedNothing, placementAccepted
	}
	return a.completePart(int(slot)), placementAccepted
}

// checkPlacement tells why a slot does not wait for bytes of that attempt at a MEP. A free slot with pre-granted
// windows begins with it.
func (a *Assembler) checkPlacement(s *slot, low uint32, attempt uint8) rejectedPlacement {
	switch {
	case s.phase == slotIdle && a.isPreGranted:
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
	regionComplete := !a.isPreGranted && a.pull.completeRequest(i)
	switch {
	case int(s.completedParts) == a.rus:
		s.phase, s.lacksParts = slotComplete, a.absent.everAbsent && a.hasMissing(i)
		offset, size := a.placedRange(i, a.rus-1)
		s.mepBytes = max(s.mepBytes, offset+size) // where no sizes were announced, only now is it known
		a.newestComplete = max(a.newestComplete, s.mep)
		return CompletedMEP
	case regionComplete:
		s.phase = slotDeciding
		return CompletedRegion
	}
	return CompletedPart
}

// What follows is the Assembler's share in readout units that are gone (absent.go).

// everyMEP is the MEP below which a readout unit lacks all that is not in place, while it is gone.
const everyMEP = math.MaxUint64

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
		case a.isPreGranted:
			a.windowRefs[at] = shmem.Ref{}
			refs = appendNonZero(refs, []shmem.Ref{ref})
			if s.phase != slotFilling || a.partInPlace(i, ru) {
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
	s, p := &a.slots[i], &a.slotParts(i)[ru]
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

// hasMissing tells whether a part of a whole MEP is missing.
func (a *Assembler) hasMissing(slot int) bool {
	for ru := range a.rus {
		if !a.partInPlace(slot, ru) {
			return true
		}
	}
	return false
}

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
	for ru, p := range a.slotParts(i) {
		if a.partInPlace(i, ru) {
			a.stats.RejectedMFPs += uint64(p.streams)
		} else {
			a.stats.UnrequestedMFPs += uint64(p.streams)
			a.stats.UnrequestedParts++
			if !a.absent.lacksPart(ru, a.slots[i].mep) {
				a.stats.SparedBytes += uint64(p.most)
			}
		}
	}
	a.freeSlot(i)
}
