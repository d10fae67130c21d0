package builderunit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// TestPullsWithinTheWindow holds that readout units are asked one after the other, from the one that Pull says.
func TestPullsWithinTheWindow(t *testing.T) {
	r := newRig(t, func(_ *rig, c *Config) { c.Pull = Pull{RequestCredit: 1, FirstUnit: 1} })
	pieces := []*piece{r.piece(0, 0), r.piece(1, 0), r.piece(2, 0)}
	for _, p := range pieces {
		r.announce(p, 0, 0)
	}
	for _, ru := range []int{1, 2, 0} {
		for i, rank := range r.ranks {
			if g := r.net.grant(rank, 0); i == ru && g.Length == 0 {
				t.Fatalf("readout unit %d is not asked", ru)
			}
		}
		if n := r.table.Stats().Granted; n != uint64(1+slices.Index([]int{1, 2, 0}, ru)) {
			t.Errorf("%d windows are granted when readout unit %d is next", n, ru)
		}
		if v := r.write(pieces[ru], r.net.grant(r.ranks[ru], 0), 0, len(pieces[ru].data)); v != 0 {
			t.Fatal(v)
		}
	}
	if got := r.result(); got.Outcome != core.Built {
		t.Errorf("%+v", got)
	}
	checkMEP(t, r.sink.meps[0], 0, rigDivision.Sources())
	if s := r.b.Stats(); s.OutstandingRequestsHigh != 1 || s.WindowsGranted != 3 {
		t.Errorf("%+v", s)
	}
}

// TestDecides holds what whoever decides is shown, and what becomes of what is accepted and of what is not.
func TestDecides(t *testing.T) {
	shown := make(chan []uint16, 10)
	r := newRig(t, func(_ *rig, c *Config) {
		c.Pull = Pull{RegionUnits: []int{2, 0}}
		c.Decide = decideAtOnce(func(mep uint64, mfps [][]byte) bool {
			var sources []uint16
			for _, b := range mfps {
				m, err := event.ParseMFP(b)
				if err != nil || m.FirstEvent() != mep*rigPacking {
					t.Errorf("MEP %d: %v", mep, err)
				}
				sources = append(sources, m.Source())
			}
			shown <- sources
			return mep == 1
		})
	})
	for mep := range uint64(2) {
		pieces := []*piece{r.piece(0, mep*rigPacking), r.piece(1, mep*rigPacking), r.piece(2, mep*rigPacking)}
		for _, p := range pieces {
			r.announce(p, int(mep), mep)
		}
		for _, ru := range []int{0, 2} {
			if g := r.net.grant(r.ranks[1], mep); g.Length != 0 {
				t.Fatal("the rest is asked for before the decision")
			}
			if v := r.write(pieces[ru], r.net.grant(r.ranks[ru], mep), 0, len(pieces[ru].data)); v != 0 {
				t.Fatal(v)
			}
		}
		if got := patiently.Receive(t, shown); !slices.Equal(got, []uint16{0, 1, 5}) {
			t.Errorf("sources %v are shown", got)
		}
		if mep == 1 {
			g := r.awaitGrant(1, mep)
			if v := r.write(pieces[0], r.net.grant(r.ranks[0], mep), 0, 4); v != shmem.StaleGen {
				t.Errorf("what was decided on can be written again: %v", v)
			}
			if v := r.write(pieces[1], g, 0, len(pieces[1].data)); v != 0 {
				t.Fatal(v)
			}
		}
		want := MEPResult{
			Feedback: core.Feedback{
				Slot:    uint32(mep),
				MEP:     mep,
				Attempt: 1,
				Outcome: core.Rejected,
				Events:  rigPacking,
			},
		}
		if mep == 1 {
			want.Outcome, want.FirstEvent = core.Built, mep*rigPacking
		}
		got := r.result()
		if got.CompletedAt = (time.Time{}); got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	if len(r.sink.meps) != 1 {
		t.Fatalf("%d MEPs reached the sink", len(r.sink.meps))
	}
	checkMEP(t, r.sink.meps[0], 1, rigDivision.Sources())
	s := r.b.Stats()
	if s.BuiltMEPs != 1 || s.RejectedMEPs != 1 || s.RejectedMFPs != 3 || s.UnrequestedMFPs != 3 ||
		s.UnrequestedParts != 1 || s.IncompleteMEPs != 0 || s.WindowsGranted != 5 {
		t.Errorf("%+v", s)
	}
	r.close()
	if s := r.b.Stats(); s.Slots.Abandons != 1 {
		t.Errorf("%+v", s.Slots)
	}
}

// decideAtOnce decides on regions when it is asked.
func decideAtOnce(keep func(mep uint64, mfps [][]byte) bool) func(context.Context, *Region) error {
	return func(_ context.Context, r *Region) error {
		r.Decide(keep(r.Meta.MEP, r.MFPs))
		return nil
	}
}

// awaitGrant waits for what the finisher asks for.
func (r *rig) awaitGrant(ru int, mep uint64) placing.Grant {
	r.t.Helper()
	for limit := time.Now().Add(testTimeout); time.Now().Before(limit); time.Sleep(100 * time.Microsecond) {
		if g := r.net.grant(r.ranks[ru], mep); g.Length != 0 {
			return g
		}
	}
	r.t.Fatal("nothing was asked for after the decision")
	return placing.Grant{}
}

// TestRegionIsVerified holds that nothing is decided on bytes that are not those that were sent.
func TestRegionIsVerified(t *testing.T) {
	r := newRig(t, func(_ *rig, c *Config) {
		c.Pull = Pull{RegionUnits: []int{1}}
		c.Decide = decideAtOnce(func(uint64, [][]byte) bool { t.Error("decided on a damaged MFP"); return false })
	})
	pieces := []*piece{r.piece(0, 0), r.piece(1, 0), r.piece(2, 0)}
	for _, p := range pieces {
		r.announce(p, 0, 0)
	}
	pieces[1].data[event.MFPHeaderSize(rigPacking)] ^= 1
	if v := r.write(pieces[1], r.net.grant(r.ranks[1], 0), 0, len(pieces[1].data)); v != 0 {
		t.Fatal(v)
	}
	var bad *DataError
	if err := r.failure(); !errors.As(err, &bad) || bad.Source != 2 {
		t.Errorf("%v", err)
	}
	r.close()
	if s := r.b.Stats(); s.IncompleteMEPs != 1 {
		t.Errorf("%+v", s)
	}
}

// TestHoldsOutcomes holds that outcomes are held while others will come, and only then.
func TestHoldsOutcomes(t *testing.T) {
	r := newRig(t, func(_ *rig, c *Config) { c.Pull = Pull{SlotsPerRelease: 2} })
	pieces := func(mep uint64) []*piece {
		return []*piece{r.piece(0, mep*rigPacking), r.piece(1, mep*rigPacking), r.piece(2, mep*rigPacking)}
	}
	r.build(pieces(0), 0, 0)
	if got := r.result(); got.ReportHeld {
		t.Error("the only outcome is held")
	}
	r.announce(r.piece(0, 2*rigPacking), 1, 2) // under way
	r.build(pieces(1), 0, 1)
	if got := r.result(); !got.ReportHeld {
		t.Error("an outcome is not held, though another will come")
	}
	for ru := 1; ru < 3; ru++ {
		r.announce(r.piece(ru, 2*rigPacking), 1, 2)
	}
	for _, p := range pieces(2) {
		if v := r.write(p, r.net.grant(r.ranks[p.ru], 2), 0, len(p.data)); v != 0 {
			t.Fatal(v)
		}
	}
	if got := r.result(); got.ReportHeld {
		t.Error("the last outcome of a group is held")
	}
}

func TestRegionNeedsDecide(t *testing.T) {
	r := newRig(t, nil)
	r.close()
	cfg := r.config(func(_ *rig, c *Config) { c.Pull = Pull{RegionUnits: []int{0}} })
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "nothing judges it") {
		t.Errorf("%v", err)
	}
}

// TestAcceptShare holds that the share is kept, that the seed matters, and that the ends are exact.
func TestAcceptShare(t *testing.T) {
	const n = 100_000
	for _, share := range []float64{0, 0.01, 0.3, 1} {
		a, b := AcceptShare(share, 1), AcceptShare(share, 2)
		accepted, differ := 0, 0
		for mep := range uint64(n) {
			if a(mep) {
				accepted++
			}
			if a(mep) != b(mep) {
				differ++
			}
		}
		spread := math.Sqrt(n * share * (1 - share))
		if math.Abs(float64(accepted)-share*n) > 6*spread || (differ > 0) != (spread > 0) {
			t.Errorf("of a share of %v, %d of %d are accepted; %d by one seed alone", share, accepted, n, differ)
		}
	}
}

// TestPullingDoesNotAllocate takes MEPs, every other rejected, through the core with a request credit.
func TestPullingDoesNotAllocate(t *testing.T) {
	const rus = 4
	a := NewAssembler(rus, 4, 4096, Pull{
		RequestCredit:   2,
		FirstUnit:       1,
		RegionUnits:     []int{2, 3},
		SlotsPerRelease: 2,
	})
	var done [1]uint32
	entries := []placing.Entry{{Size: 40}}
	mep := uint64(0)
	turn := func() {
		slot := int(mep % 4)
		for ru := range rus {
			m := placing.Announce{
				RU:          uint16(ru),
				Attempt:     1,
				StreamCount: 1,
				MEP:         mep,
				Slot:        uint32(slot),
				Entries:     entries,
			}
			if _, err := a.Announce(&m); err != nil {
				t.Fatal(err)
			}
		}
		for _, ru, ok := a.NextRequest(); ok; _, ru, ok = a.NextRequest() {
			ref := shmem.Ref{Window: uint32(ru), Gen: uint32(mep) + 1}
			a.RecordGrant(slot, ru, ref)
			_, size := a.PartRange(slot, ru)
			switch placed(a, slot, ru, ref, uint32(size)) {
			case CompletedRegion:
				if mep%2 == 0 {
					a.Accept(slot)
				} else {
					a.Reject(slot)
				}
			case CompletedMEP:
				done[0] = uint32(slot)
				a.Finish(done[:], 0, 0)
			}
		}
		a.HoldOutcome()
		mep++
	}
	for range 10 {
		turn()
	}
	if n := testing.AllocsPerRun(1000, turn); n > 0 {
		t.Errorf("%v allocations per MEP", n)
	}
	if s := a.Stats(); s.BuiltMEPs+s.RejectedMEPs != mep || s.BuiltMEPs < mep/2-1 {
		t.Errorf("%+v after %d MEPs", s, mep)
	}
}
