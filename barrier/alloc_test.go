package barrier

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

// runEpoch plays one epoch of all cores, first in first out.
func runEpoch(cores []*Core, acts *Actions, queue []Message) ([]Message, int) {
	queue = queue[:0]
	released := 0
	take := func() {
		queue = append(queue, acts.Send...)
		if acts.Released {
			released++
		}
		acts.Send, acts.Released = acts.Send[:0], false
	}
	for _, c := range cores {
		if c.enter(c.currentEpoch(), 0, acts) == nil {
			take()
		}
	}
	for i := 0; i < len(queue); i++ {
		m := queue[i]
		if cores[m.To].Receive(m, 0, acts) == nil {
			take()
		}
	}
	return queue, released
}

func TestCoreAllocatesNothing(t *testing.T) {
	for _, kind := range allKinds {
		cores := newCores(t, kind.String(), 33)
		var acts Actions
		var queue []Message
		queue, _ = runEpoch(cores, &acts, queue)
		released := 0
		if n := testing.AllocsPerRun(100, func() { queue, released = runEpoch(cores, &acts, queue) }); n != 0 ||
			released != 33 {
			t.Errorf("%s: %v allocations per epoch, %d of 33 left", kind, n, released)
		}
	}
}

// loopback answers an arrival at once with its release, as a parent in which
// everybody else waits would.
type loopback struct {
	b   *Barrier
	buf [MessageSize]byte
}

func (e *loopback) Signal(to int, payload []byte) error {
	m, err := parseMessage(payload)
	if err != nil || m.Kind != kindArrive {
		return err
	}
	putMessage(e.buf[:], Message{
		Kind:  kindRelease,
		From:  m.To,
		To:    m.From,
		Epoch: m.Epoch,
	})
	return e.b.Deliver(to, e.buf[:])
}

// TestShellAllocatesNothing: a leaf that sends and is released, and a root that
// is arrived at and releases, with the time-out armed.
func TestShellAllocatesNothing(t *testing.T) {
	cores := newCores(t, "central", 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	e := &loopback{}
	e.b = New(cores[1], e, Options{Timeout: time.Minute})
	var err error
	if n := testing.AllocsPerRun(100, func() { _, _, err = e.b.Enter(ctx) }); n != 0 || err != nil {
		t.Errorf("leaf: %v allocations per epoch, %v", n, err)
	}

	root := New(cores[0], lossy{}, Options{Timeout: time.Minute})
	var buf [MessageSize]byte
	epoch := uint64(0)
	if n := testing.AllocsPerRun(100, func() {
		putMessage(buf[:], Message{Kind: kindArrive, From: 1, Epoch: epoch})
		err = root.Deliver(1, buf[:])
		if err == nil {
			_, _, err = root.Enter(ctx)
		}
		epoch++
	}); n != 0 || err != nil {
		t.Errorf("root: %v allocations per epoch, %v", n, err)
	}
}

// TestWaitingAllocatesNothing: the path that really blocks, with two goroutines.
func TestWaitingAllocatesNothing(t *testing.T) {
	for _, kind := range allKinds[1:] {
		for _, slack := range []int{0, 2} {
			t.Run(fmt.Sprint(kind, slack), func(t *testing.T) { waitingAllocatesNothing(t, kind, slack) })
		}
	}
}

func waitingAllocatesNothing(t *testing.T, kind Kind, slack int) {
	const runs = 100
	h := newHub(t, kind, 2, Options{Timeout: time.Minute, Slack: slack})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		var err error
		for i := 0; i < runs+1 && err == nil; i++ { // AllocsPerRun runs once more
			_, _, err = h.barriers[1].Enter(ctx)
		}
		ended <- err
	}()
	var err error
	n := testing.AllocsPerRun(runs, func() { _, _, err = h.barriers[0].Enter(ctx) })
	if other := patiently.Receive(t, ended); n != 0 || err != nil || other != nil {
		t.Errorf("%v allocations per epoch, %v, %v", n, err, other)
	}
}

func BenchmarkEpoch(b *testing.B) {
	for _, kind := range []Kind{Central, Tournament, Dissemination} {
		for _, n := range []int{4, 32} {
			b.Run(fmt.Sprintf("core/%s/%d", kind, n), func(b *testing.B) {
				cores := newCores(b, kind.String(), n)
				var acts Actions
				var queue []Message
				released := 0
				b.ReportAllocs()
				for b.Loop() {
					queue, released = runEpoch(cores, &acts, queue)
				}
				if released != n {
					b.Fatalf("%d of %d left", released, n)
				}
				b.ReportMetric(float64(len(queue)), "messages/op")
			})
		}
	}
}

// BenchmarkShells is an epoch of N goroutines in one process.
func BenchmarkShells(b *testing.B) {
	for _, n := range []int{2, 4} {
		b.Run(fmt.Sprintf("tournament/%d", n), func(b *testing.B) {
			h := newHub(b, Tournament, n, Options{Timeout: time.Minute})
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, n)
			for r := 1; r < n; r++ {
				go func() {
					var err error
					for err == nil {
						_, _, err = h.barriers[r].Enter(ctx)
					}
					ended <- err
				}()
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := h.barriers[0].Enter(ctx); err != nil {
					b.Fatal(err)
				}
			}
			cancel()
			for r := 1; r < n; r++ {
				if err := <-ended; !errors.Is(err, context.Canceled) {
					b.Error(err)
				}
			}
		})
	}
}
