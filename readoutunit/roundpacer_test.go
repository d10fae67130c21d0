package readoutunit

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ringlet/tagnet/core"
)

// TestPace holds that the next round has as many cycles as make phases worth their barrier, and no more.
func TestPace(t *testing.T) {
	const many = 1000
	var p roundPacer
	if n := p.boundCycles(many); n != many {
		t.Errorf("%d cycles before anything was written", n)
	}
	for _, step := range []struct {
		what  string
		round uint64
		parts int
		took  time.Duration
		bound int
	}{
		{"7 ms for a part", 5, 2, 14 * time.Millisecond, 3},
		{"nothing for a part of its own builder unit", 5, 2, 0, 6},
		{"no parts", 5, 0, time.Millisecond, 6},
		{"the next round remembers this one", 7, 2, 28 * time.Millisecond, 3},
		{"and the one after it does not", 9, 2, 2 * time.Millisecond, 3},
		{"a fast network", 11, 98, 4 * time.Millisecond, 334},
		{"a builder unit was suspended", 12, 1, time.Minute, 1},
		{"it goes on", 13, 1, 10 * time.Millisecond, 1},
		{"and is forgotten", 14, 1, 10 * time.Millisecond, 2},
	} {
		if p.record(step.round, step.parts, step.took); p.boundCycles(many) != step.bound {
			t.Errorf("%s: %d cycles, not %d", step.what, p.boundCycles(many), step.bound)
		}
	}
}

// TestPaceGoesOn holds that a round has a cycle whenever there is one, and never more than there are.
func TestPaceGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p roundPacer
		round := uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "phases") {
			round += uint64(rapid.IntRange(0, 3).Draw(t, "cycles"))
			parts := rapid.IntRange(0, 1<<24).Draw(t, "parts")
			p.record(round, parts, time.Duration(rapid.Int64Range(0, 1e13).Draw(t, "ns")))
			ahead := rapid.IntRange(0, 1<<24).Draw(t, "ahead")
			if n := p.boundCycles(ahead); n > ahead || n < min(ahead, 1) {
				t.Fatalf("%d of %d cycles", n, ahead)
			}
		}
	})
}

// TestSlowRoundsAreShort holds that over a slow network a round takes no more slots than it needs: one cycle, where
// over a fast one it has the four that it may have. With four, half of the slots were in the round that waited for a
// builder unit which was suspended: over ports of 20 Mbit/s 13.1 kHz in place of 14.1. Where phases end with time,
// longer rounds carry more, so they stay.
func TestSlowRoundsAreShort(t *testing.T) {
	phases := func(write, phase time.Duration) (n uint64) {
		synctest.Test(t, func(t *testing.T) {
			const cycles, slots, bus = 21, 32, 3
			r := newRig(t, &scripted{blocks: cycles * bus, end: io.EOF}, func(r *rig, c *Config) {
				order := newShift(0, SeatsInOrder(1, bus), bus, slots, true)
				order.setMaxCycles(4)
				c.Transfers, c.Retention, c.PhaseTime = order, newRetention(t, 1, 40, 2*cycles*bus), phase
				r.net.completion = func(int) error { time.Sleep(write); return nil }
			})
			r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
			var all [][]core.Token
			for c := range uint32(cycles) {
				mep := uint64(c) * bus
				all = append(all, []core.Token{newToken(mep, c), newToken(mep+1, c), newToken(mep+2, c)})
			}
			r.sched.send(0, 0, all...)
			r.until("all writes", func() bool { return r.unit.Stats().PartsWritten == cycles*bus })
			synctest.Wait()
			n = r.unit.Stats().PhasesPassed
			r.close()
		})
		return n
	}
	const slow = 100 * time.Millisecond
	fast, long, timed := phases(0, 0), phases(slow, 0), phases(slow, slow)
	if long < 2*fast || timed > fast {
		t.Errorf("21 cycles took %d phases over a fast network and %d over a slow one; %d that end with time",
			fast, long, timed)
	}
}
