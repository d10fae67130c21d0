package readoutunit

import (
	"io"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event/placing"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// TestRejectionsAgainstModel has tokens, decisions with gaps, outcomes and writes at random: a MEP goes when all before
// it have gone, and the scheduler has its outcome, or all its events were reported as rejected, its token came, and
// nothing is to be done for it.
func TestRejectionsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const held = 8
		rule := RejectionPolicy{Packing: rapid.IntRange(1, 4).Draw(t, "packing"),
			IncludesWritten: rapid.Bool().Draw(t, "written")}
		packing := uint64(rule.Packing)
		r := NewRejections(rule, held)
		var released, base, given, event uint64 // MEPs, MEPs, MEPs, events
		var freed uint64
		rejected, over := map[uint64]uint64{}, map[uint64]bool{}
		size := func(mep uint64) int { return int(mep) + 1 }
		free := func(t *rapid.T) {
			got := r.Release(released, func(bu int, slot uint32, mep uint64, written bool) bool {
				if bu != int(mep%3) || slot != uint32(mep%5) || written != rule.IncludesWritten {
					t.Fatalf("MEP %d went to builder unit %d, slot %d", mep, bu, slot)
				}
				return over[mep]
			}, size)
			for base = max(base, released); base < given && rejected[base] == packing && over[base]; base++ {
				freed += uint64(size(base))
			}
			if got != base || r.Stats().FreedBytes != freed {
				t.Fatalf("MEPs below %d are free, %d bytes early, and should be %d, %d: %+v", got, r.Stats().FreedBytes, base,
					freed, r)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"token": func(t *rapid.T) {
				if given >= base+held {
					t.Skip("all memory is in use")
				}
				r.AddToken(given, uint16(given%3), uint32(given%5))
				given++
			},
			"over": func(t *rapid.T) { over[rapid.Uint64Range(base, base+held).Draw(t, "mep")] = true },
			"released": func(t *rapid.T) {
				released = rapid.Uint64Range(released, max(released, given)).Draw(t, "below")
			},
			"decided": func(t *rapid.T) { // also before the token is here, but not before the MEP can be held
				event = max(event, base*packing) // of the others nothing matters any more
				n := rapid.Uint64Range(1, 3*packing).Draw(t, "events")
				n = min(n, (base+held)*packing-event)
				if n == 0 {
					t.Skip("so far nothing can be decided")
				}
				if rapid.IntRange(0, 3).Draw(t, "decision") > 0 {
					r.MarkRejected(event, n)
					for e := event; e < event+n; e++ {
						rejected[e/packing]++
					}
				}
				event += n
			},
			"": free,
		})
	})
}

// A row that comes again from a decision unit that is back does not count twice, and what nobody can hold is nobody's.
func TestRejectionsComeAgain(t *testing.T) {
	r := NewRejections(RejectionPolicy{Packing: 10}, 4)
	for mep := range uint64(4) {
		r.AddToken(mep, 0, uint32(mep))
	}
	free := func() uint64 {
		return r.Release(0, func(int, uint32, uint64, bool) bool { return true }, func(uint64) int { return 1 })
	}
	r.MarkRejected(0, 6)
	r.MarkRejected(2, 6) // events 8 and 9 were accepted
	if free() != 0 {
		t.Error("MEP 0 is free, of which two events were never reported as rejected")
	}
	r.MarkRejected(0, 25)
	if got := free(); got != 2 {
		t.Errorf("MEPs below %d are free, not 2", got)
	}
	r.MarkRejected(25, 1<<47)
	if got := free(); got != 4 {
		t.Errorf("MEPs below %d are free, not 4", got)
	}
	none := NewRejections(RejectionPolicy{}, 4)
	none.AddToken(0, 0, 0)
	none.MarkRejected(0, 10)
	if none.Release(0, nil, nil) != 0 || none.Release(3, nil, nil) != 3 {
		t.Error("without a rule the scheduler's outcomes count alone")
	}
}

// A transfer whose MEP was rejected is over if it was never asked for; one that was written only where that is said,
// and when its write has its outcome; one that is being asked for never is.
func TestRejectEndsWhatWasNotAskedFor(t *testing.T) {
	u := newPulled(1, 4)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for mep := range uint64(4) {
		must(u.AddCycle(batch(mep, []core.Token{newToken(mep, uint32(mep))}), 0))
	}
	grant := func(mep uint64) error {
		return u.ApplyGrant(0, &placing.Grant{
			MEP:     mep,
			Slot:    uint32(mep),
			Attempt: 1,
			Window:  1,
			Gen:     uint32(mep) + 1,
			Length:  4,
		})
	}
	is := func(mep uint64, written, want bool) {
		t.Helper()
		if got := u.Reject(0, uint32(mep), mep, written); got != want {
			t.Errorf("MEP %d, written %v: %v", mep, written, got)
		}
	}
	must(grant(1))
	is(1, true, false)
	_, n := u.Next()
	u.Serve(n, 1, nil)
	is(1, true, false)
	must(u.Complete([]uint64{n}))
	is(1, false, false)
	is(1, true, true)
	is(2, false, true)
	if u.UnrequestedTransfers() != 1 || u.OpenTransfers() != 2 {
		t.Errorf("%d transfers were never asked for, %d are open", u.UnrequestedTransfers(), u.OpenTransfers())
	}
	if grant(2) == nil {
		t.Error("a part is granted a window that was given up")
	}
	must(u.AddCycle(batch(4, []core.Token{newToken(4, 2)}), 0)) // MEP 2 was over
	is(2, false, true)
	u.Release(5)
	if u.UnrequestedTransfers() != 4 || u.OpenTransfers() != 0 {
		t.Errorf("%d transfers were never asked for, %d are open", u.UnrequestedTransfers(), u.OpenTransfers())
	}
	for _, bad := range []struct {
		bu   int
		slot uint32
	}{{1, 0}, {0, 4}} {
		if u.Reject(bad.bu, bad.slot, 0, true) {
			t.Errorf("%+v is over, which is nobody's slot", bad)
		}
	}
	if newFree(1, 1).Reject(0, 0, 0, true) {
		t.Error("something is given up where builder units do not ask")
	}
}

// TestMemoryOfRejectedMEPsIsUsedAgain holds that a unit reads on into the memory of MEPs that were rejected, before the
// scheduler has any outcome, and does not mind that the scheduler holds up such ones.
func TestMemoryOfRejectedMEPsIsUsedAgain(t *testing.T) {
	r := newRig(t, &scripted{blocks: 10, end: io.EOF}, func(r *rig, c *Config) {
		c.Retention, c.Transfers, c.Rejection = newRetention(t, 1, 40, 3), newPulled(3, 2), RejectionPolicy{Packing: 1}
		c.UnheldPhases, r.net.mute = true, true
	})
	r.until("three blocks", func() bool { return r.sched.last().ReadBelow == 3 })
	r.unit.HandleRejected(1, 2) // before their tokens are here
	r.sched.send(0, 0, []core.Token{newToken(0, 0), newToken(1, 0), newToken(2, 0)})
	r.until("their announcements", func() bool { return r.unit.Stats().OpenTransfers == 3 })
	if s := r.unit.Stats(); s.RejectionStats != (RejectionStats{}) {
		t.Errorf("%+v are given up, and MEP 0 is before them", s.RejectionStats)
	}
	r.unit.HandleRejected(0, 1)
	r.until("three more", func() bool { return r.sched.last().ReadBelow == 6 })
	part := uint64(placing.PartSize(1, 40))
	if s := r.unit.Stats(); s.RejectionStats != (RejectionStats{FreedMEPs: 3, FreedMFPs: 3, FreedBytes: 3 * part}) ||
		s.UnrequestedTokens != 3 || s.OpenTransfers != 0 {
		t.Errorf("%+v", s)
	}
	r.sched.tokens <- tagnet.Tokens{
		State:    core.Running,
		Released: 3,
		HeldUp:   []uint64{1},
		Batch:    *batch(1, []core.Token{newToken(3, 1), none, none}),
	}
	r.until("the next token", func() bool { return r.unit.Stats().OpenTransfers == 1 })
	r.unit.mu.Lock()
	if len(r.unit.cfg.Retention.heldUp) != 0 {
		t.Error("something else is put aside in place of a MEP that was given up")
	}
	r.unit.mu.Unlock()
	r.sched.send(2, 6)
	r.until("the rest", func() bool { return r.sched.last().ReadBelow == 9 })
}

// Nothing is allocated to give up what was rejected.
func TestRejectionsAllocateNothing(t *testing.T) {
	order := newPulled(1, 1)
	r := NewRejections(RejectionPolicy{Packing: 1}, 8)
	mep := uint64(0)
	cycles := batch(0, []core.Token{newToken(0, 0)})
	if n := testing.AllocsPerRun(1000, func() {
		cycles.FirstCycle, cycles.MEPs[0] = mep, mep
		if err := order.AddCycle(cycles, 0); err != nil {
			t.Fatal(err)
		}
		r.AddToken(mep, 0, 0)
		r.MarkRejected(mep, 1)
		if r.Release(0, order.Reject, func(uint64) int { return 40 }) != mep+1 {
			t.Fatal("a rejected MEP stays")
		}
		mep++
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRejectedBeforeItIsAnnounced: a builder unit may reject a MEP by the parts of others before this unit has
// announced its own, and the decision may be here before the token. Its announcement still has a part to tell of.
func TestRejectedBeforeItIsAnnounced(t *testing.T) {
	for range 50 {
		r := newRig(t, &scripted{blocks: 10, end: io.EOF}, func(r *rig, c *Config) {
			c.Retention, c.Transfers, c.Rejection = newRetention(t, 1, 40, 3), newPulled(3, 2), RejectionPolicy{Packing: 1}
			c.UnheldPhases, r.net.mute = true, true
		})
		r.until("three blocks", func() bool { return r.sched.last().ReadBelow == 3 })
		r.unit.HandleRejected(0, 3)
		r.sched.send(0, 0, []core.Token{newToken(0, 0), newToken(1, 0), newToken(2, 0)})
		r.until("three more", func() bool { return r.sched.last().ReadBelow == 6 })
		if s := r.unit.Stats(); s.RejectionStats.FreedMEPs != 3 || s.OpenTransfers != 0 {
			t.Fatalf("%+v", s)
		}
	}
}
