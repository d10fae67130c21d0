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
//	2 ApplyDecision (parallel: who decides)  kept: the other parts wait to be asked for; rejected: it joins the
//	                                    rejections. Both under mu
//	3 reject   (sequential: rejecter)   the slot is free, reported to the scheduler; readout units drop what was not
//	                                    asked for with the next token for the slot
//
// While somebody decides, the finisher, the receivers and whoever asks for parts go on with other MEPs.

// Region is the part of a MEP that lies in the readout units of Pull.RegionUnits. It is valid until Config.Decide
// returns.
type Region struct {
	sink.Meta          // of the MEP; CompletedAt is when the region was in place. Events is 0 where there are no MFPs
	Slot      int      // where it lies
	MFPs      [][]byte // in order of source id: none, if all readout units of the region are gone

	builder *Builder
}

// AssembleMEP makes a MEP of the region, valid until Config.Decide returns: of the sources that are not here it has
// MFPs whose fragments are all missing, so every source has its place. False: there are no MFPs, or it would be larger
// than a slot.
func (r *Region) AssembleMEP() ([]byte, bool) {
	b, f := r.builder, &r.builder.scratch
	if len(r.MFPs) == 0 {
		return nil, false
	}
	b.mu.Lock()
	f.allPlaces = b.asm.appendMFPPlaces(r.Slot, f.allPlaces[:0], true)
	b.mu.Unlock()
	none := event.MFPHeaderSize(r.Events)
	size, here := event.MEPHeaderSize(len(f.allPlaces)), 0
	for i := range f.allPlaces {
		n := none
		if here < len(f.places) && f.places[here].Source == f.allPlaces[i].Source {
			n = f.places[here].Size
			here++
		}
		f.allPlaces[i].Offset, f.allPlaces[i].Size = size, n
		size += paddedBytes(uint32(n))
	}
	if size > b.cfg.Slots.SlotSize() {
		return nil, false
	}
	if cap(f.regionMEP) < size {
		f.regionMEP = make([]byte, b.cfg.Slots.SlotSize())
	}
	mep := f.regionMEP[:size]
	if f.tables.writeHeader(mep, f.allPlaces) != nil {
		return nil, false
	}
	here = 0
	for i := range f.allPlaces {
		p := &f.allPlaces[i]
		if here < len(f.places) && f.places[here].Source == p.Source {
			copy(mep[p.Offset:], r.MFPs[here])
			here++
		} else {
			event.PutMissingMFP(mep[p.Offset:], p.Source, r.FirstEvent, r.Events)
		}
		clear(mep[p.Offset+p.Size : p.Offset+paddedBytes(uint32(p.Size))])
	}
	return mep, true
}

// Decide answers for the region: see Builder.ApplyDecision.
func (r *Region) Decide(keep bool) { r.builder.ApplyDecision(r.Meta, r.Slot, keep, nil) }

// Client is who gets the verdicts on the region.
func (r *Region) Client() sink.RegionClient { return r.builder }

// rejection is a MEP that is over after its region, and that is not reported yet.
type rejection struct {
	slot int
	meta sink.Meta
}

// decideRegion lets Config.Decide look at a region of interest.
func (b *Builder) decideRegion(slot int, at time.Time) error {
	mep, memory, err := b.sealSlot(slot)
	if err != nil {
		return err
	}
	f := &b.scratch
	if err := b.verify.check(mep.MEP, memory, f.places); err != nil {
		var bad *DataError
		if errors.As(err, &bad) && b.tolerates(bad) { // nobody judges it; when it is whole it goes on without that part
			b.ApplyDecision(sink.Meta{MEP: mep.MEP, Attempt: mep.Attempt}, slot, true, nil)
			return nil
		}
		return err
	}
	f.mfps = f.mfps[:0]
	for _, p := range f.places {
		f.mfps = append(f.mfps, memory[p.Offset:p.Offset+p.Size])
	}
	r := &f.pendingRegion
	*r = Region{Slot: slot, MFPs: f.mfps, builder: b}
	r.Meta = sink.Meta{
		Run:         b.cfg.Run,
		MEP:         mep.MEP,
		Attempt:     mep.Attempt,
		CompletedAt: at,
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
		r.FirstEvent, r.Events = m.FirstEvent(), m.NumFragments()
	}
	return b.cfg.Decide(b.ctx, r)
}

// ApplyDecision takes, once, the answer to Config.Decide: whether a MEP is kept, and the verdicts of a filter on its
// events, which the sink is given with the whole MEP. No verdicts: a filter before the sink has still to judge it. It
// does not wait. False: the unit was closed meanwhile, or the answer is about no region that is waiting for one.
func (b *Builder) ApplyDecision(m sink.Meta, slot int, keep bool, verdicts []filter.Verdict) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.asm.awaitsDecision(slot, m.MEP, m.Attempt) {
		return false
	}
	if !keep {
		b.asm.markRejecting(slot)
		b.rejections = append(b.rejections, rejection{slot, m})
		wakeUp(b.wakeRejecter)
		return true
	}
	b.verdictsBySlot[slot] = append(b.verdictsBySlot[slot][:0], verdicts...)
	b.asm.Accept(slot)
	before := len(b.completedSlots)
	b.requestPartsLocked()
	b.submitLocked(before)
	return true
}

// runRejecter gives MEPs up whose region was rejected, as many as there are.
func (b *Builder) runRejecter() {
	var spare []rejection
	var results []MEPResult
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wakeRejecter:
		}
		b.mu.Lock()
		batch := b.rejections
		b.rejections, spare = spare[:0], batch
		b.mu.Unlock()
		results = results[:0]
		for i := range batch {
			m := &batch[i].meta
			results = append(results, MEPResult{
				Slot:        batch[i].slot,
				MEP:         m.MEP,
				Attempt:     m.Attempt,
				Outcome:     Rejected,
				Events:      m.Events,
				CompletedAt: m.CompletedAt,
			})
		}
		if err := b.rejectMEPs(results); err != nil {
			b.fail(err)
			return
		}
	}
}

// rejectMEPs gives slots back and reports that to the scheduler.
func (b *Builder) rejectMEPs(results []MEPResult) error {
	if len(results) == 0 {
		return nil
	}
	for i := range results {
		slot := results[i].Slot
		if err := errors.Join(b.cfg.Slots.Abandon(slot), b.cfg.Slots.Offer(slot)); err != nil {
			return err
		}
	}
	b.reportMu.Lock() // from before the slots count as free, for Reset
	defer b.reportMu.Unlock()
	b.mu.Lock()
	for i := range results {
		b.asm.Reject(results[i].Slot)
	}
	b.mu.Unlock()
	return b.reportResultsLocked(results)
}
