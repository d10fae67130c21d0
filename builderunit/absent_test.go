package builderunit

import (
	"slices"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/tagnet/core"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// tolerant makes a builder unit that goes on without readout units.
func tolerant(_ *rig, c *Config) { c.Division, c.MaxEventsPerMEP = rigDivision, rigPacking }

// missingSources reads which sources of a MEP that the sink has have nothing but missing fragments, and holds that the
// others have their data.
func (r *rig) missingSources(i int) (sources []uint16) {
	r.t.Helper()
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	m, err := event.ParseMEP(r.sink.meps[i])
	must.OK(r.t, err)
	if n := rigDivision.Sources(); m.NumMFPs() != n {
		r.t.Fatalf("%d MFPs, want %d", m.NumMFPs(), n)
	}
	for k := range m.NumMFPs() {
		mfp, err := m.MFP(k)
		must.OK(r.t, err)
		if int(mfp.Source()) != k || mfp.NumFragments() != r.sink.metas[i].Events ||
			mfp.FirstEvent() != r.sink.metas[i].FirstEvent {
			r.t.Errorf("MFP %d: source %d, %d events from %d; the MEP has %+v", k, mfp.Source(), mfp.NumFragments(),
				mfp.FirstEvent(), r.sink.metas[i])
		}
		if mfp.FragmentType(0) == event.FragmentMissing {
			sources = append(sources, mfp.Source())
			continue
		}
		must.OK(r.t, r.rule.CheckMFP(mfp))
	}
	return sources
}

// sourcesOf are the sources of a readout unit.
func sourcesOf(ru int) (all []uint16) {
	for i := range rigDivision.SourceCount(ru) {
		all = append(all, uint16(rigDivision.FirstSource(ru)+i))
	}
	return all
}

func (r *rig) wantMissing(i int, want ...uint16) {
	r.t.Helper()
	got := r.missingSources(i)
	if !slices.Equal(got, want) {
		r.t.Errorf("MEP %d lacks the sources %v, want %v", i, got, want)
	}
}

// TestGone takes a readout unit away while MEPs are at each stage, and gives it back.
func TestGone(t *testing.T) {
	for lost := range 3 {
		r := newRigWithSlots(t, 5, tolerant)
		of := func(mep uint64) (all []*piece) {
			for ru := range r.ranks {
				all = append(all, r.piece(ru, mep*rigPacking))
			}
			return all
		}
		place := func(p *piece, mep uint64) {
			t.Helper()
			if v := r.write(p, r.net.grant(r.ranks[p.ru], mep), 0, len(p.data)); v != 0 {
				t.Fatal(v)
			}
		}
		others := []int{(lost + 1) % 3, (lost + 2) % 3}
		// In slot 0 the lost one's part is in place; in 1 it is granted; in 2 it has announced; in 3 it has not.
		for mep := range uint64(4) {
			for ru, p := range of(mep) {
				if mep < 2 || mep == 2 && ru != others[0] || mep == 3 && ru == others[1] {
					r.announce(p, int(mep), mep)
				}
			}
		}
		place(of(0)[lost], 0)
		late := r.net.grant(r.ranks[lost], 1)
		place(of(1)[others[0]], 1)
		must.OK(t, r.b.MarkRUGone(lost, true))
		must.OK(t, r.b.MarkRUGone(lost, true))
		if v := r.write(of(1)[lost], late, 0, len(of(1)[lost].data)); v == 0 {
			t.Error("a late write was let in")
		}
		must.OK(t, r.b.HandleAnnounce(r.ranks[lost], of(3)[lost].announcement(3, 3, 1))) // late, too
		place(of(1)[others[1]], 1)
		for _, ru := range others {
			place(of(0)[ru], 0)
		}
		r.announce(of(2)[others[0]], 2, 2)
		r.announce(of(3)[others[0]], 3, 3)
		for mep := uint64(2); mep < 4; mep++ {
			for _, ru := range others {
				place(of(mep)[ru], mep)
			}
		}
		for _, ru := range others { // and one of which it is known from the beginning
			r.announce(of(4)[ru], 4, 4)
		}
		for _, ru := range others {
			place(of(4)[ru], 4)
		}
		byMEP := map[uint64]int{}
		for i := range 5 {
			res := r.result()
			if res.Outcome != core.Built || res.Events != rigPacking {
				t.Errorf("%+v", res)
			}
			byMEP[res.MEP] = i
		}
		lacks := sourcesOf(lost)
		r.wantMissing(byMEP[0])
		for mep := uint64(1); mep < 5; mep++ {
			r.wantMissing(byMEP[mep], lacks...)
		}
		must.OK(t, r.b.MarkRUBack(lost, 9))
		r.build(of(9), 0, 9)
		r.announce(of(8)[others[0]], 1, 8) // one from before, given again
		r.announce(of(8)[others[1]], 1, 8)
		place(of(8)[others[0]], 8)
		place(of(8)[others[1]], 8)
		r.result()
		r.result()
		r.wantMissing(5)
		r.wantMissing(6, lacks...)
		st := r.b.Stats()
		want := MissingCounts{
			MEPs:     5,
			Events:   5 * rigPacking,
			FirstMEP: 1,
			LastMEP:  8,
		}
		missing := 5 * uint64(len(lacks))
		if got := r.b.MissingByRU()[lost]; got != want || st.MEPsLackingParts != 5 || st.MissingMFPs != missing ||
			st.PlacedMFPs+st.MissingMFPs != st.BuiltMEPs*uint64(rigDivision.Sources()) ||
			st.MissingFragments != missing*rigPacking || st.RejectedPlacements != 0 || st.LateParts == 0 {
			t.Errorf("%+v, want %+v; %+v", got, want, st)
		}
		r.close()
	}
}

// TestGonePreGranted is TestGone where windows are pre-granted.
func TestGonePreGranted(t *testing.T) {
	for lost := range 3 {
		r := newPreGrantedRig(t, 4, tolerant)
		others := []int{(lost + 1) % 3, (lost + 2) % 3}
		place := func(ru, slot int, mep uint64) {
			t.Helper()
			r.b.Placed(r.ranks[ru], r.place(r.part(ru, mep), slot, mep, 1))
		}
		place(lost, 0, 0)
		place(others[0], 1, 1)
		place(others[0], 2, 2)
		place(others[1], 2, 2)
		late := r.place(r.part(lost, 1), 1, 1, 1)
		must.OK(t, r.b.MarkRUGone(lost, true))
		must.OK(t, r.b.MarkRUGone(lost, true))
		r.b.Placed(r.ranks[lost], late)
		place(others[1], 1, 1)
		place(others[1], 3, 3)
		place(others[0], 3, 3)
		place(others[0], 0, 0)
		place(others[1], 0, 0)
		byMEP := map[uint64]int{}
		for i := range 4 {
			byMEP[r.result().MEP] = i
		}
		lacks := sourcesOf(lost)
		r.wantMissing(byMEP[0])
		for mep := uint64(1); mep < 4; mep++ {
			r.wantMissing(byMEP[mep], lacks...)
		}
		must.OK(t, r.b.MarkRUBack(lost, 9))
		r.windows.mu.Lock()
		delete(r.windows.refs, r.ranks[lost])
		r.windows.mu.Unlock()
		r.requestWindows(r.ranks[lost])
		r.buildPreGranted(0, 9)
		place(others[0], 1, 8)
		place(others[1], 1, 8)
		r.result()
		r.result()
		r.wantMissing(4)
		r.wantMissing(5, lacks...)
		if st := r.b.Stats(); st.RejectedPlacements != 0 || st.LateParts != 1 || st.MEPsLackingParts != 4 ||
			r.b.MissingByRU()[lost].LastMEP != 8 {
			t.Errorf("%+v, %+v", st, r.b.MissingByRU())
		}
		r.close()
	}
}

// TestGoneTwice has a readout unit go a second time while a MEP from before its return waits for the others: the MEP
// lacks its part, and no other.
func TestGoneTwice(t *testing.T) {
	r := newPreGrantedRig(t, 4, tolerant)
	const lost, back = 1, uint64(9)
	placed := uint64(0)
	place := func(ru, slot int, mep uint64) {
		t.Helper()
		r.b.Placed(r.ranks[ru], r.place(r.part(ru, mep), slot, mep, 1))
		placed++
		patiently.Until(t, "the part is in place", func() bool { return r.b.Stats().PartsInPlace == placed })
	}
	place(0, 0, 7) // its slot is filling at the first loss, that of MEP 8 begins behind it
	must.OK(t, r.b.MarkRUGone(lost, true))
	place(0, 1, 8)
	must.OK(t, r.b.MarkRUBack(lost, back))
	r.windows.mu.Lock()
	delete(r.windows.refs, r.ranks[lost])
	r.windows.mu.Unlock()
	r.requestWindows(r.ranks[lost])
	place(0, 2, back)
	must.OK(t, r.b.MarkRUGone(lost, true))
	r.b.mu.Lock()
	for slot, mep := range []uint64{7, 8, back} {
		if s := r.b.asm.slots[slot]; s.phase != slotFilling || s.mep != mep || s.completedParts != 2 {
			t.Errorf("slot %d is %s with %d parts of MEP %d", slot, s.phase, s.completedParts, s.mep)
		}
	}
	r.b.mu.Unlock()
	if t.Failed() {
		t.FailNow()
	}
	for slot, mep := range []uint64{7, 8, back} {
		place(2, slot, mep)
	}
	for i := range 3 {
		r.result()
		r.wantMissing(i, sourcesOf(lost)...)
	}
	if st := r.b.Stats(); st.RejectedPlacements != 0 {
		t.Errorf("%+v", st)
	}
	r.close()
}

// TestBackBeforeThisUnit holds that a readout unit which was gone and back before this unit began keeps its pre-granted
// windows, and that what it lacks is known.
func TestBackBeforeThisUnit(t *testing.T) {
	r := newPreGrantedRig(t, 4, tolerant)
	const back, mep = 1, uint64(9)
	before := slices.Clone(r.windows.refsOfRank(r.ranks[back]))
	must.OK(t, r.b.MarkRUBack(back, mep))
	r.windows.mu.Lock()
	delete(r.windows.refs, r.ranks[back])
	r.windows.mu.Unlock()
	r.requestWindows(r.ranks[back])
	if now := r.windows.refsOfRank(r.ranks[back]); len(before) == 0 || !slices.Equal(before, now) {
		t.Errorf("its windows are %v, and were %v", now, before)
	}
	r.buildPreGranted(0, mep)
	for _, ru := range []int{0, 2} { // one that was issued before its return
		r.b.Placed(r.ranks[ru], r.place(r.part(ru, mep-1), 1, mep-1, 1))
	}
	r.result()
	r.result()
	r.wantMissing(0)
	r.wantMissing(1, sourcesOf(back)...)
	r.close()
}

// TestGoneRequested has parts asked for one after the other, of a region of interest and then of the rest.
func TestGoneRequested(t *testing.T) {
	for lost := range 3 {
		r := newRig(t, func(r *rig, c *Config) {
			tolerant(r, c)
			c.Pull = Pull{RequestCredit: 1, RegionUnits: []int{1, 2}}
			c.Decide = decideAtOnce(func(uint64, [][]byte) bool { return true })
		})
		grants := map[int]chan placing.Grant{}
		for _, rank := range r.ranks {
			grants[rank] = make(chan placing.Grant, 10)
		}
		r.net.to = grants
		for ru := range r.ranks {
			r.announce(r.piece(ru, rigPacking), 0, 1)
		}
		must.OK(t, r.b.MarkRUGone(lost, true))
		for _, ru := range []int{1, 2, 0} { // those of the region of interest first
			if ru == lost {
				continue
			}
			g := patiently.Receive(t, grants[r.ranks[ru]], "a part was not asked for")
			p := r.piece(ru, rigPacking)
			if v := r.write(p, g, 0, len(p.data)); v != 0 {
				t.Fatal(v)
			}
		}
		if res := r.result(); res.Outcome != core.Built {
			t.Errorf("%+v", res)
		}
		r.wantMissing(0, sourcesOf(lost)...)
		r.close()
	}
}

// TestGoneRegion takes all of the region of interest away: what is decided then has no data, and takes effect.
func TestGoneRegion(t *testing.T) {
	shown := make(chan int, 2)
	r := newRig(t, func(r *rig, c *Config) {
		tolerant(r, c)
		c.Pull = Pull{RegionUnits: []int{1}}
		c.Decide = decideAtOnce(func(mep uint64, mfps [][]byte) bool {
			shown <- len(mfps)
			return mep == 1
		})
	})
	must.OK(t, r.b.MarkRUGone(1, true))
	for mep := range uint64(2) {
		pieces := []*piece{r.piece(0, mep*rigPacking), r.piece(2, mep*rigPacking)}
		for _, p := range pieces {
			r.announce(p, int(mep), mep)
		}
		if n := patiently.Receive(t, shown, "nothing was decided"); n != 0 {
			t.Errorf("%d MFPs are shown", n)
		}
		want := core.Rejected
		if mep == 1 {
			want = core.Built
			for _, p := range pieces {
				if v := r.write(p, r.awaitGrant(p.ru, mep), 0, len(p.data)); v != 0 {
					t.Fatal(v)
				}
			}
		}
		if res := r.result(); res.Outcome != want {
			t.Errorf("%+v", res)
		}
	}
	r.wantMissing(0, sourcesOf(1)...)
	r.close()
}

// TestGoneNotTolerated holds that a builder unit which does not know what readout units have does not go on without
// one.
func TestGoneNotTolerated(t *testing.T) {
	r := newRig(t, nil)
	if err := r.b.MarkRUGone(0, true); err == nil {
		t.Error("it goes on")
	}
}

// TestOtherSources holds that a readout unit which has not the sources that the configuration gives it is refused: the
// ids of all sources behind them would be wrong.
func TestOtherSources(t *testing.T) {
	r := newRig(t, tolerant)
	p := r.piece(1, 0)
	p.entries = p.entries[:2]
	err := r.b.HandleAnnounce(r.ranks[1], p.announcement(0, 0, 1))
	if err == nil || !strings.Contains(err.Error(), "it says 2 streams, and the readout unit has 3 sources") {
		t.Error(err)
	}
	cfg := r.config(tolerant)
	cfg.Division = placing.EvenDivision(2, 3)
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "gives the sources of 2 readout units") {
		t.Error(err)
	}
}

// TestGoneWithSmallSizes holds that a readout unit which has announced MFPs shorter than the ones made in their place
// costs the others nothing.
func TestGoneWithSmallSizes(t *testing.T) {
	for lost := range 3 {
		r := newRig(t, tolerant)
		var pieces []*piece
		for ru := range r.ranks {
			p := r.piece(ru, 0)
			for i := range p.entries {
				if ru == lost {
					p.entries[i].Size = event.MFPFixedSize
				}
			}
			pieces = append(pieces, p)
			r.announce(p, 0, 0)
		}
		must.OK(t, r.b.MarkRUGone(lost, true))
		for ru, p := range pieces {
			if ru == lost {
				continue
			}
			if v := r.write(p, r.net.grant(r.ranks[ru], 0), 0, len(p.data)); v != 0 {
				t.Fatal(v)
			}
		}
		if res := r.result(); res.Outcome != core.Built || !res.PartsMissing {
			t.Errorf("%+v", res)
		}
		r.wantMissing(0, sourcesOf(lost)...)
		r.close()
	}
}
