package sim_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
)

// TestOrder: whatever is scheduled in whatever order, events run by time, and those of one time as they were scheduled.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct{ at, n int64 }
		var want, got []event
		s := sim.New(1)
		log := sim.Func(func(at, n int64) { got = append(got, event{at, n}) })
		for n, at := range rapid.SliceOfN(rapid.Int64Range(0, 20), 0, 400).Draw(t, "times") {
			s.ScheduleAt(sim.Time(at), log, at, int64(n))
			want = append(want, event{at, int64(n)})
		}
		if s.Pending() != len(want) {
			t.Fatalf("%d events pending, want %d", s.Pending(), len(want))
		}
		slices.SortStableFunc(want, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		if end := s.Run(context.Background(), sim.Limits{}); end != sim.Idle {
			t.Fatal(end)
		}
		if !slices.Equal(want, got) {
			t.Fatalf("events ran as %v, want %v", got, want)
		}
	})
}

// TestEnds: each limit ends a run, and the next run goes on from there.
func TestEnds(t *testing.T) {
	s := sim.New(1)
	var tick sim.Func
	tick = func(n, _ int64) {
		if n == 30 {
			s.Stop()
		}
		s.ScheduleAfter(sim.Nanosecond, tick, n+1, 0)
	}
	s.ScheduleAt(0, tick, 0, 0)
	ctx, cancel := context.WithCancel(context.Background())
	check := func(ctx context.Context, l sim.Limits, end sim.EndReason, now sim.Time, executed uint64) {
		t.Helper()
		if got := s.Run(ctx, l); got != end || s.Now() != now || s.Executed() != executed {
			t.Fatalf("%v at %v after %d events, want %v at %v after %d", got, s.Now(), s.Executed(), end, now, executed)
		}
	}
	check(ctx, sim.Limits{MaxEvents: 10}, sim.EventLimit, 9*sim.Nanosecond, 10)
	check(ctx, sim.Limits{Until: 19500}, sim.TimeLimit, 19500, 20)
	check(ctx, sim.Limits{}, sim.Stopped, 30*sim.Nanosecond, 31)
	calls := 0
	progress := func(sim.Time, uint64) {
		if calls++; calls == 3 {
			cancel()
		}
	}
	check(ctx, sim.Limits{OnProgress: progress}, sim.Interrupted, sim.Time(30+2*sim.CheckEvery)*sim.Nanosecond,
		31+2*sim.CheckEvery)
}

func TestThePastIsRefused(t *testing.T) {
	s := sim.New(1)
	s.ScheduleAt(sim.Second, sim.Func(func(int64, int64) {}), 0, 0)
	s.Run(context.Background(), sim.Limits{})
	defer func() {
		if recover() == nil {
			t.Fatal("an event was scheduled before now")
		}
	}()
	s.ScheduleAt(sim.Second-1, sim.Func(func(int64, int64) {}), 0, 0)
}

// TestStreams: a stream follows from seed and name alone.
func TestStreams(t *testing.T) {
	first := sim.New(1).RandomStream("a").Uint64()
	other := sim.New(1)
	other.RandomStream("new component").Uint64()
	if other.RandomStream("a").Uint64() != first {
		t.Error("a component more changed the numbers of another")
	}
	if sim.New(2).RandomStream("a").Uint64() == first || sim.New(1).RandomStream("b").Uint64() == first {
		t.Error("another seed or another name gave the same numbers")
	}
	rng := other.RandomStream("poisson")
	for _, mean := range []float64{0.5, 3, 25, 200} {
		var sum, square float64
		const n = 100_000
		for range n {
			x := float64(rng.Poisson(mean))
			sum, square = sum+x, square+x*x
		}
		if m := sum / n; math.Abs(m/mean-1) > 0.02 || math.Abs((square/n-m*m)/mean-1) > 0.03 {
			t.Errorf("Poisson(%v): mean %v, variance %v", mean, m, square/n-m*m)
		}
	}
}

// hold schedules itself again and again: the classical hold model of pending-event sets.
type hold struct {
	s   *sim.Sim
	rng *sim.RandomStream
}

func (h *hold) Handle(a, b int64) { h.s.ScheduleAfter(h.rng.Exp(sim.Microsecond), h, a+1, b) }

func holding(pending int) *sim.Sim {
	s := sim.New(1)
	h := &hold{s: s, rng: s.RandomStream("hold")}
	for range pending {
		h.Handle(0, 0)
	}
	return s
}

func TestNoAllocationPerEvent(t *testing.T) {
	s := holding(1000)
	ctx := context.Background()
	turn := func() {
		for range 1000 {
			s.Run(ctx, sim.Limits{MaxEvents: 10})
		}
	}
	turn() // the heap grows to what is pending
	if n := testing.AllocsPerRun(10, turn); n > 0 {
		t.Errorf("%v allocations in 10,000 events", n)
	}
}

func BenchmarkEvents(b *testing.B) {
	for _, pending := range []int{1000, 100_000} {
		b.Run("pending="+map[int]string{1000: "1k", 100_000: "100k"}[pending], func(b *testing.B) {
			s := holding(pending)
			b.ReportAllocs()
			b.ResetTimer()
			s.Run(context.Background(), sim.Limits{MaxEvents: uint64(b.N)})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
