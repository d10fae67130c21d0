package builderunit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/event/selection"
	"ringlet/internal/netyield"
	"ringlet/internal/stopwatch"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// The finisher. A pre-granted window stays open while a MEP is read: a faulty readout unit may go on writing. So
// everything that is parsed or kept is first copied to the scratch and checked there: the bytes that were verified are
// the bytes that are written. In place the finisher only computes CRCs, and reads each field of a header once. A window
// that was granted for one MEP is revoked before.

// How many MEPs are released together at most: a quarter of the slots, so that the scheduler has slots to give out
// again while the rest of a long batch is verified, but not fewer than minBatchMEPs and not more than maxBatchMEPs.
// Over so many MEPs the cost of a batch (two locks, a yield, a message, some 3 µs) does not show.
const (
	minBatchMEPs = 256
	maxBatchMEPs = 1024
)

// batchLimit is how many MEPs are released together at most. A sink that keeps MEPs may hold up the finisher for as
// long as its reader or its disk likes: the outcomes of MEPs that it has must not wait for that.
func (f *finisher) batchLimit() int {
	if f.sinkDiscards {
		return min(maxBatchMEPs, max(minBatchMEPs, f.cfg.Slots.Len()/4))
	}
	return 1
}

// finisher decides on regions and finishes complete MEPs: one goroutine.
type finisher struct {
	*Builder

	verify       verifier
	sinkDiscards bool                // the sink keeps nothing; immutable
	lender       sink.Lender         // the sink, if its readers get MEPs in their slots; immutable
	sinkTime     stopwatch.Stopwatch // in the sink

	spare              []SlotProgress // used in turns with the batch
	slots              []uint32       // of results
	results            []MEPResult
	mfpCount, mfpBytes uint64 // MFPs and their bytes, in results
	refs               []shmem.Ref
	tables             headerTables
	packedMEP          []byte    // a MEP without gaps; nil until it is needed
	remade             [2][]byte // MEPs with parts made here, in turns; nil until needed
	prefetchSum        uint      // never read: keeps the compiler from dropping the reads

	// of the present MEP
	places          []mfpPlace
	missingMFPCount int          // MFPs made here
	badParts        []*DataError // parts whose entries do not fit, with pre-granted windows

	// of the present region
	region       Region
	regionPlaces []mfpPlace
	regionMEP    []byte
}

// run finishes one batch after the other.
func (f *finisher) run() {
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.wakeFinisher:
		}
		f.mu.Lock()
		batch, at := f.completedSlots, f.completedAt
		f.completedSlots, f.spare = f.spare[:0], batch
		f.mu.Unlock()
		for len(batch) > 0 && f.ctx.Err() == nil {
			n := min(len(batch), f.batchLimit())
			f.finisherGate.Lock()
			err := f.finishBatch(batch[:n], at)
			f.finisherGate.Unlock()
			if err != nil {
				f.fail(err)
				return
			}
			if batch = batch[n:]; n > 1 {
				netyield.Yield()
			}
		}
	}
}

// finishBatch finishes MEPs and releases their slots. If one fails, the MEPs before it have their outcome.
func (f *finisher) finishBatch(batch []SlotProgress, at time.Time) error {
	f.slots, f.results, f.mfpCount, f.mfpBytes = f.slots[:0], f.results[:0], 0, 0
	var failed error
	for i, l := range batch {
		if i%prefetchMEPs == 0 && f.asm.isPreGranted && f.verify.depth == VerifyOff {
			f.prefetch(batch[i:min(i+prefetchMEPs, len(batch))])
		}
		if l.Progress == CompletedRegion {
			failed = f.decideRegion(int(l.Slot), at)
		} else {
			failed = f.finishSlot(int(l.Slot), at)
		}
		if failed != nil {
			break
		}
	}
	if len(f.slots) == 0 {
		return failed
	}
	return errors.Join(failed, f.releaseBatch())
}

// prefetchMEPs is how many MEPs prefetch reads before the finisher finishes the first of them. The entries at the
// beginning of each part of a MEP are in another core's cache. A processor waits for the entries of sixteen MEPs hardly
// longer than for those of one: 65 ns per MEP became 40 (quic, 2 readout units, 128 B, 2-core VM, 2026-11-21). A
// finisher that verifies does not prefetch, since it would gain nothing: its reading of one MEP brings in the next.
const prefetchMEPs = 16

// prefetch brings the entries of MEPs into this core's cache.
func (f *finisher) prefetch(batch []SlotProgress) {
	for _, l := range batch {
		memory := f.cfg.Slots.Bytes(int(l.Slot))
		for ru := range f.asm.parts {
			f.prefetchSum += uint(memory[f.asm.parts[ru].offset])
		}
	}
}

// releaseBatch frees slots and reports their MEPs to the scheduler.
func (f *finisher) releaseBatch() error {
	if f.keepsSlotsOffered() {
		if err := f.cfg.Slots.Recycle(f.slots); err != nil {
			return err
		}
	}
	f.mu.Lock()
	f.asm.Finish(f.slots, f.mfpCount, f.mfpBytes)
	f.waitingMEPs -= len(f.slots)
	f.mu.Unlock()
	return f.reportWhenSafe(f.results)
}

// revoke revokes the windows that were granted for a MEP.
func (b *Builder) revoke(mep uint64, refs []shmem.Ref) error {
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return fmt.Errorf("MEP %d: %w", mep, err)
		}
	}
	return nil
}

// sealSlot closes a slot to the network and returns the MEP, or its region, in it. In a complete MEP it makes the parts
// that are missing.
func (f *finisher) sealSlot(slot int, complete bool) (MEP, []byte, error) {
	f.missingMFPCount, f.badParts = 0, f.badParts[:0]
	var mep MEP
	var missing bool
	if f.asm.isPreGranted {
		mep, missing = f.asm.SlotMEP(slot), f.asm.slots[slot].lacksParts
		f.parseEntries(slot, mep.MEP, f.cfg.Slots.Bytes(slot))
	} else {
		f.mu.Lock()
		mep, missing = f.asm.SlotMEP(slot), complete && f.asm.slots[slot].lacksParts
		f.places = f.asm.appendMFPPlaces(slot, f.places[:0], missing)
		f.refs = f.asm.appendMEPRefs(slot, f.refs[:0])
		f.mu.Unlock()
		if err := f.revoke(mep.MEP, f.refs); err != nil {
			return mep, nil, err
		}
	}
	memory := f.cfg.Slots.Bytes(slot)[:mep.Size]
	for _, bad := range f.badParts {
		if !f.tolerates(bad) {
			return mep, nil, bad
		}
	}
	if !missing && len(f.badParts) == 0 {
		return mep, memory, nil
	}
	memory, err := f.replaceParts(slot, mep.MEP, memory, func(ru int) bool {
		return missing && !f.asm.partInPlace(slot, ru) ||
			slices.ContainsFunc(f.badParts, func(bad *DataError) bool { return bad.RU == ru })
	})
	if err != nil && len(f.badParts) > 0 {
		err = f.badParts[0] // without that part nothing is left
	}
	return mep, memory, err
}

// finishSlot checks a complete MEP, writes its header and hands it to the sink.
func (f *finisher) finishSlot(slot int, at time.Time) error {
	mep, memory, err := f.sealSlot(slot, true)
	if err != nil {
		return err
	}
	read, looked := memory, f.cfg.Tap.HasViewers()
	shown := looked && f.cfg.Tap.IsDue(at)
	switch {
	case f.missingMFPCount > 0: // replaceParts has made it without gaps, with a header
	case f.asm.isPreGranted && (f.needsCopy() || shown):
		if err = f.tables.writeHeader(memory, f.places); err == nil {
			read, err = f.pack(memory)
		}
	default:
		err = f.tables.writeHeader(memory, f.places)
	}
	if err != nil {
		return fmt.Errorf("header of MEP %d: %w", mep.MEP, err)
	}
	sound, first, events, err := f.checkTolerantly(slot, mep.MEP, read)
	if err != nil {
		return err
	}
	if read = sound; f.missingMFPCount > 0 {
		memory = sound
	}
	meta := sink.Meta{
		Run:         f.cfg.Run,
		MEP:         mep.MEP,
		FirstEvent:  first,
		Events:      events,
		Attempt:     mep.Attempt,
		CompletedAt: at,
	}
	if f.verdictsBySlot != nil {
		meta.Verdicts = f.verdictsBySlot[slot]
	}
	if looked {
		f.offerToTap(shown, at, meta, read)
	}
	if f.keepsSlotsOffered() {
		err = f.cfg.Sink.Write(f.ctx, meta, memory)
	} else {
		err = f.handToSink(slot, meta, read)
	}
	if err != nil {
		return f.attributeSinkError(&meta, read, err)
	}
	f.recordBuilt(slot, &meta)
	return nil
}

// checkMEP verifies a MEP as configured, and returns its events, read from the first part that was not made here: the
// made parts have their events from such a part.
func (f *finisher) checkMEP(mep uint64, read []byte) (from uint64, events int, err error) {
	if err := f.verify.check(mep, read, f.places); err != nil {
		return 0, 0, err
	}
	first := &f.places[max(0, slices.IndexFunc(f.places, func(p mfpPlace) bool { return !p.Synthetic }))]
	from, events, err = event.MFPEvents(first.bytesIn(read))
	if want := mep * uint64(f.cfg.Packing); err == nil && f.cfg.Packing > 0 && from != want {
		err = fmt.Errorf("the MFP has events from %d, the MEP from %d", from, want)
	}
	if err != nil {
		return 0, 0, first.dataError(mep, err)
	}
	return from, events, nil
}

// recordBuilt notes that the sink has a MEP.
func (f *finisher) recordBuilt(slot int, meta *sink.Meta) {
	f.slots = append(f.slots, uint32(slot))
	f.results = append(f.results, MEPResult{})
	r := &f.results[len(f.results)-1]
	r.Slot, r.MEP, r.Attempt, r.Outcome = uint32(slot), meta.MEP, uint8(meta.Attempt), core.Built
	r.Events, r.FirstEvent, r.CompletedAt = uint32(meta.Events), meta.FirstEvent, meta.CompletedAt
	r.PartsMissing = f.missingMFPCount > 0
	f.mfpCount += uint64(len(f.places) - f.missingMFPCount)
	for i := range f.places {
		f.mfpBytes += uint64(f.places[i].Size)
	}
}

// keepsSlotsOffered tells that slots stay offered while parts come, and are recycled when their MEPs are finished: with
// pre-granted windows, and a sink that keeps nothing.
func (f *finisher) keepsSlotsOffered() bool { return f.sinkDiscards && f.asm.isPreGranted }

// needsCopy tells that MEPs in pre-granted windows are copied to the scratch: to be kept, or to be parsed.
func (f *finisher) needsCopy() bool { return !f.sinkDiscards || f.verify.parsesContent() }

// handToSink hands a MEP to the sink, and frees the slot.
func (f *finisher) handToSink(slot int, meta sink.Meta, read []byte) error {
	slots := f.cfg.Slots
	if f.asm.isPreGranted {
		if err := slots.Fill(slot); err != nil {
			return err
		}
	}
	if err := slots.Build(slot); err != nil {
		return err
	}
	if err := f.writeToSink(slot, meta, read); err != nil {
		return err
	}
	return errors.Join(slots.Free(slot), slots.Offer(slot))
}

// writeToSink hands a MEP to the sink, and counts the time. For a sink that keeps nothing, reading the clock twice
// would cost too much.
func (f *finisher) writeToSink(slot int, meta sink.Meta, memory []byte) error {
	if !f.sinkDiscards {
		f.sinkTime.Start()
		defer f.sinkTime.Stop()
	}
	if f.lender != nil {
		return f.lender.Lend(f.ctx, meta, slot, memory)
	}
	return f.cfg.Sink.Write(f.ctx, meta, memory)
}

// reportResultsLocked reports MEPs whose slots are free to the scheduler. It decides only now which results are held:
// results reported meanwhile may have been the last that were under way. reportMu is held.
func (b *Builder) reportResultsLocked(results []MEPResult) error {
	b.mu.Lock()
	for i := range results {
		results[i].ReportHeld = b.asm.HoldOutcome()
	}
	b.mu.Unlock()
	return b.cfg.OnResults(results)
}

// parseEntries reads the entries before each part. It notes parts whose entries do not fit in f.badParts; the places of
// their MFPs, and those of missing parts, are empty.
func (f *finisher) parseEntries(slot int, mep uint64, memory []byte) {
	f.places = f.places[:0]
	for ru := range f.asm.parts {
		first := len(f.places)
		off, length := f.asm.placedRange(slot, ru)
		if length > 0 {
			bad := f.parsePartEntries(ru, memory[off:off+length], off)
			if bad == nil {
				continue
			}
			bad.RU, bad.MEP = ru, mep
			f.badParts, f.places = append(f.badParts, bad), f.places[:first]
		}
		for i := range f.asm.parts[ru].streams {
			f.places = append(f.places, mfpPlace{Source: uint16(first + i), RU: uint16(ru)})
		}
	}
}

// parsePartEntries reads the entries at the beginning of one part. The part lies at offset off of the slot.
func (f *finisher) parsePartEntries(ru int, part []byte, off int) *DataError {
	sources := f.asm.parts[ru].streams
	at := sources * placing.EntrySize
	for i := range sources {
		source := uint16(len(f.places))
		e := placing.ReadEntry(part, i)
		if e.Size < event.MFPFixedSize || int64(e.Size) > int64(len(part)-at) {
			return &DataError{Source: source, Reason: fmt.Sprintf(
				"its size is told as %d bytes, and %d are left of the part of readout unit %d", e.Size, len(part)-at, ru)}
		}
		f.places = append(f.places, mfpPlace{Source: source, RU: uint16(ru), Offset: off + at, Size: int(e.Size), CRC: e.CRC})
		at += paddedBytes(e.Size)
	}
	if at != len(part) {
		return &DataError{Source: uint16(len(f.places) - 1), Reason: fmt.Sprintf(
			"the sizes of readout unit %d's part add up to %d bytes, but it has %d", ru, at, len(part))}
	}
	return nil
}

// pack copies a MEP without its gaps to the scratch, and moves f.places there.
func (f *finisher) pack(memory []byte) ([]byte, error) {
	if f.packedMEP == nil { // a unit that copies only for viewers makes it when the first viewer comes
		f.packedMEP = make([]byte, f.cfg.Layout.Size())
	}
	return f.tables.layOut(f.packedMEP, memory, f.places, 0, 0)
}

// layOut copies a MEP without gaps to dst, moves the places there, and writes a header. Synthetic places get MFPs of n
// missing fragments, from event first on. It reads each byte of a part once, and makes the padding, which no CRC
// covers, anew.
func (t *headerTables) layOut(dst, memory []byte, places []mfpPlace, first uint64, n int) ([]byte, error) {
	at := event.MEPHeaderSize(len(places))
	for i := range places {
		p := &places[i]
		if p.Synthetic {
			p.Size = event.MFPHeaderSize(n)
		}
		end := at + paddedBytes(uint32(p.Size))
		if end > len(dst) {
			return nil, errNoSpace
		}
		if p.Synthetic {
			event.PutMissingMFP(dst[at:], p.Source, first, n)
		} else {
			copy(dst[at:], p.bytesIn(memory))
		}
		clear(dst[at+p.Size : end])
		p.Offset, at = at, end
	}
	return dst[:at], t.writeHeader(dst[:at], places)
}

var errNoSpace = errors.New("with its missing parts filled in, the MEP does not fit the slot")

// headerTables are the finisher's scratch for MEP headers.
type headerTables struct {
	sources []uint16
	offsets []uint32
}

func (t *headerTables) writeHeader(memory []byte, places []mfpPlace) error {
	t.sources, t.offsets = t.sources[:0], t.offsets[:0]
	for _, p := range places {
		t.sources = append(t.sources, p.Source)
		t.offsets = append(t.offsets, uint32(p.Offset/event.MEPWordBytes))
	}
	words, err := event.MEPWords(len(memory))
	if err == nil {
		_, err = event.PutMEPHeader(memory, t.sources, t.offsets, words)
	}
	return err
}

// offerToTap offers a built MEP to the viewers, if one of them is due. It is called before the sink has the MEP:
// afterwards the slot may have another owner.
func (f *finisher) offerToTap(due bool, at time.Time, m sink.Meta, read []byte) {
	if !due {
		f.cfg.Tap.Skip(m.Events)
		return
	}
	f.cfg.Tap.Offer(at, selection.Meta{Run: m.Run, MEP: m.MEP, Attempt: m.Attempt}, read)
}
