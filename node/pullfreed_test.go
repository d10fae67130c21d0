package node_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/builderunit"
	"ringlet/readoutunit"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// retained is which MEPs a readout unit of a farm still has.
type retained struct {
	rejected     *readoutunit.Rejections
	released     uint64   // as the scheduler told
	gone         uint64   // MEPs below are given up
	aside        []uint64 // but these
	copies       []uint64 // MEPs that were written from what was put aside, which stays as long as the link needs it
	decidedBelow uint64   // decisions on MEPs below it came, or were missed
}

func newRetained(cfg farmConfig) retained {
	return retained{rejected: readoutunit.NewRejections(cfg.rejection, cfg.meps)}
}

// openTransfers makes the transfers of a readout unit in a discipline.
func openTransfers(discipline string, c readoutunit.DisciplineConfig) *readoutunit.Transfers {
	i := slices.IndexFunc(readoutunit.Disciplines, func(d readoutunit.Discipline) bool { return d.Name == discipline })
	return readoutunit.Disciplines[i].Open(c)
}

// putAside is done with tokens that come, before anything is given up.
func (u *farmRU) putAside(t *tagnet.Tokens) {
	had := u.aside
	u.aside = nil
	for _, mep := range t.HeldUp {
		if mep >= u.gone || slices.Contains(had, mep) {
			u.aside = append(u.aside, mep)
		}
	}
	u.released = t.Released
}

// freeReleased gives up what a readout unit does, and no part that is being written.
func (u *farmRU) freeReleased() {
	below := u.rejected.Release(u.released, u.Reject, func(uint64) int { return 1 })
	for _, n := range u.writes {
		below = min(below, u.TransferAt(n).MEP)
	}
	u.gone = max(u.gone, below)
}

// checkHeld holds that a readout unit has its part of a MEP, which is about to be used.
func (f *farm) checkHeld(ru int, mep uint64) {
	if u := f.rus[ru]; mep < u.gone && !slices.Contains(u.aside, mep) {
		f.t.Fatalf("ru%d has given up MEP %d, below %d, and is to use it: %+v", ru, mep, u.gone, f.meps[mep])
	}
}

// decisionSteps are what a readout unit may hear now of decisions, which come in order.
func (f *farm) decisionSteps(out []step, ru int) []step {
	u := f.rus[ru]
	if f.cfg.rejection.Packing == 0 || u.decidedBelow >= uint64(len(f.meps)) {
		return out
	}
	for mep := range u.decidedBelow + 1 {
		if f.meps[mep].outcome == 0 { // no builder unit has said anything, and the decision unit waits
			return out
		}
	}
	out = append(out, step{f.deliverDecision, ru})
	if f.cfg.losesDecisions {
		out = append(out, step{f.loseDecision, ru})
	}
	return out
}

func (f *farm) deliverDecision(ru int) {
	u := f.rus[ru]
	if f.meps[u.decidedBelow].outcome == core.Rejected {
		u.rejected.MarkRejected(u.decidedBelow, 1)
	}
	u.decidedBelow++
	u.freeReleased()
}

func (f *farm) loseDecision(ru int) { f.rus[ru].decidedBelow++ }

// freed is how many MEPs readout units gave up by decisions.
func (f *farm) freed() (n uint64) {
	for _, u := range f.rus {
		n += u.rejected.Stats().FreedMEPs
	}
	return n
}

// TestFreedIsNotFetched holds that nothing is fetched, announced or sent again that a readout unit gave up since its
// events were rejected: whichever decisions it hears, and when, with a decision unit that stands still or is lost
// meanwhile, and with a builder unit that finishes nothing.
func TestFreedIsNotFetched(t *testing.T) {
	var freed uint64
	rapid.Check(t, func(rt *rapid.T) {
		cfg := farmConfig{
			rus:            rapid.IntRange(2, 4).Draw(rt, "rus"),
			bus:            rapid.IntRange(1, 3).Draw(rt, "bus"),
			slots:          rapid.IntRange(1, 4).Draw(rt, "slots"),
			meps:           rapid.IntRange(1, 40).Draw(rt, "meps"),
			rejection:      readoutunit.RejectionPolicy{Packing: 1, IncludesWritten: rapid.Bool().Draw(rt, "written")},
			losesDecisions: rapid.Bool().Draw(rt, "misses"),
			size:           func(uint64, int) uint32 { return 20 },
		}
		cfg.pull = builderunit.Pull{
			RequestCredit:   rapid.IntRange(0, 6).Draw(rt, "credit"),
			SlotsPerRelease: rapid.IntRange(0, cfg.slots).Draw(rt, "group"),
			RegionUnits:     []int{rapid.IntRange(0, cfg.rus-1).Draw(rt, "interest")},
		}
		accept := builderunit.AcceptShare(rapid.Float64Range(0, 1).Draw(rt, "share"), rapid.Uint64().Draw(rt, "seed"))
		cfg.accept = func(mep uint64) bool { return accept(mep) }
		f := newFarm(t, cfg)
		f.t, f.stopped = rt, rapid.IntRange(0, cfg.bus).Draw(rt, "stopped")
		f.read(uint64(cfg.meps))
		f.atRandom(rt)
		f.stopped = 0
		f.atRandom(rt)
		f.checkEnd()
		freed += f.freed()
	})
	if freed == 0 {
		t.Error("nothing was given up")
	}
}

// TestEveryFreedInterleaving walks through all orders of a small farm whose readout units hear decisions.
func TestEveryFreedInterleaving(t *testing.T) {
	for _, written := range []bool{false, true} {
		cfg := farmConfig{
			rus:       2,
			bus:       1,
			slots:     2,
			meps:      3,
			pull:      builderunit.Pull{RequestCredit: 1, SlotsPerRelease: 2, RegionUnits: []int{1}},
			accept:    func(mep uint64) bool { return mep == 1 },
			size:      func(uint64, int) uint32 { return 20 },
			rejection: readoutunit.RejectionPolicy{Packing: 1, IncludesWritten: written},
		}
		t.Run(fmt.Sprintf("written %v", written), func(t *testing.T) { exploreAll(t, cfg) })
	}
}
