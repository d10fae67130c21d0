package lhcb

import (
	"context"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"ringlet/barrier"
	"ringlet/sim"
	"ringlet/sim/part"
	"ringlet/sim/study"
	"ringlet/testkit/must"
)

// small is a tree of two leaves with four nodes each.
func small() setup {
	return setup{
		nodes:    8,
		perLeaf:  4,
		spines:   2,
		links:    2,
		sizes:    maximal,
		packing:  1000,
		streams:  2,
		groups:   []int{100, 120, 140},
		maximal:  160,
		perByte:  40,
		mtu:      4096,
		segment:  16 << 10,
		buffer:   32 << 10,
		hop:      300 * sim.Nanosecond,
		flight:   2 * sim.Microsecond,
		cost:     sim.Microsecond / 2,
		software: 10 * sim.Microsecond,
		slots:    2,
		writes:   1,
		credit:   2,

		discipline: shift,
		output:     1,
		warm:       8,
		phases:     16,
	}
}

// run plays a setup and holds it against what must be true of every run.
func run(t must.TB, c setup, seed uint64) *world {
	t.Helper()
	w := made(t, &c, seed)
	must.OK(t, w.play(context.Background(), study.Env{}))
	if w.parts != uint64(c.nodes*(c.warm+c.phases)) {
		t.Fatalf("%d parts were placed, not those of %d phases", w.parts, c.warm+c.phases)
	}
	w.conserves(t)
	return w
}

func made(t must.TB, c *setup, seed uint64) *world {
	t.Helper()
	w, err := newWorld(c, study.Env{Seed: seed})
	must.OK(t, err)
	return w
}

// conserves: when nobody begins anything any more, every byte that was sent is placed, and every buffer is empty.
func (w *world) conserves(t must.TB) {
	t.Helper()
	if w.placed > w.sent {
		t.Fatalf("%d bytes are placed and only %d were sent", w.placed, w.sent)
	}
	w.ending = true
	w.s.Run(context.Background(), sim.Limits{})
	must.OK(t, w.err)
	if w.sent != w.placed {
		t.Fatalf("%d bytes were sent, and %d are placed", w.sent, w.placed)
	}
	for _, ports := range [][]*part.Port{w.tree.card, w.tree.up, w.tree.to, w.tree.down} {
		for i, p := range ports {
			if p.Held.Value() != 0 {
				t.Fatalf("port %d still holds %d bytes", i, p.Held.Value())
			}
		}
	}
}

// TestPhaseAgainstHandCalculation: with equal sizes, no jitter and a barrier, each phase takes the software's time, the
// bytes at the port's rate, four hops and the acknowledgement, and the barrier.
func TestPhaseAgainstHandCalculation(t *testing.T) {
	c := small()
	c.barrier = barrier.Tournament
	w := run(t, c, 1)
	// 1,000 events × 2 streams × 160 B at 40 ps, through 4 ports with a hop each, and one back; 3 rounds of the
	// tournament up and 3 down, of 2 µs and twice 0.5 µs each. The winner of all answers three losers one after the
	// other, and the one that hears it first has two more to answer: so down takes no more than 3 rounds.
	transfer := 320_000*40*sim.Picosecond + 4*c.hop + c.hop
	want := c.software + transfer + 6*(c.flight+2*c.cost)
	got := (w.to.at - w.from.at) / sim.Time(c.phases)
	if d := math.Abs(float64(got-want)) / float64(want); d > 0.01 {
		t.Errorf("a phase takes %v, by hand %v", got, want)
	}
}

// alone plays flows without units, and returns when the last byte of the first of them has arrived.
func alone(t *testing.T, nodes int, flows ...flow) (at sim.Time) {
	t.Helper()
	c := small()
	c.nodes = nodes
	w := made(t, &c, 1)
	w.landed = func(_ *node, place int64, _ *node) {
		if place == 0 {
			at = w.s.Now()
		}
	}
	for from, f := range flows {
		if f.left > 0 {
			f.place = uint64(from)
			w.send(w.nodes[from], f)
		}
	}
	w.s.Run(t.Context(), sim.Limits{})
	return at
}

// megabyte is how long one takes at the port's rate.
const megabyte = (1 << 20) * 40 * sim.Picosecond

// TestTwoSendersShareAPort: what two nodes send to a third at the same time takes twice as long, wherever they are.
func TestTwoSendersShareAPort(t *testing.T) {
	none := flow{}
	for _, flows := range [][]flow{
		{{to: 3, left: 1 << 20}, {to: 3, left: 1 << 20}},                         // from the same leaf
		{{to: 3, left: 1 << 20}, none, none, none, {to: 3, left: 1 << 20}},       // one from the other
		{{to: 7, left: 1 << 20}, {to: 7, left: 1 << 20}},                         // both over one link
		{{to: 4, left: 1 << 20}, none, none, none, none, {to: 4, left: 1 << 20}}, // one from there
	} {
		if got := alone(t, 8, flows...); got < 2*megabyte*98/100 || got > 2*megabyte*102/100 {
			t.Errorf("%v: took %v, two megabytes take %v", flows, got, 2*megabyte)
		}
	}
}

// TestFlowsOfAPhaseDoNotMeet: none holds another up.
func TestFlowsOfAPhaseDoNotMeet(t *testing.T) {
	for phase := range 8 {
		var flows []flow
		for i := range 8 {
			flows = append(flows, flow{to: (i + phase) % 8, left: 1 << 20})
		}
		if got := alone(t, 8, flows...); got > megabyte+4*small().hop {
			t.Errorf("phase %d: took %v, a megabyte takes %v and its hops", phase, got, megabyte)
		}
	}
}

// TestSharedLinkHoldsUpAVictim: who shares a link with a flow to a busy port has no more of it than that flow, though
// its own port is idle.
func TestSharedLinkHoldsUpAVictim(t *testing.T) {
	busy := flow{to: 4, left: 4 << 20}
	victim := flow{to: 8, left: 1 << 20} // by the same link up as what goes to node 4
	got := alone(t, 12, victim, busy, flow{}, flow{}, flow{}, busy, busy, busy)
	// Four flows share the port of node 4, so each has a quarter of it, and the victim as much.
	if got < 4*megabyte*90/100 || got > 4*megabyte*110/100 {
		t.Errorf("took %v, four megabytes take %v", got, 4*megabyte)
	}
}

// TestEveryRunConserves: whatever the sizes, the network and the barrier.
func TestEveryRunConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := small()
		c.nodes = rapid.IntRange(2, 12).Draw(t, "nodes")
		c.dummies = rapid.IntRange(0, 3).Draw(t, "dummies")
		c.perLeaf = rapid.IntRange(1, 5).Draw(t, "per leaf")
		c.spines = rapid.IntRange(1, 3).Draw(t, "spines")
		c.links = rapid.IntRange(1, 2).Draw(t, "links")
		c.looseWarm, c.loosePhases = c.warm, c.phases
		c.credit = rapid.IntRange(1, 3).Draw(t, "credit")
		words := []string{"none", "central", "tournament", "dissemination", pull, free, tagring}
		c.under(rapid.SampledFrom(words).Draw(t, "under"))
		c.sizes = rapid.SampledFrom([]string{realistic, grouped, largest, maximal}).Draw(t, "sizes")
		c.drawnByMFP = rapid.Bool().Draw(t, "drawn by MFP")
		c.jitter = sim.Time(rapid.IntRange(0, 50).Draw(t, "jitter")) * sim.Microsecond
		c.slots = rapid.IntRange(1, 3).Draw(t, "slots")
		c.writes = rapid.IntRange(1, 3).Draw(t, "writes")
		c.buffer = rapid.IntRange(1, 6).Draw(t, "buffer") * c.segment / 2
		c.slow = rapid.IntRange(0, 1).Draw(t, "slow") * min(1, c.slots-1)
		c.consume = 5 * sim.Millisecond
		run(t, c, rapid.Uint64().Draw(t, "seed"))
	})
}

// TestSameSeedSameRun: a run is its seed's.
func TestSameSeedSameRun(t *testing.T) {
	c := small()
	c.sizes, c.drawnByMFP, c.jitter = realistic, true, 20*sim.Microsecond
	of := func(seed uint64) string {
		var out study.Outcome
		w := run(t, c, seed)
		o := w.outcome()
		o.say(&out, &c, "x")
		return fmt.Sprint(out, w.s.Executed())
	}
	if first, second := of(7), of(7); first != second {
		t.Error("two runs of one seed differ")
	}
	if of(7) == of(8) {
		t.Error("runs of two seeds are the same")
	}
}

// TestSlowOutputDiscards: a builder unit that cannot keep up discards, and the others keep their rate.
func TestSlowOutputDiscards(t *testing.T) {
	c := small()
	c.slots = 3
	c.barrier = barrier.Tournament
	healthy := run(t, c, 1)
	c.slow, c.consume = 1, sim.Second
	w := run(t, c, 1)
	if w.gone == 0 || w.to.at-w.from.at != healthy.to.at-healthy.from.at {
		t.Errorf("%d MEPs were discarded; it took %v, and without the slow output %v", w.gone, w.to.at-w.from.at,
			healthy.to.at-healthy.from.at)
	}
}

// TestBarrierByHand: a central barrier of 8 takes 7 messages one after the other, twice.
func TestBarrierByHand(t *testing.T) {
	c := small()
	c.barrier = barrier.Central
	w, err := meet(t.Context(), &c, study.Env{})
	must.OK(t, err)
	// One's own cost and flight, seven at the master, seven back, flight and cost of the last.
	if want := c.cost + c.flight + 7*c.cost + 7*c.cost + c.flight + c.cost; w.s.Now() != want {
		t.Errorf("it took %v, by hand %v", w.s.Now(), want)
	}
	if w.messages != 14 {
		t.Errorf("%d messages", w.messages)
	}
}
