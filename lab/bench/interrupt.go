package bench

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/internal/schedule"
	"ringlet/lab/trial"
)

const (
	// interruptInterval gives the receiver time to fall asleep again.
	interruptInterval = time.Millisecond
	besideWriteSize   = 4096 // bytes of a write of the traffic beside the interrupts
)

// interruptTimeout is how long an interrupt may take to arrive; the tests stretch it.
var interruptTimeout = time.Second

var interruptSignal = []byte("interrupt")

// interruptTest is a sender of interrupts, and a goroutine that sleeps until it has one.
type interruptTest struct {
	sentAt  atomic.Int64  // when the interrupt under way was sent, ns since start
	arrived chan struct{} // sent to by the carrier's goroutine
	handled chan struct{} // sent to by the goroutine that was woken
	start   time.Time
}

// interruptMeasurement sends interrupts (signals without data) to a node whose reader and whose waiting goroutine both
// sleep, and takes the time from the call until the goroutine runs, as L1-farm §5.1.3 did. Writes of load bytes/s go
// beside them.
func interruptMeasurement(load float64) namedMeasurement {
	return func(ctx context.Context, c NodesConfig, d time.Duration) (f trial.Figures, err error) {
		c.Spin = 0
		r := &interruptTest{
			arrived: make(chan struct{}, 1),
			handled: make(chan struct{}, 1),
			start:   time.Now(),
		}
		took, row := newTimes(), patternRow{}
		m := stationsConfig{
			nodes:    &c,
			view:     1,
			pairs:    map[int][]int{0: {1}},
			size:     besideWriteSize,
			batch:    1,
			onSignal: func() { r.arrived <- struct{}{} }, // does not block: the next interrupt is sent when this one was handled
		}
		err = m.with(ctx, func(all []*station) error {
			began := time.Now()
			err := runFor(d, func(over *atomic.Bool) error {
				g, ctx := errgroup.WithContext(ctx)
				ctx, enough := context.WithCancel(ctx)
				g.Go(func() error { r.awaitInterrupts(ctx, func(ns int64) { _ = took.RecordValue(ns) }); return nil })
				g.Go(func() error { return all[0].sendAtRate(ctx, load) })
				g.Go(func() error { defer enough(); return r.sendInterrupts(ctx, all[0], over) })
				return g.Wait()
			})
			awaitReceived(all)
			row.fillFromStations(all, time.Since(began))
			return err
		})
		if wrong, lost, _ := row.faults(); err == nil && wrong+lost > 0 {
			err = fmt.Errorf("bench: of the traffic beside interrupts %d words are wrong, %d writes lost", row.WrongWords,
				row.LostWrites)
		}
		return trial.Figures{
			"p50_us":      microsAt(took, 50),
			"p99_us":      microsAt(took, 99),
			"mean_us":     took.Mean() / 1e3,
			"interrupts":  float64(took.TotalCount()),
			"mbyte_per_s": row.MByteS,
		}, err
	}
}

// awaitInterrupts receives each interrupt, and records how long it took.
func (r *interruptTest) awaitInterrupts(ctx context.Context, record func(ns int64)) {
	for {
		select {
		case <-r.arrived:
			record(int64(time.Since(r.start)) - r.sentAt.Load())
			r.handled <- struct{}{}
		case <-ctx.Done():
			return
		}
	}
}

// sendInterrupts sends one interrupt after the other until over is set.
func (r *interruptTest) sendInterrupts(ctx context.Context, s *station, over *atomic.Bool) error {
	late := time.NewTimer(interruptTimeout)
	defer late.Stop()
	for !over.Load() {
		time.Sleep(interruptInterval)
		late.Reset(interruptTimeout)
		r.sentAt.Store(int64(time.Since(r.start)))
		if err := s.endpoint.Signal(1, interruptSignal); err != nil {
			return err
		}
		select {
		case <-r.handled:
		case <-late.C:
			return fmt.Errorf("bench: an interrupt did not arrive within %s", interruptTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// sendAtRate writes rate bytes/s until ctx is done, and waits for the writes under way.
func (s *station) sendAtRate(ctx context.Context, rate float64) error {
	if rate == 0 {
		return nil
	}
	l := s.outFlows[1]
	p := schedule.NewPacer(rate/float64(l.size), math.MaxInt64) // makes up for all delays: the mean rate counts
	for ctx.Err() == nil {
		if wait, _ := p.NextWait(time.Now()); wait > 0 {
			time.Sleep(max(100*time.Microsecond, wait))
			continue
		}
		if _, err := s.send(ctx, l, 1); err != nil {
			if ctx.Err() != nil {
				break
			}
			return err
		}
		p.Advance(1)
	}
	drained, cancel := context.WithTimeout(context.Background(), placementTimeout)
	defer cancel()
	return s.await(drained, s.idle)
}
