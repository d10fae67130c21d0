package builderunit

import (
	"errors"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/filter"
	"ringlet/tagnet/core"
)

// Pipeline of a MEP with a region of interest, once the region is in place (docs/design/053-filters.md):
//
//	1 decide        (sequential: finisher)  revokes the grants, verifies, calls Config.Decide, which may answer later
//	2 ApplyDecision (parallel: deciders)    kept: the other parts wait to be requested; rejected: the MEP is given up
//	                                        (outcomes.go), and readout units drop parts that were not requested with the
//	                                        next token for the slot. Both under mu
//
// Until the decision, the finisher and the receivers go on with other MEPs.

// Region is the parts of a MEP from the readout units of Pull.RegionUnits. It is valid until Config.Decide returns.
type Region struct {
	sink.Meta          // of the MEP; CompletedAt is when the region was in place. Events is 0 without MFPs
	Slot      int      // its slot
	MFPs      [][]byte // in order of source id; none if all readout units of the region are gone

	builder *Builder
}

// AssembleMEP makes a MEP of the region, valid until Config.Decide returns: the sources that are not in place get MFPs
// whose fragments are all missing, so that every source has its place. False: the region has no MFPs, or the MEP would
// be larger than a slot.
func (r *Region) AssembleMEP() ([]byte, bool) {
	f := &r.builder.finisher
	if len(r.MFPs) == 0 {
		return nil, false
	}
	f.mu.Lock()
	f.regionPlaces = f.asm.appendMFPPlaces(r.Slot, f.regionPlaces[:0], true)
	for i := range f.regionPlaces {
		p := &f.regionPlaces[i]
		p.Synthetic = !f.asm.partInPlace(r.Slot, int(p.RU))
	}
	f.mu.Unlock()
	if f.regionMEP == nil {
		f.regionMEP = make([]byte, f.cfg.Slots.SlotSize())
	}
	mep, err := f.tables.layOut(f.regionMEP, f.cfg.Slots.Bytes(r.Slot), f.regionPlaces, r.FirstEvent, r.Events)
	return mep, err == nil
}

// Decide answers for the region: see Builder.ApplyDecision.
func (r *Region) Decide(keep bool) { r.builder.ApplyDecision(r.Meta, r.Slot, keep, nil) }

// Client receives the verdicts on the region.
func (r *Region) Client() sink.RegionClient { return r.builder }

// decideRegion passes a region of interest to Config.Decide.
func (f *finisher) decideRegion(slot int, at time.Time) error {
	mep, memory, err := f.sealSlot(slot, false)
	if err != nil {
		return err
	}
	if err := f.verify.check(mep.MEP, memory, f.places); err != nil {
		var bad *DataError
		if errors.As(err, &bad) && f.tolerates(bad) { // not judged: the MEP goes on without that part when it is complete
			f.ApplyDecision(sink.Meta{MEP: mep.MEP, Attempt: mep.Attempt}, slot, true, nil)
			return nil
		}
		return err
	}
	r := &f.region
	*r = Region{
		Meta:    sink.Meta{Run: f.cfg.Run, MEP: mep.MEP, Attempt: mep.Attempt, CompletedAt: at},
		Slot:    slot,
		MFPs:    r.MFPs[:0],
		builder: f.Builder,
	}
	for i := range f.places {
		r.MFPs = append(r.MFPs, f.places[i].bytesIn(memory))
	}
	if len(r.MFPs) > 0 { // otherwise the region's readout units are gone, and its events are unknown
		if r.FirstEvent, r.Events, err = event.MFPEvents(r.MFPs[0]); err != nil {
			return f.places[0].dataError(mep.MEP, err)
		}
	}
	return f.cfg.Decide(f.ctx, r)
}

// ApplyDecision applies, once, the answer to Config.Decide: whether the MEP is kept, and the verdicts of a filter on
// its events, which the sink gets with the complete MEP. Without verdicts a filter before the sink must still judge the
// MEP. It does not wait. False: the unit was closed meanwhile, or no region waits for this answer.
func (b *Builder) ApplyDecision(m sink.Meta, slot int, keep bool, verdicts []filter.Verdict) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.asm.awaitsDecision(slot, m.MEP, m.Attempt) {
		return false
	}
	if !keep {
		b.asm.markRejecting(slot)
		b.giveUpLocked(slot, core.Rejected,
			MEPResult{Feedback: core.Feedback{Events: uint32(m.Events)}, CompletedAt: m.CompletedAt})
		return true
	}
	b.verdictsBySlot[slot] = append(b.verdictsBySlot[slot][:0], verdicts...)
	b.asm.Accept(slot)
	before := len(b.completedSlots)
	b.submitLocked(before)
	return true
}
