package tagfarm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
	"ringlet/sim/sci"
	"ringlet/sim/study"
	"ringlet/tagnet"
)

// small is the prototype with round numbers: a hop takes 1 µs besides the feeding node's transfer.
func small(period, until sim.Time) config {
	c := config{
		bus: bus{
			clock:   15 * sim.Nanosecond,
			grant:   8,
			address: 1,
			setup:   6,
			refused: 9,
			piece:   128,
		},
		net:         sci.Dolphin(),
		size:        []int{8, 2},
		feeders:     []int{0, 8},
		computers:   []int{1, 2, 4, 5, 6, 7, 9, 10, 12, 13, 14, 15},
		columns:     [][]int{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}},
		scheduler:   11,
		watch:       -1,
		controlRing: controlRing{processing: sim.Microsecond},
		order:       order{slots: 10, policy: tagnet.Skip},
		compute:     compute{processors: 1, least: 1500 * sim.Nanosecond, size: 8},
		period:      period,
		until:       until,
	}
	return c.fixed(128)
}

// cube is a small 3-D torus.
func cube(period, until sim.Time) config {
	c := small(period, until)
	c.shape(shape{
		columns:   3,
		rows:      2,
		core:      2,
		layers:    3,
		computers: 16,
	})
	c.scheduler, c.compute.feedback = -1, 2*sim.Microsecond
	c.controlRing.processing = 0
	return c.fixed(128)
}

func TestFormulas(t *testing.T) {
	f := newFarm(sim.New(1), small(10*sim.Microsecond, sim.Millisecond), nil)
	f.run(t.Context(), nil)
	f.drain(t.Context())
	const burst = 31 * 15 * sim.Nanosecond
	for i, h := range f.latency {
		// The message comes at a clock of the scheduler, not at one of the bus, so the start waits up to a clock.
		want := sim.Time(i+1) * (sim.Microsecond + burst)
		if got := sim.Time(h.Max()); got < want || got > want+30*sim.Nanosecond {
			t.Errorf("latency to feeding node %d is %v, want %v", i+1, got, want)
		}
	}
	c := cube(20*sim.Microsecond, sim.Millisecond)
	g := newFarm(sim.New(1), c, nil)
	g.run(t.Context(), nil)
	g.drain(t.Context())
	// All bursts but the last in turn, then that one's request and set-up, its way, and its data.
	last := sim.Time(len(c.feeders)-1)*burst + 31*15*sim.Nanosecond
	least, most := last+c.net.PCIToPCI, last+c.net.PCIToPCI+2*c.net.Routing+20*c.net.Bypass
	if got := sim.Time(g.building.Min()); got < least {
		t.Errorf("an event was built in %v, before its last packet could be there: %v", got, least)
	}
	if got := sim.Time(g.building.Max()); got > most {
		t.Errorf("an event was built in %v, without other traffic; want at most %v", got, most)
	}
}

// draw is any farm.
func draw(t *rapid.T) config {
	period := sim.Time(rapid.IntRange(300, 3000).Draw(t, "period")) * sim.Nanosecond
	c := small(period, 200*sim.Microsecond)
	if rapid.Bool().Draw(t, "cube") {
		c = cube(period, 200*sim.Microsecond)
		c.order.bypass = rapid.Bool().Draw(t, "by-pass")
		if rapid.Bool().Draw(t, "on demand") && !c.order.bypass {
			c.again = 0.3
		}
	}
	c.order.slots = rapid.IntRange(1, 10).Draw(t, "buffers")
	c.order.policy = rapid.SampledFrom([]tagnet.Policy{tagnet.Skip, tagnet.Wait}).Draw(t, "policy")
	if rapid.Bool().Draw(t, "driver") {
		c.driver = driver{every: 30 * sim.Microsecond, gap: 5 * sim.Microsecond, clocks: 4}
	}
	if rapid.Bool().Draw(t, "suspended") {
		c.compute.suspend = 20 * sim.Microsecond
	}
	if rapid.Bool().Draw(t, "sizes") {
		c = c.drawn(sizes{
			mean:   float64(150 * len(c.feeders)),
			order:  2,
			large:  0.05,
			factor: 5,
		})
	}
	return c
}

// TestConservation: whatever the farm, each trigger is an event at every feeding node, in one computing node's memory
// and in the core's account, once; nothing is left under way.
func TestConservation(t *testing.T) {
	if testing.Short() {
		t.Skip("a farm has one goroutine")
	}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		f := newFarm(sim.New(1), c, nil)
		f.run(context.Background(), nil)
		f.drain(context.Background())
		f.s.Run(context.Background(), sim.Limits{Until: f.s.Now() + 100*sim.Microsecond}) // messages come round
		events, again := f.sched.issued, f.long.Count()
		if events != f.sched.triggers || f.returned != events || f.built != events || f.inside.Value() != 0 {
			t.Fatalf("%d triggers, %d issued, %d built, %d returned", f.sched.triggers, events, f.built, f.returned)
		}
		var sent, came uint64
		for _, n := range f.fns {
			if n.transfers != events+again {
				t.Fatalf("feeding node %d made %d transfers of %d", n.index+1, n.transfers, events+again)
			}
			if f.sched.returns < events+again {
				t.Fatalf("%d messages came round, of %d", f.sched.returns, events+again)
			}
			sent += n.bytes
		}
		for _, n := range f.cns {
			came += n.bytes
		}
		if sent != came || f.sched.refused != 0 || len(f.free) != len(f.events) {
			t.Fatalf("%d bytes sent, %d came; the core refused %d; %d of %d events are free", sent, came,
				f.sched.refused, len(f.free), len(f.events))
		}
		if core := f.sched.core; core.InFlight() != 0 || core.Released() != events || len(f.sched.placed) != 0 {
			t.Fatalf("the core has %d in flight, released %d of %d", core.InFlight(), core.Released(), events)
		}
	})
}

// TestLittle: the mean number of messages that wait at a feeding node is their rate times their mean wait.
func TestLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("a farm has one goroutine")
	}
	c := small(470*sim.Nanosecond, 20*sim.Millisecond)
	c.driver = driver{every: sim.Millisecond, gap: 50 * sim.Microsecond, clocks: 4}
	f := newFarm(sim.New(1), c, nil)
	f.run(t.Context(), nil)
	f.drain(t.Context())
	for _, n := range f.fns {
		rate := sim.PerSecond(n.wait.Count(), f.s.Now())
		little, mean := rate*n.wait.Mean()/float64(sim.Second), n.queue.Length.Mean(f.s.Now())
		if math.Abs(little/mean-1) > 1e-9 || mean < 1 {
			t.Errorf("feeding node %d: %v wait on average, rate × wait is %v", n.index+1, mean, little)
		}
	}
}

// TestFeederOrder: each order has each feeding node once.
func TestFeederOrder(t *testing.T) {
	for order, want := range map[string][]int{
		byRow:    {0, 2, 5, 7, 10, 12, 15, 17},
		byLayer:  {0, 2, 10, 12, 5, 7, 15, 17},
		byColumn: {0, 5, 10, 15, 2, 7, 12, 17},
	} {
		_, got, _, _ := shape{
			columns:   3,
			rows:      2,
			core:      2,
			layers:    2,
			computers: 12,
			order:     order,
		}.nodes()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", order, got, want)
		}
	}
}

// TestNeverTheSameColumnTwice: while there are buffers, successive events go to different columns (TagNet-farm
// §III.B.2).
func TestNeverTheSameColumnTwice(t *testing.T) {
	for _, c := range []config{small(470*sim.Nanosecond, sim.Millisecond), cube(470*sim.Nanosecond, sim.Millisecond)} {
		f := newFarm(sim.New(1), c, nil)
		f.run(t.Context(), nil)
		if f.sched.sameAgain > 0 || f.sched.issued < 2000 {
			t.Errorf("%d of %d events went to the column of the one before", f.sched.sameAgain, f.sched.issued)
		}
	}
}

// TestBypass: the core's tags go round again while a busy feeding node passes them on, and no further.
func TestBypass(t *testing.T) {
	c := cube(600*sim.Nanosecond, sim.Millisecond).drawn(sizes{
		mean:   8 * 100,
		order:  2,
		large:  0.1,
		factor: 5,
	})
	c.order.bypass = true
	f := newFarm(sim.New(1), c, nil)
	f.run(t.Context(), nil)
	f.drain(t.Context())
	var passed uint64
	for _, n := range f.fns {
		passed += n.passed
	}
	if passed == 0 || f.sched.returns <= f.sched.issued || f.sched.refused > 0 {
		t.Errorf("%d passed on, %d of %d came round, the core refused %d", passed, f.sched.returns, f.sched.issued,
			f.sched.refused)
	}
}

// TestSameSeedSameOutcome: all that a farm counts is the same for a seed, and differs for another.
func TestSameSeedSameOutcome(t *testing.T) {
	if testing.Short() {
		t.Skip("a farm has one goroutine")
	}
	play := func(seed uint64) string {
		c := cube(600*sim.Nanosecond, sim.Millisecond).drawn(sizes{mean: 800, order: 2})
		c.compute.mean = 5 * sim.Microsecond
		f := newFarm(sim.New(seed), c, nil)
		f.run(t.Context(), nil)
		return fmt.Sprint(f.s.Executed(), f.building.Mean(), f.system.Deviation(), f.busy.Mean(f.s.Now()), f.net.Retried())
	}
	if a, b := play(1), play(1); a != b {
		t.Errorf("the same seed gave %s and %s", a, b)
	}
	if play(1) == play(2) {
		t.Error("another seed gave the same")
	}
}

func TestNoAllocation(t *testing.T) {
	f := newFarm(sim.New(1), small(600*sim.Nanosecond, sim.Second), nil)
	f.s.ScheduleAt(0, (*trigger)(f.sched), 0, 0)
	ctx := context.Background()
	turn := func() { f.s.Run(ctx, sim.Limits{Events: 100_000}) }
	turn()
	if n := testing.AllocsPerRun(5, turn); n > 0 {
		t.Errorf("%v allocations in 100,000 events", n)
	}
}

// TestUnshaped: with fragments of one size the inputs fall into step and use all; sizes that vary cost nearly half.
func TestUnshaped(t *testing.T) {
	var out study.Outcome
	for spread, want := range map[string][2]float64{"fixed": {0.999, 1.001}, "exponential": {0.4, 0.7}} {
		use := newUnshaped(sim.New(1), 8, 2000, 200e6, spread).utilization(t.Context(), study.Env{}, sim.Second/10, &out)
		if use < want[0] || use > want[1] {
			t.Errorf("%s sizes use %v of the switch", spread, use)
		}
	}
}
