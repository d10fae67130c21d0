package builderunit

// Pipeline of MEPs placed by quota:
//
//	1 Ask         (parallel: a link's receiver each)  a readout unit learns its windows in all slots, once
//	2 PlacedMany  (parallel: receivers)               parts counted, a call at a time under mu; whole slots join the batch at hand
//	3 finish      (sequential: finisher)              of each MEP of a batch: entries, verified, header written, sink
//	4 settle      (sequential: finisher)              of the batch: the slots turned, freed under mu, the scheduler told (commit.go)
//
// What the sink has no time for leaves at 2, where there is a Backlog (overload.go).
//
// The MFPs are written once, by the network, where they stay; between them are gaps. A sink that keeps MEPs is given them without
// gaps, in the finisher's scratch; one that keeps nothing reads them in place. Nothing is allocated per MEP.
//
// A part's grant stands while 3 reads it: a readout unit that is not correct may go on writing. So what is parsed, and
// what is kept, is checked in the scratch, after the copy: what was verified is what is written. In place nothing is
// read but for a CRC, and headers whose every field is read once.

import (
	"errors"
	"fmt"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/transport"
)

// settleMany is the most MEPs that are settled together: few enough that the scheduler has slots to give out again while the
// rest of a long batch is verified, and so many that what a batch costs (two locks, a wake-up, 1 µs or so) is lost among them.
const settleMany = 256

// quota is what a Builder has where slots are shared out by quota.
type quota struct {
	// immutable after shareOut
	wake      chan struct{} // of one place: the batch is not empty
	wakeSpill chan struct{} // of one place: there are MEPs to be discarded

	// guarded by Builder.mu; of a slot that is whole, the finisher also reads asm without it
	asm   *QuotaAssembler
	batch []uint32  // slots that are whole, and not the finisher's yet
	at    time.Time // when the last of them became so
	spill []uint32  // slots whose MEPs are to be discarded

	// owned by the finisher
	layout      *placing.Layout
	discards    bool     // the sink keeps nothing
	spare       []uint32 // taken in turns with batch
	places      []Place
	tables      headerTables
	packed      []byte
	results     []Result
	mfps, bytes uint64 // in results
	seen        uint   // means nothing: it makes lookAt look
}

// shareOut makes the core of a builder unit that works by quota.
func (b *Builder) shareOut() error {
	cfg := &b.cfg
	n, l := cfg.Slots.Len(), cfg.Layout
	if l.RUs() != len(cfg.RURanks) {
		return fmt.Errorf("slots are shared out to %d readout units, there are %d", l.RUs(), len(cfg.RURanks))
	}
	if l.Size() > cfg.Slots.SlotSize() {
		return fmt.Errorf("the readout units' shares of a slot take %d bytes, but a slot holds %d: raise --slot-size or lower --packing",
			l.Size(), cfg.Slots.SlotSize())
	}
	b.quota = &quota{
		wake: make(chan struct{}, 1), wakeSpill: make(chan struct{}, 1), asm: NewQuotaAssembler(l, n), batch: make([]uint32, 0, n),
		layout: l, discards: b.discards, spare: make([]uint32, 0, n), results: make([]Result, 0, settleMany),
	}
	if b.quota.copies(&b.verify) {
		b.quota.packed = make([]byte, l.Size())
	}
	return nil
}

// standingGrants opens its part of every slot to each readout unit, until Close.
func (b *Builder) standingGrants() error {
	q := b.quota
	for slot := range b.cfg.Slots.Len() {
		for ru, rank := range b.cfg.RURanks {
			off, room := q.layout.Part(ru)
			ref, err := b.cfg.Table.Grant(shmem.Peer(rank), b.segment, b.cfg.Slots.Offset(slot)+off, room, shmem.AccessNwrite)
			if err != nil {
				q.close(b.cfg.Table)
				return fmt.Errorf("sharing out slot %d: %w", slot, err)
			}
			q.asm.Granted(slot, ru, ref)
		}
	}
	return nil
}

// close revokes every grant and gives up what is not finished.
func (q *quota) close(table *shmem.Table) {
	for _, ref := range q.asm.refs {
		if ref != (shmem.Ref{}) {
			_ = table.Revoke(ref) // one that is revoked already was its dead peer's
		}
	}
	for _, i := range q.asm.Unfinished(nil) {
		q.asm.Abandon(i)
	}
}

// Ask takes a readout unit's signal of kind placing.KindAsk, and answers with its windows in every slot. It may ask again. An error
// says what was wrong with the question.
func (b *Builder) Ask(rank int, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		b.rejected++
		return ErrClosed
	}
	if err := placing.ParseAsk(payload); err != nil {
		b.rejected++
		return err
	}
	ru, ok := b.byRank[rank]
	if !ok || b.quota == nil {
		b.rejected++
		return fmt.Errorf("rank %d asked for its share of the slots, and has none", rank)
	}
	var answer placing.Standing
	n := b.cfg.Slots.Len()
	for first := 0; first < n; first += placing.MaxStanding {
		answer.First = uint32(first)
		answer.Refs = b.quota.asm.Refs(ru, first, min(placing.MaxStanding, n-first), answer.Refs[:0])
		b.message = answer.Append(b.message[:0])
		if err := b.cfg.Signaler.Signal(rank, b.message); err != nil {
			b.failLocked(fmt.Errorf("sharing out slots to readout unit %d: %w", ru, err))
			return nil // the readout unit was right to ask
		}
	}
	return nil
}

// placed counts parts, and wakes the finisher if MEPs became whole. Its caller holds mu.
func (q *quota) placed(ru int, ps []transport.Placement, l *backlog) {
	before := len(q.batch)
	q.batch = q.asm.Placed(ru, ps, q.batch)
	if len(q.batch) == before {
		return
	}
	q.at = time.Now()
	if l.most > 0 {
		q.turnAway(l, before)
	}
	poke(q.wake)
}

// quotaFinisher completes MEPs, a batch after the other.
func (b *Builder) quotaFinisher() {
	q := b.quota
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-q.wake:
		}
		b.mu.Lock()
		batch, at := q.batch, q.at
		q.batch, q.spare = q.spare[:0], batch
		b.mu.Unlock()
		for len(batch) > 0 && b.ctx.Err() == nil {
			n := min(len(batch), settleMany)
			b.gate.Lock()
			err := b.finishMany(batch[:n], at)
			b.gate.Unlock()
			if err != nil {
				b.fail(err)
				return
			}
			batch = batch[n:]
		}
	}
}

// finishMany finishes MEPs and settles them. Those before one that fails have their outcome.
func (b *Builder) finishMany(slots []uint32, at time.Time) error {
	q := b.quota
	q.results, q.mfps, q.bytes = q.results[:0], 0, 0
	var failed error
	for i, slot := range slots {
		if i%glance == 0 && b.verify.kind == VerifyOff {
			b.lookAt(slots[i:min(i+glance, len(slots))])
		}
		events, bytes, err := b.finishQuota(int(slot))
		if err != nil {
			slots, failed = slots[:i], err
			break
		}
		mep := q.asm.Slot(int(slot))
		q.results = append(q.results, Result{
			Slot: int(slot), MEP: mep.MEP, Attempt: mep.Attempt, Outcome: Built, Events: events, Done: at,
		})
		q.mfps += uint64(len(q.places))
		q.bytes += uint64(bytes)
	}
	if len(slots) == 0 {
		return failed
	}
	return errors.Join(failed, b.settle(slots))
}

// glance is how many MEPs are looked at before the first of them is finished. Their entries are in another core's cache, and a
// processor waits for sixteen of them hardly longer than for one: 65 ns per MEP became 40 (express, 2 readout units, 128 B, 2-core VM,
// 2026-11-21). Where MEPs are verified nothing is gained: reading one brings in the next.
const glance = 16

// lookAt brings what is needed of MEPs into this core's cache.
func (b *Builder) lookAt(slots []uint32) {
	q := b.quota
	for _, slot := range slots {
		memory := b.cfg.Slots.Bytes(int(slot))
		for ru := range q.asm.parts {
			q.seen += uint(memory[q.asm.parts[ru].offset])
		}
	}
}

// settle gives slots back and tells the scheduler.
func (b *Builder) settle(slots []uint32) error {
	q := b.quota
	if q.discards {
		if err := b.cfg.Slots.Turn(slots); err != nil {
			return err
		}
	}
	b.mu.Lock()
	q.asm.Finish(slots, q.mfps, q.bytes)
	if b.backlog.most > 0 {
		b.backlog.leave(len(slots))
	}
	b.mu.Unlock()
	return b.outcome(q.results)
}

// finishQuota finds the MFPs of a MEP, checks them, writes the header and hands the MEP to the sink. It returns the number of
// events, and of bytes in MFPs.
func (b *Builder) finishQuota(slot int) (events, bytes int, err error) {
	q := b.quota
	mep := q.asm.Slot(slot)
	memory := b.cfg.Slots.Bytes(slot)[:mep.Size]
	if bytes, err = q.findPlaces(slot, mep.MEP, memory); err != nil {
		return 0, 0, err
	}
	if err := q.tables.put(memory, q.places); err != nil {
		return 0, 0, fmt.Errorf("header of MEP %d: %w", mep.MEP, err)
	}
	read := memory
	if q.copies(&b.verify) {
		if read, err = q.pack(memory); err != nil {
			return 0, 0, fmt.Errorf("header of MEP %d: %w", mep.MEP, err)
		}
	}
	if err := b.verify.check(mep.MEP, read, q.places); err != nil {
		return 0, 0, err
	}
	first := &q.places[0]
	m, err := event.ParseMFP(read[first.Offset : first.Offset+first.Size])
	if err != nil {
		return 0, 0, &IntegrityError{MEP: mep.MEP, Reason: err.Error(), Cause: err}
	}
	from := m.FirstEvent() // once
	if want := mep.MEP * uint64(b.cfg.Packing); b.cfg.Packing > 0 && from != want {
		return 0, 0, &IntegrityError{MEP: mep.MEP, Reason: fmt.Sprintf("the MFP has events from %d, the MEP from %d", from, want)}
	}
	meta := sink.Meta{Run: b.cfg.Run, MEP: mep.MEP, FirstEvent: from, Events: m.N(), Attempt: mep.Attempt}
	if q.discards {
		err = b.cfg.Sink.Write(b.ctx, meta, memory)
	} else {
		err = b.keep(slot, meta, read)
	}
	return m.N(), bytes, err
}

// copies says that MEPs are read in the scratch: to be kept, or since they are parsed.
func (q *quota) copies(v *verifier) bool { return !q.discards || v.parses() }

// findPlaces reads the entries that stand before each part, and adds up the sizes.
func (q *quota) findPlaces(slot int, mep uint64, memory []byte) (bytes int, err error) {
	q.places = q.places[:0]
	for ru := range q.layout.RUs() {
		off, length := q.asm.Part(slot, ru)
		part := memory[off : off+length]
		at := q.layout.Entries()
		for range q.layout.Streams() {
			source := len(q.places)
			e := placing.EntryOf(part, source%q.layout.Streams())
			if e.Size < event.MFPFixedSize || int64(e.Size) > int64(length-at) {
				return 0, &IntegrityError{MEP: mep, Source: uint16(source), Reason: fmt.Sprintf(
					"its size is told as %d bytes, and %d are left of the part of readout unit %d", e.Size, length-at, ru)}
			}
			q.places = append(q.places, Place{Source: uint16(source), Offset: off + at, Size: int(e.Size), CRC: e.CRC})
			bytes += int(e.Size)
			at += padded(e.Size)
		}
		if at != length {
			return 0, &IntegrityError{MEP: mep, Source: uint16(len(q.places) - 1), Reason: fmt.Sprintf(
				"the part of readout unit %d ends behind %d bytes, and has %d", ru, at, length)}
		}
	}
	return bytes, nil
}

// keep hands a MEP to a sink that keeps it: without gaps, so that what is kept does not depend on how it was placed.
func (b *Builder) keep(slot int, meta sink.Meta, packed []byte) error {
	slots := b.cfg.Slots
	if err := errors.Join(slots.Fill(slot), slots.Build(slot)); err != nil {
		return err
	}
	if err := b.output(meta, packed); err != nil {
		return err
	}
	return errors.Join(slots.Free(slot), slots.Offer(slot))
}

// pack copies a MEP without its gaps. It moves q.places there. Each byte of a part is read once; padding, which no CRC
// covers, is made anew.
func (q *quota) pack(memory []byte) ([]byte, error) {
	at := event.MEPHeaderSize(len(q.places))
	for i := range q.places {
		p := &q.places[i]
		n := padded(uint32(p.Size))
		copy(q.packed[at:], memory[p.Offset:p.Offset+p.Size])
		clear(q.packed[at+p.Size : at+n])
		p.Offset = at
		at += n
	}
	return q.packed[:at], q.tables.put(q.packed[:at], q.places)
}
