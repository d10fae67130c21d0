package builderunit

import (
	"errors"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/filter"
)

// Pipeline of a MEP with a region of interest, from when the region is in place
// (docs/design/059-regions-of-interest.md):
//
//	1 decide   (sequential: finisher)   grants revoked, verified, handed to Config.Decide, which may answer later
//	2 Decided  (parallel: who decides)  kept: the other parts wait to be asked for; rejected: it joins the refusals.
//	                                    Both under mu
//	3 refuse   (sequential: refuser)    the slot is free, the scheduler is told; readout units drop what was not asked
//	                                    for with the next token for the slot
//
// While somebody decides, the finisher, the receivers and whoever asks for parts go on with other MEPs.

// Region is the part of a MEP that lies in the readout units of Pull.Interest. It is valid until Config.Decide returns.
type Region struct {
	sink.Meta          // of the MEP; Whole is when the region was in place. Events is 0 where there are no MFPs
	Slot      int      // where it lies
	MFPs      [][]byte // in order of source id: none, if all readout units of the region are gone

	b *Builder
}

// MEP makes a MEP of the region, valid until Config.Decide returns: of the sources that are not here it has MFPs whose
// fragments are all missing, so every source has its place. False: there are no MFPs, or it would be larger than a
// slot.
func (r *Region) MEP() ([]byte, bool) {
	b, f := r.b, &r.b.f
	if len(r.MFPs) == 0 {
		return nil, false
	}
	b.mu.Lock()
	f.all = b.asm.places(r.Slot, f.all[:0], true)
	b.mu.Unlock()
	none := event.MFPHeaderSize(r.Events)
	size, here := event.MEPHeaderSize(len(f.all)), 0
	for i := range f.all {
		n := none
		if here < len(f.places) && f.places[here].Source == f.all[i].Source {
			n = f.places[here].Size
			here++
		}
		f.all[i].Offset, f.all[i].Size = size, n
		size += padded(uint32(n))
	}
	if size > b.cfg.Slots.SlotSize() {
		return nil, false
	}
	if cap(f.region) < size {
		f.region = make([]byte, b.cfg.Slots.SlotSize())
	}
	mep := f.region[:size]
	if f.tables.put(mep, f.all) != nil {
		return nil, false
	}
	here = 0
	for i := range f.all {
		p := &f.all[i]
		if here < len(f.places) && f.places[here].Source == p.Source {
			copy(mep[p.Offset:], r.MFPs[here])
			here++
		} else {
			event.PutMissingMFP(mep[p.Offset:], p.Source, r.FirstEvent, r.Events)
		}
		clear(mep[p.Offset+p.Size : p.Offset+padded(uint32(p.Size))])
	}
	return mep, true
}

// Decide answers for the region: see Builder.Decided.
func (r *Region) Decide(keep bool) { r.b.Decided(r.Meta, r.Slot, keep, nil) }

// Asker is who is told of verdicts on the region.
func (r *Region) Asker() sink.Asker { return r.b }

// refusal is a MEP that is over after its region, and that nobody was told of yet.
type refusal struct {
	slot int
	meta sink.Meta
}

// decide lets Config.Decide look at a region of interest.
func (b *Builder) decide(slot int, at time.Time) error {
	mep, memory, err := b.take(slot)
	if err != nil {
		return err
	}
	f := &b.f
	if err := b.verify.check(mep.MEP, memory, f.places); err != nil {
		var bad *DataError
		if errors.As(err, &bad) && b.bears(bad) { // nobody judges it; when it is whole it goes on without that part
			b.Decided(sink.Meta{MEP: mep.MEP, Attempt: mep.Attempt}, slot, true, nil)
			return nil
		}
		return err
	}
	f.mfps = f.mfps[:0]
	for _, p := range f.places {
		f.mfps = append(f.mfps, memory[p.Offset:p.Offset+p.Size])
	}
	r := &f.asked
	*r = Region{Slot: slot, MFPs: f.mfps, b: b}
	r.Meta = sink.Meta{
		Run:     b.cfg.Run,
		MEP:     mep.MEP,
		Attempt: mep.Attempt,
		Whole:   at,
	}
	if len(f.mfps) > 0 { // else the readout units of the region are gone, and nothing here tells which events there are
		m, err := event.ParseMFP(f.mfps[0])
		if err != nil {
			return &DataError{
				RU:     int(f.places[0].RU),
				MEP:    mep.MEP,
				Source: f.places[0].Source,
				Reason: err.Error(),
				Cause:  err,
			}
		}
		r.FirstEvent, r.Events = m.FirstEvent(), m.N()
	}
	return b.cfg.Decide(b.ctx, r)
}

// Decided takes, once, what Config.Decide was asked: whether a MEP is kept, and the verdicts of a filter on its events,
// which the sink is given with the whole MEP. No verdicts: a filter before the sink has still to judge it. It does not
// wait. False: the unit was closed meanwhile, or the answer is about no region that is waiting for one.
func (b *Builder) Decided(m sink.Meta, slot int, keep bool, verdicts []filter.Verdict) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.asm.awaits(slot, m.MEP, m.Attempt) {
		return false
	}
	if !keep {
		b.asm.refuse(slot)
		b.refusals = append(b.refusals, refusal{slot, m})
		poke(b.wakeRefuse)
		return true
	}
	b.verdicts[slot] = append(b.verdicts[slot][:0], verdicts...)
	b.asm.Accept(slot)
	before := len(b.batch)
	b.askLocked()
	b.landedLocked(before)
	return true
}

// refuser gives MEPs up whose region was rejected, as many as there are.
func (b *Builder) refuser() {
	var spare []refusal
	var results []Result
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wakeRefuse:
		}
		b.mu.Lock()
		batch := b.refusals
		b.refusals, spare = spare[:0], batch
		b.mu.Unlock()
		results = results[:0]
		for i := range batch {
			m := &batch[i].meta
			results = append(results, Result{
				Slot:    batch[i].slot,
				MEP:     m.MEP,
				Attempt: m.Attempt,
				Outcome: Rejected,
				Events:  m.Events,
				Done:    m.Whole,
			})
		}
		if err := b.refuse(results); err != nil {
			b.fail(err)
			return
		}
	}
}

// refuse gives slots back and tells the scheduler.
func (b *Builder) refuse(results []Result) error {
	if len(results) == 0 {
		return nil
	}
	for i := range results {
		slot := results[i].Slot
		if err := errors.Join(b.cfg.Slots.Abandon(slot), b.cfg.Slots.Offer(slot)); err != nil {
			return err
		}
	}
	b.telling.Lock() // from before the slots count as free, for Reset
	defer b.telling.Unlock()
	b.mu.Lock()
	for i := range results {
		b.asm.Reject(results[i].Slot)
	}
	b.mu.Unlock()
	return b.report(results)
}
