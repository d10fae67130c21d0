package readoutunit

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ringlet/tagnet"
)

// TestPace holds that the next round is as long as makes its phases worth their barrier, and no longer.
func TestPace(t *testing.T) {
	for _, tc := range []struct {
		name          string
		cycles, bound int
		took          time.Duration
	}{
		{"four phases of two cycles in 112 ms: 14 ms for a cycle's phase", 2, 2, 112 * time.Millisecond},
		{"the port of a fast network", 4, 134, 2400 * time.Microsecond},
		{"one cycle's phase takes as long as any needs to", 1, 1, 80 * time.Millisecond},
		{"a builder unit was suspended", 8, 1, time.Minute},
		{"no time at all", 8, 1000, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p pace
			at := time.Unix(1, 0)
			if p.passed(5, 4, at); p.bound(1000) != 1000 {
				t.Errorf("bound to %d before a round was over", p.bound(1000))
			}
			p.passed(5, 4, at.Add(tc.took/2)) // not the last phase of the round
			if p.passed(5+uint64(tc.cycles), 4, at.Add(tc.took)); p.bound(1000) != tc.bound {
				t.Errorf("bound to %d cycles, not %d", p.bound(1000), tc.bound)
			}
		})
	}
}

// TestPaceGoesOn holds that a round has a cycle whenever there is one, and never more than are there.
func TestPaceGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pace
		at, round := time.Unix(1, 0), uint64(0)
		phases := rapid.IntRange(1, 65535).Draw(t, "phases")
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			at = at.Add(time.Duration(rapid.Int64Range(-1e6, 1e13).Draw(t, "ns")))
			round += uint64(rapid.IntRange(0, 1<<16).Draw(t, "cycles"))
			p.passed(round, phases, at)
			ahead := rapid.IntRange(0, 1<<24).Draw(t, "ahead")
			if n := p.bound(ahead); n > ahead || n < min(ahead, 1) {
				t.Fatalf("%d of %d cycles", n, ahead)
			}
		}
	})
}

// TestSlowRoundsAreShort holds that over a slow network a round takes no more slots than it needs: one cycle, but for
// the second round, where over a fast one it has the four that it may have. With four, half of the slots were in the
// round that waited for a builder unit which was suspended: over ports of 20 Mbit/s 13.1 kHz in place of 14.1.
func TestSlowRoundsAreShort(t *testing.T) {
	phases := func(write time.Duration) (n uint64) {
		synctest.Test(t, func(t *testing.T) {
			const cycles, slots, bus = 21, 32, 3
			r := newRig(t, &scripted{blocks: cycles * bus, end: io.EOF}, func(r *rig, c *Config) {
				order := NewShift(0, InOrder(1, bus), bus, slots, true)
				order.Widen(4)
				c.Order, c.Slots, c.Retention = order, slots, newRetention(t, 1, 40, 2*cycles*bus)
				r.net.completion = func(int) error { time.Sleep(write); return nil }
			})
			r.until("the end of the input", func() bool { return r.sched.last().End })
			var all [][]tagnet.Token
			for c := range uint32(cycles) {
				mep := uint64(c) * bus
				all = append(all, []tagnet.Token{tok(mep, c), tok(mep+1, c), tok(mep+2, c)})
			}
			r.sched.send(0, 0, all...)
			r.until("all writes", func() bool { return r.unit.Stats().Writes == cycles*bus })
			synctest.Wait()
			n = r.unit.Stats().Phases
			r.close()
		})
		return n
	}
	if fast, slow := phases(0), phases(100*time.Millisecond); slow < 2*fast {
		t.Errorf("21 cycles took %d phases over a fast network, and %d over a slow one", fast, slow)
	}
}
