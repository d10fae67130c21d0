package readoutunit

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/tagnet/core"
	"ringlet/testkit/cases"
)

func unitNames(kind string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(kind, i))
	}
	return names
}

// TestRing lets everything in a tag ring happen in any order, with builder units lost and taken back: no group ever has
// two running events, nor two senders, every MEP gets one outcome, every tag returns as it should, and nothing is ever
// stuck.
func TestRing(t *testing.T) {
	again := uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		rus, bus := rapid.IntRange(1, 5).Draw(rt, "rus"), rapid.IntRange(1, 6).Draw(rt, "bus")
		cfg := core.Config{
			RUs:           unitNames("ru", rus),
			BUs:           unitNames("bu", bus),
			Slots:         rapid.IntRange(1, 4).Draw(rt, "slots"),
			NoSlotPolicy:  core.Policy(rapid.IntRange(0, 1).Draw(rt, "policy")),
			BypassBusyRUs: rapid.Bool().Draw(rt, "bypass"),
			MaxAttempts:   core.MaxAttempt,
		}
		if rapid.Bool().Draw(rt, "groups") {
			cfg.Rules.Groups = make([][]int, (bus+1)/2)
			for bu := range bus {
				cfg.Rules.Groups[bu%len(cfg.Rules.Groups)] = append(cfg.Rules.Groups[bu%len(cfg.Rules.Groups)], bu)
			}
			cfg.Rules.BusyGroupPolicy = core.Policy(rapid.IntRange(0, 1).Draw(rt, "busy"))
		}
		meps := uint64(rapid.IntRange(1, 30).Draw(rt, "meps"))
		w := newTagRingWorld(rt, cfg)
		large := rapid.IntRange(0, rus).Draw(rt, "large")
		w.size = largeNowAndThen(large, 3)
		losses := rapid.IntRange(0, min(2, rus-1)).Draw(rt, "losses")
		exclusions := rapid.IntRange(0, 3).Draw(rt, "exclusions")
		w.read(meps, true)
		for {
			steps := w.steps()
			if exclusions > 0 && rapid.IntRange(0, 15).Draw(rt, "exclude") == 0 && w.core.State() != core.Drained {
				exclusions--
				w.change(rapid.IntRange(0, bus-1).Draw(rt, "bu"))
				continue
			}
			if losses > 0 && rapid.IntRange(0, 15).Draw(rt, "lose") == 0 && w.core.State() != core.Drained {
				if ru := rapid.IntRange(0, rus-1).Draw(rt, "ru"); !w.gone[ru] {
					losses--
					w.lose(ru)
				}
				continue
			}
			if len(steps) == 0 {
				if bu := slices.Index(w.lost, true); bu >= 0 && !slices.Contains(w.lost, false) &&
					w.core.State() != core.Drained {
					w.include(bu) // nobody was left
					continue
				}
				break
			}
			steps[rapid.IntRange(0, len(steps)-1).Draw(rt, "step")]()
		}
		w.checkOver(meps)
		g := w.core.Registers().GetCounters().GetTags()
		if !cfg.BypassBusyRUs && g.GetOvertaken()+g.GetAgain() > 0 {
			rt.Fatalf("without by-pass: %v", g)
		}
		again += g.GetAgain()
	})
	// The few cases of -short need not come to that; the transcript ring_bypass.txt always does.
	if again == 0 && !testing.Short() {
		t.Error("no tag was ever passed on")
	}
}

// change takes a builder unit away, or back. It may come back when what was on its way to it has ended.
func (w *tagRingWorld) change(bu int) {
	if !w.lost[bu] {
		w.exclude(bu)
		return
	}
	w.grants = slices.DeleteFunc(w.grants, func(g grantTo) bool { return g.bu == bu })
	if !slices.ContainsFunc(w.writes, func(x ringWrite) bool { return w.bu(x.place) == bu }) {
		w.include(bu)
	}
}

// largeNowAndThen makes the parts of a readout unit five times as large in the last of every so many MEPs.
func largeNowAndThen(unit int, every uint64) func(int, uint64) float64 {
	return func(ru int, mep uint64) float64 {
		if ru == unit && mep%every == every-1 {
			return 5
		}
		return 1
	}
}

// TestEveryInterleavingOfARing walks through all orders in which things can happen in small tag rings. The second MEP's
// part of the first readout unit is large, so that the tag of the third is passed on there where it may be.
func TestEveryInterleavingOfARing(t *testing.T) {
	for _, tc := range []struct {
		name         string
		slots        int
		meps         uint64
		bypass, lose bool
		gap          int // readout unit that may be lost; −1: none
	}{
		{"in order", 2, 3, false, false, -1},
		{"exclusion", 1, 2, false, true, -1},
		{"without the first", 1, 2, false, false, 0},
		{"without the last", 1, 2, false, false, 1},
		{"by-pass", 2, 3, true, false, -1},
		{"by-pass, without the first", 1, 2, true, false, 0},
	}[:cases.Count(6, 4)] {
		t.Run(tc.name, func(t *testing.T) {
			cfg := core.Config{
				RUs:           unitNames("ru", 2),
				BUs:           unitNames("bu", 2),
				Slots:         tc.slots,
				BypassBusyRUs: tc.bypass,
				Window:        4,
				NoSlotPolicy:  core.Skip,
			}
			exploreTagRing(t, func() *tagRingWorld {
				w := newTagRingWorld(t, cfg)
				w.size = largeNowAndThen(0, 2)
				w.read(tc.meps, true)
				return w
			}, tc.meps, tc.lose, tc.gap, tc.bypass && tc.gap < 0)
		})
	}
}

// exploreTagRing replays every way to a state that has not been seen, since a core cannot be copied from here.
func exploreTagRing(t *testing.T, begin func() *tagRingWorld, meps uint64, lose bool, gap int, bypass bool) {
	seen := map[string]bool{}
	todo := [][]int{nil}
	ends, again := 0, uint64(0)
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		w := begin()
		for _, i := range path {
			w.options(lose, gap)[i]()
		}
		k := w.key()
		if seen[k] {
			continue
		}
		seen[k] = true
		n := len(w.options(lose, gap))
		if len(w.steps()) == 0 {
			ends++
			w.checkOver(meps)
			again += w.core.Registers().GetCounters().GetTags().GetAgain()
			continue
		}
		for i := range n {
			todo = append(todo, append(slices.Clip(path), i))
		}
	}
	t.Logf("%d states, %d ends, %d tags went round again", len(seen), ends, again)
	if ends == 0 || (again > 0) != bypass {
		t.Error("not what is to be explored")
	}
}

// options are the steps, and where a builder unit may be lost, that.
func (w *tagRingWorld) options(lose bool, gap int) []func() {
	out := w.steps()
	if lose && !w.lost[1] && w.core.State() != core.Drained {
		out = append(out, func() { w.exclude(1) })
	}
	if gap >= 0 && !w.gone[gap] && w.core.State() != core.Drained {
		out = append(out, func() { w.lose(gap) })
	}
	return out
}

// TestTagRefused holds that a tag that contradicts the tokens has no effect.
func TestTagRefused(t *testing.T) {
	r := openTagRing(1, 2, 2, true)
	if err := r.AddCycle(batch(0, []core.Token{newToken(0, 0), none}), 0); err != nil {
		t.Fatal(err)
	}
	good := core.Tag{
		TokenPlace: 0,
		MEP:        0,
		Slot:       0,
		Attempt:    1,
	}
	for name, bad := range map[string]core.Tag{
		"MEP":     {TokenPlace: 0, MEP: 1, Slot: 0, Attempt: 1},
		"slot":    {TokenPlace: 0, MEP: 0, Slot: 1, Attempt: 1},
		"attempt": {TokenPlace: 0, MEP: 0, Slot: 0, Attempt: 2},
		"place":   {TokenPlace: 1, MEP: 0, Slot: 0, Attempt: 1},
	} {
		var wrong *tagError
		if err := r.TagOrder().AddTag(&bad); !errors.As(err, &wrong) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := r.TagOrder().AddTag(&good); err != nil {
		t.Fatal(err)
	}
	var twice *tagError
	if err := r.TagOrder().AddTag(&good); !errors.As(err, &twice) || len(r.order.(*tagRing).heldTags) != 1 {
		t.Errorf("%v, %d tags", err, len(r.order.(*tagRing).heldTags))
	}
	// A tag that comes before its token waits, and is checked when that comes.
	if err := r.TagOrder().AddTag(&core.Tag{
		TokenPlace: 3,
		MEP:        9,
		Slot:       0,
		Attempt:    1,
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.AddCycle(batch(1, []core.Token{newToken(2, 1), newToken(3, 0)}), 0); !errors.As(err, &twice) {
		t.Error(err)
	}
}
