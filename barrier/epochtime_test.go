package barrier

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// timed plays cores in virtual time. A rank puts one message on its port at a time
// and takes one off it at a time, each for port µs; a message flies for flight µs.
// Every rank has a clock of its own.
type timed struct {
	*net
	port, flight int64
	clocks       []int64 // by rank: what its clock says at time 0
	out, in      []int64 // by rank: when its port is free
	todo         agenda
	number       int
}

// occasion is a message that comes, or a rank that enters.
type occasion struct {
	at     int64
	number int // those of one time happen in order of their making
	rank   int // that enters; Nobody: message comes
	came   Message
}

type agenda []occasion

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].number < a[j].number
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(occasion)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func newTimed(t testing.TB, kind Kind, n int, port, flight int64) *timed {
	return &timed{
		net:    newNet(t, kind, n),
		port:   port,
		flight: flight,
		clocks: make([]int64, n),
		out:    make([]int64, n),
		in:     make([]int64, n),
	}
}

func (w *timed) plan(o occasion) {
	w.number++
	o.number = w.number
	heap.Push(&w.todo, o)
}

// run goes on until nothing happens any more. onRelease is told of each rank that leaves an epoch.
func (w *timed) run(onRelease func(rank int, now int64)) error {
	for w.todo.Len() > 0 {
		o := heap.Pop(&w.todo).(occasion)
		rank := o.rank
		if rank == Nobody {
			rank = int(o.came.To)
		}
		w.now = o.at + w.clocks[rank]
		before := w.cores[rank].currentEpoch()
		var err error
		if o.rank == Nobody {
			err = w.receive(o.came)
		} else {
			err = w.enter(rank)
		}
		if err != nil {
			return err
		}
		for _, m := range w.flying {
			w.out[rank] = max(o.at, w.out[rank]) + w.port
			w.in[m.To] = max(w.out[rank]+w.flight, w.in[m.To]) + w.port
			w.plan(occasion{at: w.in[m.To], rank: Nobody, came: m})
		}
		w.flying = w.flying[:0]
		if w.cores[rank].currentEpoch() != before {
			onRelease(rank, o.at)
		}
	}
	return nil
}

// perEpoch is the time of an epoch, in µs, when every rank enters the next one as soon as it is let.
func perEpoch(t testing.TB, kind Kind, n int, port, flight int64) float64 {
	const epochs = 20
	w := newTimed(t, kind, n, port, flight)
	for r := range n {
		w.plan(occasion{rank: r})
	}
	over := int64(0)
	if err := w.run(func(rank int, now int64) {
		over = max(over, now)
		if w.cores[rank].currentEpoch() < epochs {
			w.plan(occasion{at: now, rank: rank})
		}
	}); err != nil {
		t.Fatal(err)
	}
	return float64(over) / epochs
}

// TestTimeOfAnEpoch: where a port takes one message at a time, the time of central
// grows with N, that of the others with log N, and dissemination takes half of the
// tournament's.
func TestTimeOfAnEpoch(t *testing.T) {
	const port, flight = 10, 100
	one := float64(port + flight + port) // from a rank to another, on free ports
	for _, n := range []int{2, 4, 8, 16, 32, 64} {
		rounds := float64(roundsOf(Tournament, n))
		central, tournament := perEpoch(t, Central, n, port, flight), perEpoch(t, Tournament, n, port, flight)
		dissemination := perEpoch(t, Dissemination, n, port, flight)
		t.Logf("n=%d: central %v µs, tournament %v µs, dissemination %v µs", n, central, tournament, dissemination)
		// All arrivals pass through the port of rank 0, and all releases: at best at the same time, since the
		// first to be released arrive again while the others are being released.
		if each := float64((n - 1) * port); central < each || central > 2*each+2*one {
			t.Errorf("n=%d: central takes %v µs, that is not between %v and twice that and two hops", n, central, each)
		}
		if tournament < 2*rounds*float64(flight) || tournament > 2*rounds*one {
			t.Errorf("n=%d: tournament takes %v µs, that is not %v hops of %v", n, tournament, 2*rounds, one)
		}
		if dissemination != rounds*one {
			t.Errorf("n=%d: dissemination takes %v µs, that is not %v hops of %v", n, dissemination, rounds, one)
		}
		if none := perEpoch(t, None, n, port, flight); none != 0 {
			t.Errorf("n=%d: none takes %v µs", n, none)
		}
	}
}

// TestWhoHeldThePhase: with clocks that have nothing to do with each other, every
// rank names the one that entered last if its lead is more than messages fly, and
// is told times that are true but for those flights.
func TestWhoHeldThePhase(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind, n := drawKind(rt), rapid.IntRange(2, 64).Draw(rt, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		w := newTimed(t, kind, n, rapid.Int64Range(0, 3).Draw(rt, "port"), rapid.Int64Range(0, 50).Draw(rt, "flight"))
		spread := rapid.Int64Range(1, 100_000).Draw(rt, "spread")
		entered := make([]int64, n)
		epochs := uint64(3)
		begin := func(rank int, now int64) {
			at := now + rng.Int64N(spread)
			entered[rank] = at
			w.plan(occasion{at: at, rank: rank})
		}
		for r := range n {
			w.clocks[r] = rng.Int64N(1e12)
			begin(r, 0)
		}
		// One way up, one down, and in a dissemination twice through an overlap.
		bound := 4 * (w.flight + int64(2*n)*w.port) * int64(roundsOf(kind, n))
		waiting := n
		check := func(rank int, now int64) {
			h := w.cores[rank].lastStraggler
			if kind == None {
				if h.Rank != Nobody || h.AfterSecondLast+h.AfterFirst != 0 {
					rt.Fatalf("rank %d: %+v though nobody waits", rank, h)
				}
			} else {
				checkStraggler(rt, rank, h, entered, bound)
			}
			// All enter the next epoch after all have left this one, so that entered is of one epoch.
			if waiting--; waiting == 0 && w.cores[rank].currentEpoch() < epochs {
				waiting = n
				for r := range n {
					begin(r, now)
				}
			}
		}
		if err := w.run(check); err != nil {
			rt.Fatal(err)
		}
		if w.cores[0].currentEpoch() != epochs {
			rt.Fatalf("stuck at epoch %d", w.cores[0].currentEpoch())
		}
	})
}

func checkStraggler(t *rapid.T, rank int, h Straggler, entered []int64, bound int64) {
	order := slices.Sorted(slices.Values(entered))
	n := len(order)
	last, second, first := order[n-1], order[n-2], order[0]
	by, span := h.AfterSecondLast.Microseconds(), h.AfterFirst.Microseconds()
	if last-second > bound && entered[h.Rank] != last {
		t.Fatalf("rank %d says that %d was last, they entered at %v", rank, h.Rank, entered)
	}
	if last-entered[h.Rank] > bound || by < last-second-bound || by > last-second+bound || span < last-first-bound ||
		span > last-first+bound {
		t.Fatalf("rank %d says that %d was last by %d of %d µs, within %d; they entered at %v", rank, h.Rank, by, span, bound,
			entered)
	}
}

// BenchmarkTimeOfAnEpoch gives the time in virtual µs, on ports that take a message
// of a few hundred bytes at 200 Mbit/s and flights of a LAN.
func BenchmarkTimeOfAnEpoch(b *testing.B) {
	for _, kind := range allKinds {
		for _, n := range []int{2, 4, 8, 16, 32, 512} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				us := 0.0
				for b.Loop() {
					us = perEpoch(b, kind, n, 5, 50)
				}
				b.ReportMetric(us, "virtual-µs/epoch")
			})
		}
	}
}
