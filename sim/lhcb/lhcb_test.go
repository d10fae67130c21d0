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
		nodes:            8,
		perLeaf:          4,
		spines:           2,
		links:            2,
		sizeRule:         sizesMaximal,
		packing:          1000,
		streams:          2,
		groupMeans:       []int{100, 120, 140},
		maxFragmentBytes: 160,
		perByte:          40,
		mtu:              4096,
		segment:          16 << 10,
		buffer:           32 << 10,
		hop:              300 * sim.Nanosecond,
		messageDelay:     2 * sim.Microsecond,
		messageCost:      sim.Microsecond / 2,
		softwareTime:     10 * sim.Microsecond,
		slots:            2,
		maxUnackedWrites: 1,
		requestCredit:    2,

		discipline:     disciplineShift,
		outputCapacity: 1,
		warm:           8,
		phases:         16,
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
	if w.CountedTo.PlacedParts != uint64(c.nodes*(c.warm+c.phases)) {
		t.Fatalf("%d parts were placed, not those of %d phases", w.CountedTo.PlacedParts, c.warm+c.phases)
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
	want := c.softwareTime + transfer + 6*(c.messageDelay+2*c.messageCost)
	got := (w.CountedTo.At - w.CountedFrom.At) / sim.Time(c.phases)
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
		c.looseWarmUp, c.looseCounted = c.warm, c.phases
		c.requestCredit = rapid.IntRange(1, 3).Draw(t, "credit")
		words := []string{"none", "central", "tournament", "dissemination", disciplinePull, disciplineFree, disciplineTagRing,
			disciplinePush}
		c.applyWord(rapid.SampledFrom(words).Draw(t, "under"))
		c.sizeRule = rapid.SampledFrom([]string{sizesRealistic, sizesGrouped, sizesLargest, sizesMaximal}).Draw(t, "sizes")
		c.oneDrawPerMFP = rapid.Bool().Draw(t, "drawn by MFP")
		c.jitter = sim.Time(rapid.IntRange(0, 50).Draw(t, "jitter")) * sim.Microsecond
		c.slots = rapid.IntRange(1, 3).Draw(t, "slots")
		c.maxUnackedWrites = rapid.IntRange(1, 3).Draw(t, "writes")
		c.buffer = rapid.IntRange(1, 6).Draw(t, "buffer") * c.segment / 2
		c.slowBUs = rapid.IntRange(0, 1).Draw(t, "slow") * min(1, c.slots-1)
		c.consumeTime = 5 * sim.Millisecond
		runs(t, c, rapid.Uint64().Draw(t, "seed"))
	})
}

// TestSameSeedSameRun: a run is its seed's.
func TestSameSeedSameRun(t *testing.T) {
	c := small()
	c.sizeRule, c.oneDrawPerMFP, c.jitter = sizesRealistic, true, 20*sim.Microsecond
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
	c.slowBUs, c.consumeTime = 1, sim.Second
	w := runs(t, c, 1)
	if w.discardedMEPs == 0 || w.CountedTo.At-w.CountedFrom.At != healthy.CountedTo.At-healthy.CountedFrom.At {
		t.Errorf("%d MEPs were discarded; it took %v, and without the slow output %v", w.discardedMEPs,
			w.CountedTo.At-w.CountedFrom.At, healthy.CountedTo.At-healthy.CountedFrom.At)
	}
}

// TestBarrierByHand: a central barrier of 8 takes 7 messages one after the other, twice.
func TestBarrierByHand(t *testing.T) {
	c := small()
	c.barrier = barrier.Central
	w, err := runBarrier(t.Context(), &c, study.Env{})
	must.OK(t, err)
	// One's own cost and flight, seven at the master, seven back, flight and cost of the last.
	if want := c.messageCost + c.messageDelay + 7*c.messageCost + 7*c.messageCost + c.messageDelay +
		c.messageCost; w.s.Now() != want {
		t.Errorf("it took %v, by hand %v", w.s.Now(), want)
	}
	if w.BarrierMessageCount != 14 {
		t.Errorf("%d messages", w.BarrierMessageCount)
	}
}

// TestJitter: both shapes have the mean that is asked for; uniform delays end at twice as much.
func TestJitter(t *testing.T) {
	const mean, draws = 30 * sim.Microsecond, 20_000
	for _, even := range []bool{false, true} {
		c := setup{jitter: mean, uniformJitter: even}
		r := sim.New(1).RandomStream("jitter")
		var sum, most sim.Time
		for range draws {
			d := c.drawJitter(r)
			sum, most = sum+d, max(most, d)
		}
		if got := sum / draws; got < mean*97/100 || got > mean*103/100 || (most < 2*mean) != even {
			t.Errorf("even %v: a mean of %v, %v at most", even, got, most)
		}
	}
}
