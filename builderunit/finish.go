package builderunit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/internal/netyield"
	"ringlet/shmem"
)

// What follows is the finisher's. A window that is granted once, for all MEPs, stays open while a MEP is read: a
// readout unit that is not correct may go on writing. So what is parsed, and what is kept, is checked in the scratch,
// after the copy: what was verified is what is written. In place nothing is read but for a CRC, and headers whose every
// field is read once. A window that was granted for one MEP is revoked before.

// How many MEPs are released together at most: a quarter of the slots, so that the scheduler has slots to give out
// again while the rest of a long batch is verified, but not fewer than minBatchMEPs and not more than maxBatchMEPs.
// What a batch costs (two locks, a yield, a message, 3 µs or so) is lost among so many.
const (
	minBatchMEPs = 256
	maxBatchMEPs = 1024
)

// batchLimit is how many MEPs are released together at most. A sink that keeps MEPs may hold the finisher up for as
// long as its reader or its disk likes; the outcome of a MEP that it has taken does not wait for that.
func (b *Builder) batchLimit() int {
	if b.sinkDiscards {
		return min(maxBatchMEPs, max(minBatchMEPs, b.cfg.Slots.Len()/4))
	}
	return 1
}

// finisherScratch is the finisher's scratch.
type finisherScratch struct {
	spare              []SlotProgress // taken in turns with batch
	places             []mfpPlace
	refs               []shmem.Ref
	mfps               [][]byte
	tables             headerTables
	packedMEP          []byte
	slots              []uint32 // of results
	results            []MEPResult
	mfpCount, mfpBytes uint64 // MFPs and their bytes, in results
	pendingRegion      Region // that is being handed to Decide
	allPlaces          []mfpPlace
	regionMEP          []byte // a Region as a MEP
	prefetchSum        uint   // means nothing: it makes prefetch look

	// of the MEP in hand, if it is marked
	missingUnits    []bool       // by readout unit: its part was made here
	missingMFPCount int          // MFPs that were
	badParts        []*DataError // parts whose entries do not fit, where windows are pre-granted
}

// runFinisher decides on MEPs and completes them, a batch after the other.
func (b *Builder) runFinisher() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wakeFinisher:
		}
		b.mu.Lock()
		batch, at := b.completedSlots, b.completedAt
		b.completedSlots, b.scratch.spare = b.scratch.spare[:0], batch
		b.mu.Unlock()
		for len(batch) > 0 && b.ctx.Err() == nil {
			n := min(len(batch), b.batchLimit())
			b.finisherGate.Lock()
			err := b.finishBatch(batch[:n], at)
			b.finisherGate.Unlock()
			if err != nil {
				b.fail(err)
				return
			}
			if batch = batch[n:]; n > 1 {
				netyield.Yield()
			}
		}
	}
}

// finishBatch finishes MEPs and releases their slots. Those before one that fails have their outcome.
func (b *Builder) finishBatch(batch []SlotProgress, at time.Time) error {
	f := &b.scratch
	f.slots, f.results, f.mfpCount, f.mfpBytes = f.slots[:0], f.results[:0], 0, 0
	var failed error
	for i, l := range batch {
		if i%prefetchMEPs == 0 && b.asm.isPreGranted() && b.verify.depth == VerifyOff {
			b.prefetch(batch[i:min(i+prefetchMEPs, len(batch))])
		}
		if l.Progress == CompletedRegion {
			failed = b.decideRegion(int(l.Slot), at)
		} else {
			failed = b.finishSlot(int(l.Slot), at)
		}
		if failed != nil {
			break
		}
	}
	if len(f.slots) == 0 {
		return failed
	}
	return errors.Join(failed, b.releaseBatch())
}

// prefetchMEPs is how many MEPs are looked at before the first of them is finished. Their entries are in another core's
// cache, and a processor waits for sixteen of them hardly longer than for one: 65 ns per MEP became 40 (quic, 2
// readout units, 128 B, 2-core VM, 2026-11-21). Where MEPs are verified nothing is gained: reading one brings in the
// next.
const prefetchMEPs = 16

// prefetch brings what is needed of MEPs into this core's cache.
func (b *Builder) prefetch(batch []SlotProgress) {
	for _, l := range batch {
		memory := b.cfg.Slots.Bytes(int(l.Slot))
		for ru := range b.asm.preGrantedWindows {
			b.scratch.prefetchSum += uint(memory[b.asm.preGrantedWindows[ru].offset])
		}
	}
}

// releaseBatch gives slots back and reports to the scheduler what was finished.
func (b *Builder) releaseBatch() error {
	f := &b.scratch
	if b.keepsSlotsOffered() {
		if err := b.cfg.Slots.Recycle(f.slots); err != nil {
			return err
		}
	}
	b.mu.Lock()
	b.asm.Finish(f.slots, f.mfpCount, f.mfpBytes)
	b.sinkQueue.release(len(f.slots))
	b.mu.Unlock()
	return b.reportWhenSafe(f.results)
}

// sealSlot closes to the network what is in place of a slot, and returns what lies there.
func (b *Builder) sealSlot(slot int) (MEP, []byte, error) {
	f := &b.scratch
	f.missingMFPCount, f.badParts = 0, f.badParts[:0]
	if b.asm.isPreGranted() {
		mep := b.asm.SlotMEP(slot)
		if b.asm.lacksParts(slot) {
			if err := b.fillMissing(slot, &mep, b.cfg.Slots.Bytes(slot)); err != nil {
				return mep, nil, err
			}
		}
		memory := b.cfg.Slots.Bytes(slot)[:mep.Size]
		b.parseEntries(slot, mep.MEP, memory)
		var err error
		for _, bad := range f.badParts {
			if memory, err = b.replaceBadPart(slot, mep.MEP, memory, bad); err != nil {
				break
			}
		}
		return mep, memory, err
	}
	b.mu.Lock()
	mep, marked := b.asm.SlotMEP(slot), b.asm.lacksParts(slot)
	f.places, f.refs = b.asm.appendPlacedMFPs(slot, f.places[:0]), b.asm.appendMEPRefs(slot, f.refs[:0])
	b.mu.Unlock()
	if err := b.revoke(mep.MEP, f.refs); err != nil || !marked {
		return mep, b.cfg.Slots.Bytes(slot)[:mep.Size], err
	}
	err := b.fillMissing(slot, &mep, b.cfg.Slots.Bytes(slot))
	return mep, b.cfg.Slots.Bytes(slot)[:mep.Size], err
}

// revoke ends what was granted for a MEP.
func (b *Builder) revoke(mep uint64, refs []shmem.Ref) error {
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return fmt.Errorf("MEP %d: %w", mep, err)
		}
	}
	return nil
}

// finishSlot checks a whole MEP, writes its header and hands it to the sink.
func (b *Builder) finishSlot(slot int, at time.Time) error {
	f := &b.scratch
	mep, memory, err := b.sealSlot(slot)
	if err != nil {
		return err
	}
	read, looked := memory, b.cfg.Tap.HasViewers()
	shown := looked && b.cfg.Tap.IsDue(at)
	if err = f.tables.writeHeader(memory, f.places); err == nil && b.asm.isPreGranted() && (b.needsCopy() || shown) {
		b.ensureScratch()
		read, err = f.pack(memory)
	}
	if err != nil {
		return fmt.Errorf("header of MEP %d: %w", mep.MEP, err)
	}
	sound, first, events, err := b.checkTolerantly(slot, mep.MEP, read)
	if err != nil {
		return err
	}
	if read = sound; f.missingMFPCount > 0 {
		memory = sound
	}
	meta := sink.Meta{
		Run:         b.cfg.Run,
		MEP:         mep.MEP,
		FirstEvent:  first,
		Events:      events,
		Attempt:     mep.Attempt,
		CompletedAt: at,
	}
	if b.verdictsBySlot != nil {
		meta.Verdicts = b.verdictsBySlot[slot]
	}
	if looked {
		b.offerToTap(shown, at, meta, read)
	}
	if b.keepsSlotsOffered() {
		err = b.cfg.Sink.Write(b.ctx, meta, memory)
	} else {
		err = b.handToSink(slot, meta, read)
	}
	if err != nil {
		return b.attributeSinkError(&meta, read, err)
	}
	b.recordBuilt(slot, &meta)
	return nil
}

// checkMEP verifies a MEP as far as is asked for, and returns which events it has, as the first part tells that was not
// made here: the others have theirs from such a part.
func (b *Builder) checkMEP(mep uint64, read []byte) (from uint64, events int, err error) {
	if err := b.verify.check(mep, read, b.scratch.places); err != nil {
		return 0, 0, err
	}
	first := &b.scratch.places[max(0, slices.IndexFunc(b.scratch.places, func(p mfpPlace) bool { return !p.Synthetic }))]
	from, events, err = event.MFPEvents(read[first.Offset : first.Offset+first.Size])
	if err != nil {
		return 0, 0, &DataError{
			RU:     int(first.RU),
			MEP:    mep,
			Source: first.Source,
			Reason: err.Error(),
			Cause:  err,
		}
	}
	if want := mep * uint64(b.cfg.Packing); b.cfg.Packing > 0 && from != want {
		why := fmt.Sprintf("the MFP has events from %d, the MEP from %d", from, want)
		return 0, 0, &DataError{RU: int(first.RU), MEP: mep, Source: first.Source, Reason: why}
	}
	return from, events, nil
}

// recordBuilt notes that the sink has a MEP.
func (b *Builder) recordBuilt(slot int, meta *sink.Meta) {
	f := &b.scratch
	f.slots = append(f.slots, uint32(slot))
	f.results = append(f.results, MEPResult{})
	r := &f.results[len(f.results)-1]
	r.Slot, r.MEP, r.Attempt, r.Outcome = slot, meta.MEP, meta.Attempt, Built
	r.Events, r.FirstEvent, r.CompletedAt = meta.Events, meta.FirstEvent, meta.CompletedAt
	r.PartsMissing = f.missingMFPCount > 0
	f.mfpCount += uint64(len(f.places) - f.missingMFPCount)
	for i := range f.places {
		f.mfpBytes += uint64(f.places[i].Size)
	}
}

// keepsSlotsOffered says that slots stay offered while parts come, and are recycled when their MEPs are finished: where
// windows are pre-granted, and the sink keeps nothing.
func (b *Builder) keepsSlotsOffered() bool { return b.sinkDiscards && b.asm.isPreGranted() }

// needsCopy says that MEPs in pre-granted windows are read in the scratch: to be kept, or since they are parsed.
func (b *Builder) needsCopy() bool { return !b.sinkDiscards || b.verify.parsesContent() }

// handToSink gives a MEP to the sink, and the slot back.
func (b *Builder) handToSink(slot int, meta sink.Meta, read []byte) error {
	slots := b.cfg.Slots
	if b.asm.isPreGranted() {
		if err := slots.Fill(slot); err != nil {
			return err
		}
	}
	if err := slots.Build(slot); err != nil {
		return err
	}
	if err := b.writeToSink(slot, meta, read); err != nil {
		return err
	}
	return errors.Join(slots.Free(slot), slots.Offer(slot))
}

// writeToSink hands a MEP to the sink, and counts the time that takes. One that drops everything is not worth two
// readings of the clock.
func (b *Builder) writeToSink(slot int, meta sink.Meta, memory []byte) error {
	if !b.sinkDiscards {
		b.sinkTime.Start()
		defer b.sinkTime.Stop()
	}
	if b.lender != nil {
		return b.lender.Lend(b.ctx, meta, slot, memory)
	}
	return b.cfg.Sink.Write(b.ctx, meta, memory)
}

// reportResults reports to the scheduler what became of MEPs.
func (b *Builder) reportResults(results []MEPResult) error {
	b.reportMu.Lock()
	defer b.reportMu.Unlock()
	return b.reportResultsLocked(results)
}

// reportResultsLocked reports to the scheduler slots that are free. Which of them are held is decided when they are
// reported: others that are reported meanwhile may be the last whose outcome was to come. reportMu is held.
func (b *Builder) reportResultsLocked(results []MEPResult) error {
	b.mu.Lock()
	for i := range results {
		results[i].ReportHeld = b.asm.HoldOutcome()
	}
	b.mu.Unlock()
	return b.cfg.OnResults(results)
}

// parseEntries reads the entries that stand before each part. Those that do not fit are noted in f.bad, and the places
// of that readout unit's MFPs are empty.
func (b *Builder) parseEntries(slot int, mep uint64, memory []byte) {
	f := &b.scratch
	f.places = f.places[:0]
	for ru := range b.asm.preGrantedWindows {
		first := len(f.places)
		off, length := b.asm.PartRange(slot, ru)
		bad := b.parsePartEntries(ru, memory[off:off+length], off)
		if bad == nil {
			continue
		}
		bad.RU, bad.MEP = ru, mep
		f.badParts, f.places = append(f.badParts, bad), f.places[:first]
		for i := range b.asm.preGrantedWindows[ru].sources {
			f.places = append(f.places, mfpPlace{Source: uint16(first + i), RU: uint16(ru)})
		}
	}
}

// parsePartEntries reads the entries of one part, which lies at an offset.
func (b *Builder) parsePartEntries(ru int, part []byte, off int) *DataError {
	f := &b.scratch
	sources := b.asm.preGrantedWindows[ru].sources
	at := sources * placing.EntrySize
	for i := range sources {
		source := uint16(len(f.places))
		e := placing.ReadEntry(part, i)
		if e.Size < event.MFPFixedSize || int64(e.Size) > int64(len(part)-at) {
			return &DataError{Source: source, Reason: fmt.Sprintf(
				"its size is told as %d bytes, and %d are left of the part of readout unit %d", e.Size, len(part)-at, ru)}
		}
		f.places = append(f.places, mfpPlace{
			Source:    source,
			RU:        uint16(ru),
			Offset:    off + at,
			Size:      int(e.Size),
			CRC:       e.CRC,
			Synthetic: f.missingMFPCount > 0 && f.missingUnits[ru],
		})
		at += paddedBytes(e.Size)
	}
	if at != len(part) {
		return &DataError{Source: uint16(len(f.places) - 1), Reason: fmt.Sprintf(
			"the part of readout unit %d ends behind %d bytes, and has %d", ru, at, len(part))}
	}
	return nil
}

// pack copies a MEP without its gaps. It moves f.places there. Each byte of a part is read once; padding, which no CRC
// covers, is made anew.
func (f *finisherScratch) pack(memory []byte) ([]byte, error) {
	at := event.MEPHeaderSize(len(f.places))
	for i := range f.places {
		p := &f.places[i]
		n := paddedBytes(uint32(p.Size))
		copy(f.packedMEP[at:], memory[p.Offset:p.Offset+p.Size])
		clear(f.packedMEP[at+p.Size : at+n])
		p.Offset = at
		at += n
	}
	return f.packedMEP[:at], f.tables.writeHeader(f.packedMEP[:at], f.places)
}

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
