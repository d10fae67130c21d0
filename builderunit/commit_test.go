package builderunit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// gatedSink is a catcher whose Flush waits for the test, and which knows what was flushed.
type gatedSink struct {
	*catcher
	flushes chan chan error // the test answers each flush

	mu       sync.Mutex // guards what follows
	written  int
	flushing int
}

func (g *gatedSink) Write(ctx context.Context, m sink.Meta, mep []byte) error {
	err := g.catcher.Write(ctx, m, mep)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.written++
	return err
}

func (g *gatedSink) Flush() error {
	g.mu.Lock()
	g.flushing = g.written
	g.mu.Unlock()
	answer := make(chan error)
	g.flushes <- answer
	return patiently.Hold(answer)
}

func durableRig(t *testing.T, slots int, preGranted bool) (r *rig, gate *gatedSink, build func(slot int, mep uint64)) {
	t.Helper()
	gate = &gatedSink{flushes: make(chan chan error)}
	change := func(r *rig, c *Config) {
		gate.catcher = r.sink
		c.Sink, c.Durable = gate, true
	}
	if preGranted {
		q := newPreGrantedRig(t, slots, change)
		return q.rig, gate, q.buildPreGranted
	}
	r = newRigWithSlots(t, slots, change)
	return r, gate, func(slot int, mep uint64) {
		first := mep * rigPacking
		r.build([]*piece{r.piece(0, first), r.piece(1, first), r.piece(2, first)}, slot, mep)
	}
}

// TestReportedWhenSafe holds that no MEP is reported that has not been flushed, that the unit goes on
// meanwhile, and that what is finished during a flush shares the next one.
func TestReportedWhenSafe(t *testing.T) {
	for _, preGranted := range []bool{false, true} {
		r, gate, build := durableRig(t, 3, preGranted)
		build(0, 0)
		first := patiently.Receive(t, gate.flushes)
		build(1, 1)
		build(2, 2)
		for r.b.Stats().UnreportedMEPs < 3 { // both are with the sink while the first is flushed
			select {
			case err := <-r.failed:
				t.Fatal(err)
			case res := <-r.results:
				t.Fatalf("pre-granted %v: reported MEP %d before it was safe", preGranted, res.MEP)
			default:
			}
		}
		first <- nil
		if got := r.result(); got.MEP != 0 || got.Outcome != core.Built {
			t.Errorf("pre-granted %v: %+v", preGranted, got)
		}
		second := patiently.Receive(t, gate.flushes)
		gate.mu.Lock()
		if gate.flushing != 3 {
			t.Errorf("pre-granted %v: %d MEPs in the second flush, not all 3", preGranted, gate.flushing)
		}
		gate.mu.Unlock()
		second <- nil
		if one, two := r.result(), r.result(); one.MEP != 1 || two.MEP != 2 {
			t.Errorf("pre-granted %v: %+v, %+v", preGranted, one, two)
		}
		r.close()
		if n := r.b.Stats().UnreportedMEPs; n != 0 {
			t.Errorf("pre-granted %v: %d MEPs unreported in the end", preGranted, n)
		}
	}
}

// TestNotReportedWhenNotSafe holds that a MEP whose flush fails is not reported, and that the unit fails.
func TestNotReportedWhenNotSafe(t *testing.T) {
	r, gate, build := durableRig(t, 2, false)
	build(0, 0)
	broken := errors.New("the disk is gone")
	patiently.Receive(t, gate.flushes) <- broken
	if err := r.failure(); !errors.Is(err, broken) {
		t.Error(err)
	}
	r.close()
	if len(r.results) > 0 {
		t.Errorf("reported %+v", patiently.Receive(t, r.results))
	}
	if n := r.b.Stats().UnreportedMEPs; n != 1 {
		t.Errorf("%d MEPs are not safe, not 1", n)
	}
}

// TestClosedBeforeSafe holds that Close makes safe what the sink has taken, and reports it.
func TestClosedBeforeSafe(t *testing.T) {
	r, gate, build := durableRig(t, 2, true)
	build(0, 0)
	first := patiently.Receive(t, gate.flushes)
	build(1, 1)
	patiently.Until(t, "the second is taken", func() bool {
		select {
		case err := <-r.failed:
			t.Fatal(err)
		default:
		}
		return r.b.Stats().UnreportedMEPs >= 2
	})
	closed := make(chan struct{})
	go func() { r.close(); close(closed) }()
	first <- nil
	select {
	case last := <-gate.flushes:
		last <- nil
	case <-closed:
		t.Fatal("closed without making safe what the sink had taken")
	case <-time.After(patiently.LongTimeout):
		t.Fatal("neither closed nor making safe what the sink had taken")
	}
	patiently.Receive(t, closed)
	if one, two := r.result(), r.result(); one.MEP != 0 || two.MEP != 1 {
		t.Errorf("%+v, %+v", one, two)
	}
}

// TestResetWaitsForFlush holds that Reset ends only when nothing of the time before is to be reported any more.
func TestResetWaitsForFlush(t *testing.T) {
	r, gate, build := durableRig(t, 2, false)
	build(0, 0)
	first := patiently.Receive(t, gate.flushes)
	over := make(chan error)
	go func() { over <- r.b.Reset(t.Context(), 0) }()
	select {
	case err := <-over:
		t.Fatalf("reset while a MEP was being made safe: %v", err)
	default:
	}
	first <- nil
	if got := r.result(); got.MEP != 0 {
		t.Errorf("%+v", got)
	}
	if err := patiently.Receive(t, over); err != nil {
		t.Error(err)
	}
}
