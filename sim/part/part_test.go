package part_test

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
	"ringlet/sim/part"
)

func idle(t interface{ Fatal(...any) }, s *sim.Sim) {
	if end := s.Run(context.Background(), sim.Limits{Events: 10_000_000}); end != sim.Idle {
		t.Fatal(end)
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got/want-1) > within {
		t.Errorf("%s: %.5g, want %.5g", what, got, want)
	}
}

// TestQueue: a queue is a slice with a limit.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 20).Draw(t, "limit")
		q := part.NewQueue[int](sim.New(1), limit)
		var model []int
		var refused uint64
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				x := rapid.Int().Draw(t, "x")
				if q.Put(x) {
					model = append(model, x)
				} else {
					refused++
				}
			},
			"get": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip()
				}
				if first, x := q.First(), q.Get(); x != model[0] || first != x {
					t.Fatalf("got %d, want %d", x, model[0])
				}
				model = model[1:]
			},
			"": func(t *rapid.T) {
				if q.Len() != len(model) || q.Refused != refused || q.Full() != (limit > 0 && len(model) == limit) {
					t.Fatalf("%d inside, %d refused; want %d, %d", q.Len(), q.Refused, len(model), refused)
				}
			},
		})
	})
}

// always is a client that has n transfers of a length, one after the other.
type always struct {
	n, served int
	hold      sim.Time
	order     *[]sim.Time
}

func (c *always) Offer() (sim.Time, bool) { return c.hold, c.n > 0 }
func (c *always) Begin()                  { c.n-- }
func (c *always) End()                    { c.served++; *c.order = append(*c.order, c.hold) }

// TestBus: clients take turns, favoured ones first; no time is lost but that of arbitration.
func TestBus(t *testing.T) {
	s := sim.New(1)
	var order []sim.Time
	b := part.NewBus(s, 5)
	one, two, first := &always{2, 0, 10, &order}, &always{3, 0, 20, &order}, &always{1, 0, 30, &order}
	b.Attach(one)
	b.Attach(two)
	b.Favour(first)
	b.Kick()
	idle(t, s)
	want := []sim.Time{30, 10, 20, 10, 20, 20}
	for i, hold := range want {
		if order[i] != hold {
			t.Fatalf("served %v, want %v", order, want)
		}
	}
	if s.Now() != 110+6*5 || b.Served != 6 || b.Busy.Mean(s.Now()) != 1 {
		t.Error(s.Now(), b.Served, b.Busy.Mean(s.Now()))
	}
}

// TestProcessorLoses: M/M/1/K by a source with exponential times and jobs of exponential size loses Erlang's share.
func TestProcessorLoses(t *testing.T) {
	const load, room = 0.8, 4
	s := sim.New(5)
	rng := s.Stream("source")
	p := part.NewProcessor(s, 0, sim.Nanosecond, room)
	done := sim.Func(func(int64, int64) {})
	var came uint64
	var next sim.Func
	next = func(int64, int64) {
		came++
		p.Do(int(rng.Exp(1000)), done, 0, 0)
		s.After(rng.Exp(sim.Time(1000/load)*sim.Nanosecond), next, 0, 0)
	}
	s.At(0, next, 0, 0)
	s.Run(context.Background(), sim.Limits{Until: 500 * sim.Millisecond})
	want := (1 - load) * math.Pow(load, room) / (1 - math.Pow(load, room+1))
	near(t, "share refused", float64(p.Refused())/float64(came), want, 0.03)
	if came != p.Done+p.Refused()+uint64(p.Jobs().Value()) {
		t.Error(came, p.Done, p.Refused(), p.Jobs().Value())
	}
}

// TestBucket: of any load at most Burst + time/Period tokens leave in a time, and a steady load at the rate never
// waits.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := part.Bucket{
			Period: sim.Time(rapid.IntRange(1, 50).Draw(t, "period")),
			Burst:  rapid.Int64Range(1, 10).Draw(t, "burst"),
		}
		period, burst := b.Period, b.Burst
		var now sim.Time
		var sent []sim.Time
		for range 60 {
			now += sim.Time(rapid.IntRange(0, 40).Draw(t, "gap"))
			at := b.Take(now, 1)
			if at < now {
				t.Fatal("a token came before it was asked for")
			}
			now = at
			sent = append(sent, at)
		}
		for i, from := range sent {
			for j := i; j < len(sent); j++ {
				if most := burst + int64((sent[j]-from)/period); int64(j-i+1) > most {
					t.Fatalf("%d tokens in %v, at most %d", j-i+1, sent[j]-from, most)
				}
			}
		}
	})
	full := part.Bucket{Period: 100, Burst: 3}
	for i, want := range []sim.Time{0, 0, 0, 100, 200} {
		if got := full.Take(0, 1); got != want {
			t.Errorf("token %d at %v, want %v", i, got, want)
		}
	}
}
