package barrier

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// ahead is a rank of a barrier with slack: it enters an epoch when what it waits for in the one before was left.
type ahead struct {
	openEpochs
	until uint64
	open  bool
}

func (a *ahead) waits() bool { return a.open && !a.isReleased(a.until) }

// TestNobodyIsFartherAhead: any N, any slack, any order of entering and delivery, any duplication. Whoever goes on
// finds that everybody has entered the epoch that many before, and the least offer of it. All get through.
func TestNobodyIsFartherAhead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(allKinds[1:]).Draw(rt, "kind")
		n := rapid.IntRange(2, 24).Draw(rt, "n")
		slack := rapid.IntRange(0, 4).Draw(rt, "slack")
		epochs := rapid.Uint64Range(1, 12).Draw(rt, "epochs")
		copies := rapid.IntRange(0, 30).Draw(rt, "percent duplicated")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		ranks := make([]ahead, n)
		for r, core := range newCores(t, kind.String(), n) {
			ranks[r].openEpochs = newOpenEpochs(core, slack)
		}
		var acts Actions
		var flying, history []Message
		for {
			var ready []int
			for r := range ranks {
				if !ranks[r].waits() && ranks[r].nextEpoch < epochs {
					ready = append(ready, r)
				}
			}
			if len(ready)+len(flying) == 0 {
				break
			}
			acts.Send = acts.Send[:0]
			switch pick := rng.IntN(len(ready) + len(flying)); {
			case len(history) > 0 && rng.IntN(100) < copies:
				m := history[rng.IntN(len(history))]
				must(rt, ranks[m.To].receive(m, 0, &acts))
			case pick < len(ready):
				a := &ranks[ready[pick]]
				checkAhead(rt, ranks, a, slack)
				a.setOffer(offer(ready[pick], a.nextEpoch))
				var err error
				a.until, a.open, err = a.enter(0, &acts)
				must(rt, err)
			default:
				m := flying[pick-len(ready)]
				flying[pick-len(ready)] = flying[len(flying)-1]
				flying = flying[:len(flying)-1]
				must(rt, ranks[m.To].receive(m, 0, &acts))
			}
			flying, history = append(flying, acts.Send...), append(history, acts.Send...)
		}
		for r := range ranks {
			if _, open := ranks[r].oldestOpen(); open || ranks[r].nextEpoch != epochs {
				rt.Fatalf("rank %d entered %d of %d epochs, of which some are open: %v", r, ranks[r].nextEpoch, epochs, open)
			}
		}
		if want := messages(kind, n) * int(epochs); len(history) != want {
			rt.Fatalf("%d messages, want %d", len(history), want)
		}
	})
}

// checkAhead holds what a rank that goes on may count on.
func checkAhead(t *rapid.T, ranks []ahead, a *ahead, slack int) {
	if !a.open {
		return
	}
	if a.until+uint64(slack)+1 != a.nextEpoch {
		t.Fatalf("in epoch %d it waited for epoch %d, with slack %d", a.nextEpoch-1, a.until, slack)
	}
	least := offer(0, a.until)
	for other := range ranks {
		if ranks[other].nextEpoch <= a.until {
			t.Fatalf("somebody left epoch %d, which rank %d has not entered", a.until, other)
		}
		least = min(least, offer(other, a.until))
	}
	if got := a.lastStraggler().MinOffer; got != least {
		t.Fatalf("the least offer of epoch %d was %d, not %d", a.until, least, got)
	}
}

// TestMissingIsNamedWithSlack: who is ahead as far as it may be names who is missing, and both finish all the same.
func TestMissingIsNamedWithSlack(t *testing.T) {
	for _, kind := range allKinds[1:] {
		synctest.Test(t, func(t *testing.T) {
			h := newHub(t, kind, 3, Options{Slack: 2, Timeout: time.Second})
			for e := range uint64(2) {
				for _, r := range []int{0, 2} {
					if got, _, err := h.barriers[r].Enter(t.Context()); got != e || err != nil {
						t.Fatalf("%s: rank %d left %d, %v", kind, r, got, err)
					}
				}
			}
			for r, err := range h.enterAll(t, []int{0, 2}) {
				var late *TimeoutError
				if !errors.As(err, &late) || late.Epoch != 0 || len(late.Missing) != 1 || late.Missing[0] != 1 {
					t.Errorf("%s: rank %d: %v", kind, r, err)
				}
			}
			var late *TimeoutError
			if _, err := h.barriers[2].Finish(t.Context()); !errors.As(err, &late) || late.Epoch != 0 {
				t.Errorf("%s: rank 2 finishes: %v", kind, err)
			}
			for range 3 {
				for r, err := range h.enterAll(t, []int{1}) {
					if err != nil {
						t.Errorf("%s: rank %d: %v", kind, r, err)
					}
				}
			}
			for r, b := range h.barriers {
				if _, err := b.Finish(t.Context()); err != nil || b.Stats().Epochs != 3 {
					t.Errorf("%s: rank %d finished with %v, after %d epochs", kind, r, err, b.Stats().Epochs)
				}
			}
			if h.refused != nil {
				t.Error(h.refused)
			}
		})
	}
}
