package component_test

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
	"ringlet/sim/component"
)

func idle(t interface{ Fatal(...any) }, s *sim.Sim) {
	if end := s.Run(context.Background(), sim.Limits{MaxEvents: 10_000_000}); end != sim.Idle {
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
		q := component.NewQueue[int](sim.New(1), limit)
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
	b := component.NewBus(s, 5)
	one, two, first := &always{2, 0, 10, &order}, &always{3, 0, 20, &order}, &always{1, 0, 30, &order}
	b.Attach(one)
	b.Attach(two)
	b.AttachFirst(first)
	b.Kick()
	idle(t, s)
	want := []sim.Time{30, 10, 20, 10, 20, 20}
	for i, hold := range want {
		if order[i] != hold {
			t.Fatalf("served %v, want %v", order, want)
		}
	}
	if s.Now() != 110+6*5 || b.Transfers != 6 || b.Busy.Mean(s.Now()) != 1 {
		t.Error(s.Now(), b.Transfers, b.Busy.Mean(s.Now()))
	}
}
