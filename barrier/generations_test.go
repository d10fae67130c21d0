package barrier

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/testkit/patiently"
)

// The rounds of TestGenerations: a rank dies in round diedIn, the others are told that they go on without it from round
// goneFrom on, and with it again from backFrom on.
const (
	phases   = 3
	diedIn   = 4
	goneFrom = 6
	backFrom = 10
	rounds   = 14
)

// TestGenerations has a rank die in a phase and come back as another process: the others end what was begun without
// waiting, keep step without it, and with it again.
func TestGenerations(t *testing.T) {
	for _, kind := range allKinds {
		for _, n := range []int{2, 3, 5, 8} {
			for slack := range 3 {
				for died := range n {
					t.Run(fmt.Sprintf("%s %d slack %d rank %d", kind, n, slack, died), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { generationsKeepStep(t, kind, n, slack, died) })
					})
				}
			}
		}
	}
}

// generationHarness is ranks that go through rounds.
type generationHarness struct {
	t     *testing.T
	hub   *hub
	kind  Kind
	slack int
	died  int

	entered []atomic.Int64 // phases, counted over all rounds
	wg      sync.WaitGroup
}

func generationsKeepStep(t *testing.T, kind Kind, n, slack, died int) {
	c := &generationHarness{
		t:       t,
		hub:     newHub(t, kind, n, Options{Slack: slack, Timeout: time.Minute}),
		kind:    kind,
		slack:   slack,
		died:    died,
		entered: make([]atomic.Int64, n),
	}
	stop, kill := context.WithCancel(t.Context())
	for r := range n {
		ctx, last := t.Context(), rounds
		if r == died {
			ctx, last = stop, diedIn
		}
		c.wg.Go(func() { c.advance(ctx, r, 0, last) })
	}
	synctest.Wait() // all wait for who is dead, or are through where nobody waits
	kill()
	_ = c.hub.barriers[died].Close()
	remaining := slices.DeleteFunc(upTo(n), func(r int) bool { return r == died })
	for i, r := range remaining { // one learns it after the other, while those who know go on
		must(t, c.hub.barriers[r].ChangeMembers(goneFrom, remaining, true))
		if i%2 == 0 {
			synctest.Wait()
		}
	}
	synctest.Wait()
	core, err := NewCore(kind, n, died)
	must(t, err)
	back := New(core, port{c.hub, died}, Options{Slack: slack, Timeout: time.Minute})
	c.hub.barriers[died] = back
	for _, r := range upTo(n) {
		if r == died {
			must(t, back.ChangeMembers(goneFrom, remaining, true))
		}
		must(t, c.hub.barriers[r].ChangeMembers(backFrom, upTo(n), false))
	}
	c.wg.Go(func() { c.advance(t.Context(), died, backFrom, rounds) })
	patiently.Wait(t, c.wg.Wait)
	for r := range n {
		if got := c.entered[r].Load(); got != rounds*phases {
			t.Errorf("rank %d entered up to phase %d of %d", r, got, rounds*phases)
		}
		if c.hub.refused != nil {
			t.Error(c.hub.refused)
		}
		must(t, c.hub.barriers[r].Close())
	}
}

// advance takes a rank through rounds, which it knows of only as far as they are known: nobody begins a round that a
// change concerns before it knows of the change.
func (c *generationHarness) advance(ctx context.Context, rank, from, to int) {
	b := c.hub.barriers[rank]
	for round := from; round < to; round++ {
		c.await(b, round)
		if err := b.BeginRound(ctx, uint64(round)); err != nil {
			c.t.Errorf("rank %d, round %d: %v", rank, round, err)
			return
		}
		for phase := range phases {
			at := int64(round*phases + phase)
			c.entered[rank].Store(at + 1)
			if _, _, err := b.Enter(ctx); err != nil {
				if rank != c.died {
					c.t.Errorf("rank %d, round %d: %v", rank, round, err)
				}
				return
			}
			c.check(rank, round, at)
		}
	}
	if rank != c.died || to == rounds {
		if _, err := b.Finish(ctx); err != nil {
			c.t.Errorf("rank %d does not finish: %v", rank, err)
		}
	}
}

// await waits until a rank knows of the changes that concern a round.
func (c *generationHarness) await(b *Barrier, round int) {
	want := uint64(0)
	if round >= goneFrom {
		want = 1
	}
	if round >= backFrom {
		want = 2
	}
	for until := time.Now().Add(patiently.LongTimeout); time.Now().Before(until); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		changes := b.changeCount
		b.mu.Unlock()
		if changes >= want {
			return
		}
	}
}

// check holds that a rank which has left a phase is not ahead of others by more than the slack, where the phases are
// held: not in the rounds in which somebody had died.
func (c *generationHarness) check(rank, round int, at int64) {
	if c.kind == None || round >= diedIn && round < goneFrom {
		return
	}
	for other := range c.entered {
		out := other == c.died && round >= goneFrom && round < backFrom
		first := int64(0) // the phase with which the generation began
		switch {
		case round >= backFrom:
			first = backFrom * phases
		case round >= goneFrom:
			first = goneFrom * phases
		}
		// Entering the first phases of a generation waits for nobody, as far as the slack goes.
		if got := c.entered[other].Load(); !out && at-int64(c.slack) >= first && got <= at-int64(c.slack) {
			c.t.Errorf("rank %d left phase %d, and rank %d has entered only %d", rank, at, other, got)
		}
	}
}
