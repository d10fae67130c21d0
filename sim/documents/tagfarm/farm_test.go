package tagfarm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
	tagcore "ringlet/tagnet/core"
)

// small is the prototype with round numbers: a hop takes 1 µs besides the feeding node's transfer.
func small(period, until sim.Time) config {
	c := config{
		bus: bus{
			clock:         15 * sim.Nanosecond,
			grantClocks:   8,
			addressClocks: 1,
			setUpClocks:   6,
			refusedClocks: 9,
			burstBytes:    128,
		},
		net:         sci.Dolphin(),
		size:        []int{8, 2},
		feeders:     []int{0, 8},
		computers:   []int{1, 2, 4, 5, 6, 7, 9, 10, 12, 13, 14, 15},
		columns:     [][]int{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}},
		scheduler:   11,
		watchedBU:   -1,
		controlRing: controlRing{processing: sim.Microsecond},
		scheduling:  schedulingConfig{slots: 10, policy: tagcore.Skip},
		compute:     compute{processors: 1, minFeedbackTime: 1500 * sim.Nanosecond, feedbackBytes: 8},
		period:      period,
		triggersEnd: until,
	}
	return c.withFixedParts(128)
}

// cube is a small 3-D torus.
func cube(period, until sim.Time) config {
	c := small(period, until)
	c.setShape(torusShape{
		columns:    3,
		rows:       2,
		coreLayers: 2,
		layers:     3,
		computers:  16,
	})
	c.scheduler, c.compute.feedbackDelay = -1, 2*sim.Microsecond
	c.controlRing.processing = 0
	return c.withFixedParts(128)
}

// drain plays what is under way to its end; the drivers would never end.
func (f *farm) drain(ctx context.Context) {
	for f.eventsInside.Value() > 0 && f.s.Run(ctx, sim.Limits{MaxEvents: 1}) == sim.EventLimit {
	}
}

func TestFormulas(t *testing.T) {
	f := newFarm(sim.New(1), small(10*sim.Microsecond, sim.Millisecond), nil)
	f.run(t.Context(), nil)
	f.drain(t.Context())
	const burst = 31 * 15 * sim.Nanosecond
	for i, h := range f.messageLatency {
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
	least, most := last+c.net.PCIToPCI, last+c.net.PCIToPCI+2*c.net.RoutingTime+20*c.net.BypassTime
	if got := sim.Time(g.burstToFirstPart.Min()); got < least {
		t.Errorf("an event was built in %v, before its last packet could be there: %v", got, least)
	}
	if got := sim.Time(g.burstToFirstPart.Max()); got > most {
		t.Errorf("an event was built in %v, without other traffic; want at most %v", got, most)
	}
}

// draw is any farm.
func draw(t *rapid.T) config {
	period := sim.Time(rapid.IntRange(300, 3000).Draw(t, "period")) * sim.Nanosecond
	c := small(period, 200*sim.Microsecond)
	if rapid.Bool().Draw(t, "cube") {
		c = cube(period, 200*sim.Microsecond)
		c.scheduling.bypass = rapid.Bool().Draw(t, "by-pass")
		if rapid.Bool().Draw(t, "on demand") && !c.scheduling.bypass {
			c.secondPartShare = 0.3
		}
	}
	c.scheduling.slots = rapid.IntRange(1, 10).Draw(t, "buffers")
	c.scheduling.policy = rapid.SampledFrom([]tagcore.Policy{tagcore.Skip, tagcore.Wait}).Draw(t, "policy")
	if rapid.Bool().Draw(t, "driver") {
		c.driver = driver{period: 30 * sim.Microsecond, gap: 5 * sim.Microsecond, gapBusyClocks: 4}
	}
	if rapid.Bool().Draw(t, "suspended") {
		c.compute.sleepTime = 20 * sim.Microsecond
	}
	if rapid.Bool().Draw(t, "sizes") {
		c = c.withDrawnParts(sizeParams{
			mean:        float64(150 * len(c.feeders)),
			erlangOrder: 2,
			largeShare:  0.05,
			largeFactor: 5,
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
		events, again := f.sched.eventsIssued, f.twoPartLatency.Count()
		if events != f.sched.triggers || f.returned != events || f.built != events || f.eventsInside.Value() != 0 {
			t.Fatalf("%d triggers, %d issued, %d built, %d returned", f.sched.triggers, events, f.built, f.returned)
		}
		var sent, came uint64
		for _, n := range f.feeders {
			if n.transfers != events+again {
				t.Fatalf("feeding node %d made %d transfers of %d", n.index+1, n.transfers, events+again)
			}
			if f.sched.messagesReturned < events+again {
				t.Fatalf("%d messages came round, of %d", f.sched.messagesReturned, events+again)
			}
			sent += n.bytes
		}
		for _, n := range f.computers {
			came += n.bytes
		}
		if sent != came || f.sched.coreRefusals != 0 || len(f.freeEvents) != len(f.events) {
			t.Fatalf("%d bytes sent, %d came; the core refused %d; %d of %d events are free", sent, came,
				f.sched.coreRefusals, len(f.freeEvents), len(f.events))
		}
		if core := f.sched.core; core.InFlight() != 0 || core.Released() != events || len(f.sched.eventByMEP) != 0 {
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
	c.driver = driver{period: sim.Millisecond, gap: 50 * sim.Microsecond, gapBusyClocks: 4}
	f := newFarm(sim.New(1), c, nil)
	f.run(t.Context(), nil)
	f.drain(t.Context())
	for _, n := range f.feeders {
		rate := sim.PerSecond(n.busWait.Count(), f.s.Now())
		little, mean := rate*n.busWait.Mean()/float64(sim.Second), n.queue.Length.Mean(f.s.Now())
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
		_, got, _, _ := torusShape{
			columns:    3,
			rows:       2,
			coreLayers: 2,
			layers:     2,
			computers:  12,
			order:      order,
		}.placeNodes()
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
		if f.sched.sameColumnAgain > 0 || f.sched.eventsIssued < 2000 {
			t.Errorf("%d of %d events went to the column of the one before", f.sched.sameColumnAgain, f.sched.eventsIssued)
		}
	}
}

// TestBypass: the core's tags go round again while a busy feeding node passes them on, and no further.
func TestBypass(t *testing.T) {
	c := cube(600*sim.Nanosecond, sim.Millisecond).withDrawnParts(sizeParams{
		mean:        8 * 100,
		erlangOrder: 2,
		largeShare:  0.1,
		largeFactor: 5,
	})
	c.scheduling.bypass = true
	f := newFarm(sim.New(1), c, nil)
	f.run(t.Context(), nil)
	f.drain(t.Context())
	var passed uint64
	for _, n := range f.feeders {
		passed += n.passedUnserved
	}
	if passed == 0 || f.sched.messagesReturned <= f.sched.eventsIssued || f.sched.coreRefusals > 0 {
		t.Errorf("%d passed on, %d of %d came round, the core refused %d", passed, f.sched.messagesReturned,
			f.sched.eventsIssued, f.sched.coreRefusals)
	}
}

// TestSameSeedSameOutcome: all that a farm counts is the same for a seed, and differs for another.
func TestSameSeedSameOutcome(t *testing.T) {
	if testing.Short() {
		t.Skip("a farm has one goroutine")
	}
	play := func(seed uint64) string {
		c := cube(600*sim.Nanosecond, sim.Millisecond).withDrawnParts(sizeParams{mean: 800, erlangOrder: 2})
		c.compute.meanWork = 5 * sim.Microsecond
		f := newFarm(sim.New(seed), c, nil)
		f.run(t.Context(), nil)
		return fmt.Sprint(f.s.Executed(), f.burstToFirstPart.Mean(), f.systemLatency.Deviation(),
			f.busyProcessors.Mean(f.s.Now()), f.net.Retried())
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
	f.s.ScheduleAt(0, (*triggerArrived)(f.sched), 0, 0)
	ctx := context.Background()
	turn := func() { f.s.Run(ctx, sim.Limits{MaxEvents: 100_000}) }
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
