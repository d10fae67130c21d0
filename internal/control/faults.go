package control

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Fault is something that broke: who, what, and how that is known.
type Fault struct {
	Component string `json:"component"`
	What      string `json:"what"`
	Evidence  string `json:"evidence"`

	rank int // how close to the cause the witness is; less is closer
}

// Witnesses, the closest first: a dead process is seen by its parent, by the scheduler whose stream it held, by the watcher of
// its reports, and by its peers, who can only say that a link is down.
const (
	rankProcess = iota
	rankStream
	rankWatch
	rankPeer
)

// A FaultError ends a run.
type FaultError struct{ Fault }

func (e *FaultError) Error() string {
	return fmt.Sprintf("%s: %s (%s)", e.Component, e.What, e.Evidence)
}

// faults collects what broke. The first fault ends the run; the cause is the one with the closest witness.
type faults struct {
	struck chan struct{} // closed with the first fault

	mu   sync.Mutex // guards what follows
	all  []Fault
	mute bool
}

func newFaults() *faults { return &faults{struck: make(chan struct{})} }

func (f *faults) add(x Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mute {
		return
	}
	f.all = append(f.all, x)
	if len(f.all) == 1 {
		close(f.struck)
	}
}

// silence is for the time when nodes are ended on purpose.
func (f *faults) silence() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = true
}

// settle is how long to wait for a closer witness after the first fault.
const settle = 400 * time.Millisecond

// cause is the fault with the closest witness, or nil.
func (f *faults) cause() *FaultError {
	f.mu.Lock()
	defer f.mu.Unlock()
	var best *Fault
	for i := range f.all {
		if x := &f.all[i]; best == nil || x.rank < best.rank {
			best = x
		}
	}
	if best == nil {
		return nil
	}
	return &FaultError{*best}
}

// during makes a context that also ends when something breaks.
func (f *faults) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		select {
		case <-f.struck:
			cancel(f.cause())
		case <-over:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(over); cancel(nil) })
}

// explain replaces an error that a fault has brought about by the fault.
func (r *run) explain(err error) error {
	select {
	case <-r.faults.struck:
		time.Sleep(settle)
		return r.faults.cause()
	default:
		return err
	}
}
