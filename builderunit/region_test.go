package builderunit

import (
	"context"
	"slices"
	"testing"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/tagnet/core"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// pendingDecision is a region that somebody is to decide on.
type pendingDecision struct {
	sink.Meta
	slot   int
	mep    []byte
	client sink.RegionClient
}

// later hands regions to the test, which decides on them.
func later(regions chan pendingDecision) func(context.Context, *Region) error {
	return func(_ context.Context, r *Region) error {
		mep, _ := r.AssembleMEP()
		regions <- pendingDecision{r.Meta, r.Slot, slices.Clone(mep), r.Client()}
		return nil
	}
}

// region has the region of interest of a MEP, which is readout unit 1's part, in place.
func (r *rig) region(slot int, mep uint64, regions chan pendingDecision) ([]*piece, pendingDecision) {
	r.t.Helper()
	var pieces []*piece
	for ru := range r.ranks {
		p := r.piece(ru, mep*rigPacking)
		r.announce(p, slot, mep)
		pieces = append(pieces, p)
	}
	if v := r.write(pieces[1], r.net.grant(r.ranks[1], mep), 0, len(pieces[1].data)); v != 0 {
		r.t.Fatal(v)
	}
	return pieces, patiently.Receive(r.t, regions, "nobody was asked for a decision")
}

// rest has the other parts in place, when they are asked for.
func (r *rig) rest(pieces []*piece, mep uint64) {
	r.t.Helper()
	for _, ru := range []int{0, 2} {
		if v := r.write(pieces[ru], r.awaitGrant(ru, mep), 0, len(pieces[ru].data)); v != 0 {
			r.t.Fatal(v)
		}
	}
}

// TestOthersGoOnMeanwhile holds that while a region is being judged other MEPs are judged and built, that answers come
// in any order, that verdicts reach the sink with their MEP, and that what is rejected is reported and counted as
// spared.
func TestOthersGoOnMeanwhile(t *testing.T) {
	regions := make(chan pendingDecision, 10)
	r := newRigWithSlots(t, 3, func(_ *rig, c *Config) {
		c.Pull, c.Decide = Pull{RegionUnits: []int{1}}, later(regions)
	})
	first, a := r.region(0, 0, regions)
	second, b := r.region(1, 1, regions)
	third, c := r.region(2, 2, regions)
	verdicts := []filter.Verdict{
		{Decision: filter.Rejected},
		{Decision: filter.Accepted, Score: 7},
		{Decision: filter.TimedOut},
	}
	if !c.client.ApplyDecision(c.Meta, c.slot, true, verdicts) {
		t.Error("the answer on MEP 2 was not taken")
	}
	clear(verdicts) // they are the judge's again
	r.rest(third, 2)
	if res := r.result(); res.MEP != 2 || res.Outcome != core.Built {
		t.Errorf("%+v", res)
	}
	if !a.client.ApplyDecision(a.Meta, a.slot, false, nil) {
		t.Error("the answer on MEP 0 was not taken")
	}
	if res := r.result(); res.MEP != 0 || res.Outcome != core.Rejected || res.Events != rigPacking {
		t.Errorf("%+v", res)
	}
	b.client.ApplyDecision(b.Meta, b.slot, true, nil)
	r.rest(second, 1)
	if res := r.result(); res.MEP != 1 || res.Outcome != core.Built {
		t.Errorf("%+v", res)
	}
	for _, x := range []pendingDecision{a, b, c} {
		if x.client.ApplyDecision(x.Meta, x.slot, true, nil) {
			t.Errorf("a second answer on MEP %d was taken", x.Meta.MEP)
		}
	}
	m := r.sink.metas[0]
	if len(m.Verdicts) != 3 || m.Verdicts[1].Score != 7 || m.Verdicts[2].Decision != filter.TimedOut {
		t.Errorf("%+v", m.Verdicts)
	}
	if len(r.sink.metas[1].Verdicts) > 0 {
		t.Errorf("MEP 1 has verdicts of another: %v", r.sink.metas[1].Verdicts)
	}
	checkMEP(t, r.sink.meps[0], 2, rigDivision.Sources())
	want := uint64(len(first[0].data) + len(first[2].data))
	if s := r.b.Stats(); s.SparedBytes != want || s.RejectedMEPs != 1 || s.UnrequestedParts != 2 || s.BuiltMEPs != 2 {
		t.Errorf("%d bytes spared, not %d: %+v", s.SparedBytes, want, s)
	}
}

// TestARegionIsAMEP holds that a region has the form of a MEP in which each source has its place.
func TestARegionIsAMEP(t *testing.T) {
	regions := make(chan pendingDecision, 1)
	r := newRig(t, func(_ *rig, c *Config) {
		c.Pull, c.Decide = Pull{RegionUnits: []int{1}}, func(ctx context.Context, r *Region) error {
			if n := testing.AllocsPerRun(100, func() { _, _ = r.AssembleMEP() }); n > 0 {
				t.Errorf("%v allocations for a region", n)
			}
			return later(regions)(ctx, r)
		}
	})
	pieces, a := r.region(0, 4, regions)
	var p selection.Packet
	must.OK(t, p.Parse(selection.Meta{}, a.mep))
	if p.NumEvents() != rigPacking || a.FirstEvent != 4*rigPacking || a.Events != rigPacking {
		t.Fatalf("%d events: %+v", p.NumEvents(), a.Meta)
	}
	e := p.Event(1, true)
	if len(e.Fragments) != rigDivision.Sources() || e.Number != a.FirstEvent+1 {
		t.Fatalf("event %d has %d fragments", e.Number, len(e.Fragments))
	}
	at := 0
	for i, f := range e.Fragments {
		of := rigDivision.FirstSource(1)
		here := i >= of && i < of+rigDivision.SourceCount(1)
		if int(f.Source) != i || (f.Type == event.FragmentMissing) == here {
			t.Errorf("place %d: source %d, type %v", i, f.Source, f.Type)
		}
		if !here {
			continue
		}
		m, err := event.ParseMFP(pieces[1].data[at : at+int(pieces[1].entries[i-of].Size)])
		must.OK(t, err)
		if !slices.Equal(f.Data, m.Fragment(1)) {
			t.Errorf("source %d has other data", i)
		}
		at += paddedBytes(pieces[1].entries[i-of].Size)
	}
	a.client.ApplyDecision(a.Meta, a.slot, false, nil)
	r.result()
}

// TestAnswersThatComeTooLate holds that Reset waits for a region that is being judged, and that after Close an answer
// has no effect.
func TestAnswersThatComeTooLate(t *testing.T) {
	regions := make(chan pendingDecision, 10)
	r := newRig(t, func(_ *rig, c *Config) { c.Pull, c.Decide = Pull{RegionUnits: []int{1}}, later(regions) })
	_, a := r.region(0, 0, regions)
	_, b := r.region(1, 1, regions)
	over := make(chan error, 1)
	go func() { over <- r.b.Reset(t.Context(), 0) }()
	a.client.ApplyDecision(a.Meta, a.slot, true, nil)
	select {
	case err := <-over:
		t.Fatalf("reset while a region was being judged: %v", err)
	default:
	}
	b.client.ApplyDecision(b.Meta, b.slot, false, nil)
	must.OK(t, patiently.Receive(t, over, "Reset did not return"))
	if res := r.result(); res.MEP != 1 || res.Outcome != core.Rejected {
		t.Errorf("%+v", res)
	}
	if s := r.b.Stats(); s.WithdrawnMEPs != 1 || s.Slots.Offered != 2 {
		t.Errorf("%+v", s)
	}
	_, c := r.region(0, 5, regions)
	r.close()
	if c.client.ApplyDecision(c.Meta, c.slot, true, nil) || r.b.Stats().IncompleteMEPs != 1 {
		t.Errorf("the closed unit took an answer: %+v", r.b.Stats())
	}
}

// TestTheLastOutcomeIsNotHeld holds that whatever is reported last brings all slots back, when a MEP is rejected while
// another one, built before, is still made safe.
func TestTheLastOutcomeIsNotHeld(t *testing.T) {
	regions := make(chan pendingDecision, 10)
	gate := &gatedSink{flushes: make(chan chan error)}
	r := newRig(t, func(r *rig, c *Config) {
		gate.catcher = r.sink
		c.Sink, c.Durable = gate, true
		c.Pull, c.Decide = Pull{RegionUnits: []int{1}, SlotsPerRelease: 8}, later(regions)
	})
	built, a := r.region(0, 0, regions)
	_, b := r.region(1, 1, regions)
	a.client.ApplyDecision(a.Meta, a.slot, true, nil)
	r.rest(built, 0)
	flush := patiently.Receive(t, gate.flushes)
	b.client.ApplyDecision(b.Meta, b.slot, false, nil)
	if res := r.result(); res.MEP != 1 || res.Outcome != core.Rejected {
		t.Errorf("%+v", res)
	}
	flush <- nil
	if res := r.result(); res.MEP != 0 || res.ReportHeld {
		t.Errorf("nothing is under way, and the last outcome is held: %+v", res)
	}
}
