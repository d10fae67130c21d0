package lhcb

import (
	"context"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"ringlet/barrier"
	"ringlet/sim"
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

// runs plays a setup and holds it against what must be true of every run: when nobody begins anything any more, every
// byte that was sent is placed, and every buffer is empty.
func runs(t must.TB, c setup, seed uint64) *run {
	t.Helper()
	w, err := open(&c, study.Env{Seed: seed})
	must.OK(t, err)
	_, err = w.Play(context.Background(), sim.Limits{})
	must.OK(t, err)
	if w.To.Parts != uint64(c.nodes*(c.warm+c.phases)) {
		t.Fatalf("%d parts were placed, not those of %d phases", w.To.Parts, c.warm+c.phases)
	}
	must.OK(t, w.Drain(context.Background()))
	return w
}

// TestPhaseAgainstHandCalculation: with equal sizes, no jitter and a barrier, each phase takes the software's time, the
// bytes at the port's rate, four hops and the acknowledgement, and the barrier.
func TestPhaseAgainstHandCalculation(t *testing.T) {
	c := small()
	c.barrier = barrier.Tournament
	w := runs(t, c, 1)
	// 1,000 events × 2 streams × 160 B at 40 ps, through 4 ports with a hop each, and one back; 3 rounds of the
	// tournament up and 3 down, of 2 µs and twice 0.5 µs each. The winner of all answers three losers one after the
	// other, and the one that hears it first has two more to answer: so down takes no more than 3 rounds.
	transfer := 320_000*40*sim.Picosecond + 4*c.hop + c.hop
	want := c.software + transfer + 6*(c.flight+2*c.cost)
	got := (w.To.At - w.From.At) / sim.Time(c.phases)
	if d := math.Abs(float64(got-want)) / float64(want); d > 0.01 {
		t.Errorf("a phase takes %v, by hand %v", got, want)
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
		c.applyWord(rapid.SampledFrom(words).Draw(t, "under"))
		c.sizes = rapid.SampledFrom([]string{realistic, grouped, largest, maximal}).Draw(t, "sizes")
		c.drawnByMFP = rapid.Bool().Draw(t, "drawn by MFP")
		c.jitter = sim.Time(rapid.IntRange(0, 50).Draw(t, "jitter")) * sim.Microsecond
		c.slots = rapid.IntRange(1, 3).Draw(t, "slots")
		c.writes = rapid.IntRange(1, 3).Draw(t, "writes")
		c.buffer = rapid.IntRange(1, 6).Draw(t, "buffer") * c.segment / 2
		c.slow = rapid.IntRange(0, 1).Draw(t, "slow") * min(1, c.slots-1)
		c.consume = 5 * sim.Millisecond
		runs(t, c, rapid.Uint64().Draw(t, "seed"))
	})
}

// TestSameSeedSameRun: a run is its seed's.
func TestSameSeedSameRun(t *testing.T) {
	c := small()
	c.sizes, c.drawnByMFP, c.jitter = realistic, true, 20*sim.Microsecond
	of := func(seed uint64) string {
		var out study.Outcome
		w := runs(t, c, seed)
		o := w.outcome()
		o.addResults(&out, &c, "x")
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
	healthy := runs(t, c, 1)
	c.slow, c.consume = 1, sim.Second
	w := runs(t, c, 1)
	if w.gone == 0 || w.To.At-w.From.At != healthy.To.At-healthy.From.At {
		t.Errorf("%d MEPs were discarded; it took %v, and without the slow output %v", w.gone, w.To.At-w.From.At,
			healthy.To.At-healthy.From.At)
	}
}

// TestBarrierByHand: a central barrier of 8 takes 7 messages one after the other, twice.
func TestBarrierByHand(t *testing.T) {
	c := small()
	c.barrier = barrier.Central
	w, err := runBarrier(t.Context(), &c, study.Env{})
	must.OK(t, err)
	// One's own cost and flight, seven at the master, seven back, flight and cost of the last.
	if want := c.cost + c.flight + 7*c.cost + 7*c.cost + c.flight + c.cost; w.s.Now() != want {
		t.Errorf("it took %v, by hand %v", w.s.Now(), want)
	}
	if w.Messages != 14 {
		t.Errorf("%d messages", w.Messages)
	}
}

// TestJitter: both shapes have the mean that is asked for; uniform delays end at twice as much.
func TestJitter(t *testing.T) {
	const mean, draws = 30 * sim.Microsecond, 20_000
	for _, even := range []bool{false, true} {
		c := setup{jitter: mean, evenJitter: even}
		r := sim.New(1).Stream("jitter")
		var sum, most sim.Time
		for range draws {
			d := c.delay(r)
			sum, most = sum+d, max(most, d)
		}
		if got := sum / draws; got < mean*97/100 || got > mean*103/100 || (most < 2*mean) != even {
			t.Errorf("even %v: a mean of %v, %v at most", even, got, most)
		}
	}
}
