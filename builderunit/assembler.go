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

// Assembler is the pure core of a builder unit: it follows each slot until the last byte of a MEP is in place. It does
// no I/O and takes no locks; its owner calls it under a lock, for many placements at a time.
//
// Windows are granted for each MEP, when all readout units have announced its sizes and the slot can be laid out. Or
// they are pre-granted, once for all MEPs, where a Layout gives each readout unit a window in every slot: then readout
// units announce nothing, a part comes in one write, and the first part for a free slot decides which MEP the slot
// holds.
type Assembler struct {
	// immutable after makeAssembler
	rus             int
	slotSize        int
	isPreGranted    bool // windows are granted once, for all MEPs
	partsPerSlot    int  // rus, or 0 if all slots are laid out alike and share their parts
	slotsPerRelease int  // outcomes that are reported together

	slots          []slot
	windowRefs     []shmem.Ref // windows, at slot·rus+ru; zero: none
	placedBytes    []uint32    // bytes in place, at slot·rus+ru
	parts          []part      // where each readout unit's bytes go, by slot
	pull           puller
	newestComplete uint64 // highest MEP that was complete
	busySlots      int    // slots with a MEP, where windows are granted for each MEP
	heldOutcomes   int    // outcomes that are not reported yet
	absent         absentUnits
	stats          Stats
}

type slotPhase uint8

const (
	slotIdle      slotPhase = iota // nothing announced
	slotSizing                     // some readout units have announced their sizes
	slotFilling                    // windows are granted, or wait for request credit
	slotDeciding                   // the region of interest is in place and waits for a decision
	slotRejecting                  // the region was rejected, and the rejection is not reported yet
	slotComplete                   // every byte is in place
)

func (p slotPhase) String() string {
	return [...]string{"free", "waiting for sizes", "being filled", "waiting for a decision", "rejected", "complete"}[p]
}

// slot keeps the MEP and the attempt of its last use when it is idle. Attempts count from 1, so attempt 0 is a slot
// that never held a MEP.
type slot struct {
	mep            uint64
	mepBytes       int // bytes of the MEP, once laid out
	attempt        uint32
	announcedMFPs  uint32 // MFPs of all readout units that have announced
	announcedUnits uint16 // readout units that have announced all their sizes
	completedParts uint16 // readout units whose bytes are all in place
	phase          slotPhase
	lacksParts     bool // it is complete without parts that are missing
}

// part is one readout unit's share of a slot: its place, and how many bytes it may have. With announced sizes least and
// most are equal, and the bytes come in any pieces. A part that brings its entries along has bounds, and comes in one
// write.
type part struct {
	streams     int
	entries     []placing.Entry // as announced; none for a part that brings its entries along
	offset      int             // from the slot's start, bytes
	least, most int             // bytes
	inOneWrite  bool
}

// fits tells that a write can be the part, or a piece that it still lacks.
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

// NewAssembler makes the core of a builder unit that has the given number of slots, each of slotSize bytes. The builder
// unit requests parts from rus readout units, by the rules of p.
func NewAssembler(rus, slots, slotSize int, p Pull) *Assembler {
	a := newAssembler(rus, slots)
	a.slotSize, a.slotsPerRelease, a.pull = slotSize, p.SlotsPerRelease, newPuller(p, rus, slots)
	a.partsPerSlot, a.parts = rus, make([]part, slots*rus)
	return a
}

// newPreGrantedAssembler makes the core of a builder unit with pre-granted windows, whose slots are laid out by l.
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

// slotRow is the part of a table, kept by slot and readout unit, that belongs to a slot.
func slotRow[T any](a *Assembler, table []T, slot int) []T { return table[slot*a.rus : (slot+1)*a.rus] }

// Stats returns a copy of the counters.
func (a *Assembler) Stats() Stats {
	s := a.stats
	s.OutstandingRequestsHigh = uint64(a.pull.outstandingHigh)
	return s
}

// An announceError is an announcement that contradicts the state of the slot.
type announceError struct {
	RU      int
	Slot    uint32
	MEP     uint64
	Reason  string
	BadSize bool // a size is shorter than an MFP can be
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

// Announce notes the sizes that a readout unit has for one MEP. It returns true when all readout units have announced:
// the slot is laid out, and its parts wait to be requested. An *announceError says what is wrong with the announcement,
// which then had no effect. A *SlotTooSmallError says that the MEP cannot be built; its slot is then to be abandoned.
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

// checkAnnounce returns what is wrong with an announcement; empty if nothing is.
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

// findTooShort is the index of the first size shorter than an MFP; negative if there is none.
func findTooShort(m *placing.Announce) int {
	return slices.IndexFunc(m.Entries, func(e placing.Entry) bool { return e.Size < event.MFPFixedSize })
}

// beginSizing gives a free slot to a MEP, whose sizes it then waits for.
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

// paddedBytes is the space that an MFP takes in a MEP, whose offsets count 32-bit words.
func paddedBytes(size uint32) int { return (int(size) + 3) &^ 3 }

// NextRequest returns the next request: the readout unit to grant a window in the slot. ok is false if no part may be
// requested now.
func (a *Assembler) NextRequest() (slot, ru int, ok bool) { return a.pull.nextRequest() }

// PartRange is the range of bytes in a slot that a readout unit may write.
func (a *Assembler) PartRange(slot, ru int) (offset, size int) {
	p := &a.slotParts(slot)[ru]
	return p.offset, p.most
}

// placedRange is the range of a readout unit's bytes that are in place.
func (a *Assembler) placedRange(slot, ru int) (offset, size int) {
	return a.slotParts(slot)[ru].offset, int(a.placedBytes[slot*a.rus+ru])
}

// RecordGrant notes the window that was granted to a readout unit in a slot.
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

// hasPreGrants tells that a readout unit has its windows; one that is gone has none.
func (a *Assembler) hasPreGrants(ru int) bool { return a.windowRefs[ru] != shmem.Ref{} }

// discardSlot counts a complete MEP that the sink has no time for, and frees its slot.
func (a *Assembler) discardSlot(i int) {
	if phase := a.slots[i].phase; invariants.Enabled {
		invariants.Check(phase == slotComplete, "slot %d was discarded while %s", i, phase)
	}
	a.stats.DiscardedMEPs++
	a.freeSlot(i)
}

// HoldOutcome counts an outcome that is ready, and tells whether it may wait: until slotsPerRelease slots are freed
// together, and only while other MEPs are under way, whose outcomes will come.
func (a *Assembler) HoldOutcome() bool {
	if a.heldOutcomes++; a.heldOutcomes < a.slotsPerRelease && a.busySlots > 0 {
		return true
	}
	a.heldOutcomes = 0
	return false
}

// MEP describes the MEP in a slot.
type MEP struct {
	MEP     uint64
	Attempt uint32
	Size    int // bytes, header included
}

// SlotMEP describes the MEP in a slot. For a complete MEP it does not change until Finish, discardSlot or abandonSlot.
func (a *Assembler) SlotMEP(i int) MEP {
	s := &a.slots[i]
	return MEP{MEP: s.mep, Attempt: s.attempt, Size: s.mepBytes}
}

// A mfpPlace is the place of one MFP in a slot, with its size and checksum.
type mfpPlace struct {
	Source    uint16
	RU        uint16 // index of its readout unit
	Offset    int    // from the slot's start, bytes
	Size      int
	CRC       uint32
	Synthetic bool // made here, of missing fragments
}

// appendMFPPlaces appends the place of each MFP of a slot, in order of source id: of the parts whose bytes are all in
// place, or withPending of all parts. Source ids go through the readout units in order. With pre-granted windows the
// slot's entries give the places instead.
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

// partInPlace tells that all bytes of a part are in place. No part is empty.
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

// Finish counts complete MEPs, with mfps MFPs and bytes bytes in all, and frees their slots.
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

// abandonSlot gives up a MEP that will not be complete, or not be written, and frees its slot. A free slot does not
// change.
func (a *Assembler) abandonSlot(i int) {
	if a.slots[i].phase != slotIdle {
		a.stats.IncompleteMEPs++
		a.freeSlot(i)
	}
}

// withdrawSlots gives up every MEP that is not complete or being decided on, since the scheduler gives these MEPs to
// other builder units. It calls each with a slot before it frees the slot, and returns how many slots still hold a MEP.
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

// withdrawInvalid gives up every MEP that waits for parts and has no valid token; isValid says which have one. It calls
// each with a slot before it frees the slot.
func (a *Assembler) withdrawInvalid(isValid func(slot int, m MEP) bool, each func(slot int)) {
	for i := range a.slots {
		if p := a.slots[i].phase; (p == slotSizing || p == slotFilling) && !isValid(i, a.SlotMEP(i)) {
			each(i)
			a.stats.WithdrawnMEPs++
			a.freeSlot(i)
		}
	}
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

// AppendUnfinished appends the slots that hold a MEP or a part of one.
func (a *Assembler) AppendUnfinished(to []int) []int {
	for i := range a.slots {
		if a.slots[i].phase != slotIdle {
			to = append(to, i)
		}
	}
	return to
}

// A rejectedPlacement is why a placement was rejected.
type rejectedPlacement uint8

// The reasons, in the order in which applyPlacement checks them.
const (
	placementAccepted rejectedPlacement = iota
	noSlot                              // there is no slot of this number
	otherWindow                         // the bytes are not in the unit's window in the slot that the write names
	badPart                             // the bytes cannot be a part
	noMEP                               // the write names a MEP before the first, or attempt 0
	builtBefore                         // the slot is free, and last held the MEP, at this attempt or a later one
	otherMEP                            // the slot holds another MEP
	oldAttempt                          // the slot holds a later attempt at the MEP
	newAttempt                          // the slot holds an earlier attempt at the MEP, without outcome yet
	duplicatePart                       // the part is in place already
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

// The kinds of progress.
const (
	CompletedNothing Progress = iota // not even a part
	CompletedPart                    // a part: another may be requested
	CompletedRegion                  // the region of interest: Accept or Reject must follow
	CompletedMEP                     // the MEP
)

// SlotProgress is a slot in which the region of interest or the whole MEP is in place.
type SlotProgress struct {
	Slot     uint32
	Progress Progress // CompletedRegion or CompletedMEP
}

// ApplyPlacements notes that bytes of a readout unit are in place, and appends the slots in which they complete a
// region or a MEP. A placement that contradicts the state of its slot is counted by reason and changes nothing. Bytes
// are counted, not marked: if a peer writes some bytes twice and others never, VerifyCRC finds it.
func (a *Assembler) ApplyPlacements(ru int, ps []transport.Placement, to []SlotProgress) []SlotProgress {
	for i := range ps {
		mep, attempt, slot := placing.ParseImmediate(ps[i].Imm)
		progress, why := a.applyPlacement(ru, &ps[i], mep, attempt, slot)
		if why == otherWindow && a.absent.everAbsent && a.absent.lacksBelow[ru] > 0 {
			a.stats.LateParts++ // into a window that was revoked when the unit was gone
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

// applyPlacement applies one placement, or says why it is rejected.
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

// checkPlacement says why a slot does not wait for bytes of that attempt at a MEP. A free slot with pre-granted windows
// accepts the MEP.
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

// beginFilling gives a free slot to the MEP of the first part that comes for it. The part brings the low half of the
// MEP's number; of the numbers with that half, the MEP is the one nearest to the newest complete MEP: thousands of MEPs
// are in flight, never 2^31. Only a MEP on which all readout units agreed moves newestComplete, so a single faulty unit
// cannot mislead the others.
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

// completePart counts a part that is in place or missing, and returns what that completes.
func (a *Assembler) completePart(i int) Progress {
	s := &a.slots[i]
	s.completedParts++
	a.stats.PartsInPlace++
	regionComplete := !a.isPreGranted && a.pull.completeRequest(i)
	switch {
	case int(s.completedParts) == a.rus:
		s.phase, s.lacksParts = slotComplete, a.absent.everAbsent && a.hasMissing(i)
		offset, size := a.placedRange(i, a.rus-1)
		s.mepBytes = max(s.mepBytes, offset+size) // without announced sizes the size is known only now
		a.newestComplete = max(a.newestComplete, s.mep)
		return CompletedMEP
	case regionComplete:
		s.phase = slotDeciding
		return CompletedRegion
	}
	return CompletedPart
}

// The Assembler's part in readout units that are gone (absent.go).

// everyMEP stands in lacksBelow while a readout unit is gone: it lacks all that is not in place.
const everyMEP = math.MaxUint64

// absentUnits is what an Assembler knows of readout units that are gone, or were.
type absentUnits struct {
	lacksBelow     []uint64 // by readout unit: its part of a MEP below this number will not come, unless it is in place
	everAbsent     bool     // a unit was gone at some time
	sources        []int    // by readout unit; nil: not known
	missingMFPSize uint32   // largest size of an MFP that stands in for missing fragments, bytes
}

// lacksPart tells that a part of a MEP will not come, unless it is in place.
func (u *absentUnits) lacksPart(ru int, mep uint64) bool {
	return u.everAbsent && mep < u.lacksBelow[ru]
}

// countLackingRUs returns how many readout units will not send their part of a MEP. No part of the MEP may be in place
// yet.
func (u *absentUnits) countLackingRUs(mep uint64) (n uint16) {
	for ru := range u.lacksBelow {
		if u.lacksPart(ru, mep) {
			n++
		}
	}
	return n
}

// markRUGone notes that a readout unit is gone. It appends the windows to revoke and, if goesOn, the slots in which
// that completes a region or a MEP.
func (a *Assembler) markRUGone(ru int, goesOn bool, to []SlotProgress, refs []shmem.Ref) ([]SlotProgress, []shmem.Ref) {
	if a.absent.lacksBelow[ru] == everyMEP {
		return to, refs
	}
	countedBelow := a.absent.lacksBelow[ru] // below, its parts have counted as missing since an earlier loss
	a.absent.everAbsent, a.absent.lacksBelow[ru] = true, everyMEP
	for i := range a.slots {
		s, at := &a.slots[i], i*a.rus+ru
		ref := a.windowRefs[at]
		switch {
		case a.isPreGranted:
			a.windowRefs[at] = shmem.Ref{}
			refs = appendNonZero(refs, []shmem.Ref{ref})
			if s.phase != slotFilling || a.partInPlace(i, ru) || s.mep < countedBelow {
				continue
			}
		case s.phase == slotSizing:
			if goesOn {
				a.announceMissing(i, ru)
			}
			continue
		case s.phase != slotFilling || ref == shmem.Ref{} || a.partInPlace(i, ru):
			continue // its part is not requested yet: see requestPartsLocked
		default:
			a.windowRefs[at] = shmem.Ref{}
			refs = appendNonZero(refs, []shmem.Ref{ref})
		}
		if goesOn {
			to = a.skipMissingPart(i, to)
		}
	}
	return to, refs
}

// skipMissingPart counts a part of a MEP as missing, and appends the slot if that completes a region or the MEP.
func (a *Assembler) skipMissingPart(i int, to []SlotProgress) []SlotProgress {
	progress := a.completePart(i)
	a.stats.PartsInPlace-- // completePart has counted the missing part as one
	if progress >= CompletedRegion {
		to = append(to, SlotProgress{uint32(i), progress})
	}
	return to
}

// announceMissing announces parts without data for a readout unit that has not announced its own.
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

// appendSizedSlots appends the slots whose sizes are all known, and which are to be laid out.
func (a *Assembler) appendSizedSlots(to []int) []int {
	for i := range a.slots {
		if s := &a.slots[i]; s.phase == slotSizing && int(s.announcedUnits) == a.rus {
			to = append(to, i)
		}
	}
	return to
}

// hasMissing tells whether a part of a complete MEP is missing.
func (a *Assembler) hasMissing(slot int) bool {
	for ru := range a.rus {
		if !a.partInPlace(slot, ru) {
			if invariants.Enabled {
				mep := a.slots[slot].mep
				invariants.Check(a.absent.lacksPart(ru, mep), "MEP %d is complete without readout unit %d, which is there", mep, ru)
			}
			return true
		}
	}
	return false
}

// The Assembler's part in regions of interest: a MEP whose region is in place waits for Accept or Reject.

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

// Accept decides for a slot whose region of interest is in place: its other parts are requested. The windows of the
// region must be revoked before.
func (a *Assembler) Accept(i int) {
	s := &a.slots[i]
	if invariants.Enabled {
		invariants.Check(s.phase == slotDeciding, "slot %d was accepted while %s", i, s.phase)
	}
	s.phase = slotFilling
	clear(slotRow(a, a.windowRefs, i))
	a.pull.enqueue(i, s.mep)
}

// Reject counts a MEP whose region was rejected, and frees its slot.
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
