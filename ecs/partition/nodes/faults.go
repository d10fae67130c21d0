package nodes

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// faults is the shell of the core that judges what breaks: it takes sights from any goroutine, and wakes who waits.
type faults struct {
	mu     sync.Mutex // guards what follows
	core   *fault.Core
	struck chan struct{}     // closed with the first fault that nobody bears
	closed bool              // struck is
	lose   func(fault.Fault) // takes a unit out that the policy does without; nil outside of a run

	run atomic.Uint32 // the run that the nodes were given last
}

func newFaults(own bool) *faults { return &faults{core: fault.New(own), struck: make(chan struct{})} }

// ask asks the core, one at a time.
func ask[T any](f *faults, question func(*fault.Core) T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return question(f.core)
}

// tell tells the core something that has no answer.
func (f *faults) tell(what func(*fault.Core)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what(f.core)
}

// see takes what somebody has seen of a component.
func (f *faults) see(x fault.Sight) {
	if x.At.IsZero() {
		x.At = time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch act, of := f.core.See(x); act {
	case fault.Strike:
		f.closed = true
		close(f.struck)
	case fault.Lose:
		if f.lose != nil {
			go f.lose(of)
		}
	case fault.Nothing:
	}
}

// awake is the time less that in which this process stood still.
func (f *faults) awake(now time.Time) time.Time {
	return ask(f, func(c *fault.Core) time.Time { return c.Awake(now) })
}

// begin has losses borne from now on.
func (f *faults) begin(lose func(fault.Fault)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = lose
	f.core.Begin()
}

// clear forgets what broke and listens again; anew does so only where the end of a run has silenced it.
func (f *faults) clear() { f.forget((*fault.Core).Clear) }
func (f *faults) anew()  { f.forget((*fault.Core).Again) }

func (f *faults) forget(how func(*fault.Core)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f.core)
	if f.closed && f.core.Cause(time.Now()) == nil {
		f.struck, f.closed = make(chan struct{}), false
	}
}

// struckNow is closed with the first fault since the last clear.
func (f *faults) struckNow() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// heard takes that a node has told something.
func (f *faults) heard(node string, rep *nodev1.Report) {
	f.tell(func(c *fault.Core) {
		process := ""
		if pid := rep.GetMachine().GetProcess(); pid != 0 {
			process = strconv.FormatUint(uint64(pid), 10)
		}
		c.Know(node, rep.GetMachine().GetHost(), process)
		c.Heard(node, time.Now(), f.done(rep))
	})
}

// done says that the run which the nodes were given last is over for the one that tells this. Until a node begins a run
// it tells of the one before: a final report of that says nothing.
func (f *faults) done(rep *nodev1.Report) bool { return rep.GetFinal() && rep.GetRun() == f.run.Load() }

// report takes what a node says of itself, and of those to which it has lost its link. A node in Error, or parked,
// names whoever is at fault. One that tells of a run that is over says nothing of its links.
func (f *faults) report(node string, rep *nodev1.Report, present bool) {
	if st := rep.GetStatus(); present && ask(f, (*fault.Core).Listening) &&
		(st.GetState() == fsm.Error.String() || st.GetParked()) {
		f.see(told(node, st.GetCause()))
	}
	if rep.GetFinal() {
		return
	}
	for _, bad := range rep.GetBadPeers() {
		x := told(node, bad)
		x.Kind = fault.Own // whoever says so goes on, and what that says of itself follows from it
		f.see(x)
	}
	for _, lost := range rep.GetLostPeers() {
		f.see(fault.Sight{Kind: fault.Cut, By: node, Fault: fault.Fault{
			Component: lost,
			Part:      fault.PartTransport,
			What:      "the link of " + node + " to it is down",
			Evidence:  "seen by " + node,
		}})
	}
}

// told is the word of a node on whoever is at fault.
func told(node string, c *nodev1.Cause) fault.Sight {
	x := fault.Sight{
		Fault:  fault.Told(c),
		Kind:   fault.Blamed,
		By:     node,
		Closed: c.GetCode() == fsm.CauseClosed.String(),
	}
	if x.Component == node {
		x.Kind = fault.Own
	}
	return x
}

// cause is what broke as far as is known now, or nil.
func (f *faults) cause() *fault.Error {
	return asError(ask(f, func(c *fault.Core) *fault.Fault { return c.Cause(time.Now()) }))
}

func asError(x *fault.Fault) *fault.Error {
	if x == nil {
		return nil
	}
	return &fault.Error{Fault: *x}
}

// settled waits for the closest witness and returns the cause, or nil if nothing broke.
func (f *faults) settled() *fault.Error {
	for began := time.Now(); !ask(f, func(c *fault.Core) bool { return c.Sure(time.Since(began)) }); {
		time.Sleep(10 * time.Millisecond)
	}
	return f.cause()
}

// during makes a context that also ends, with errEnough, so long after something broke or failed is closed.
func (f *faults) during(ctx context.Context, failed <-chan struct{}, after time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-f.struckNow():
		case <-failed:
		case <-over:
			return
		}
		select {
		case <-time.After(after):
			cancel(errEnough)
		case <-over:
		}
	})
	return ctx, func() { close(over); watch.Wait(); cancel(nil) }
}

// FaultOf makes a fault of an error: what struck meanwhile and brought it about, what nodes said with commands that
// failed, or the error itself.
func (c *Crew) FaultOf(err error, while string) *fault.Error {
	said := commandSights(nil, err, while)
	select {
	case <-c.faults.struckNow():
		// Before the run began nobody watches the nodes: what they said with their commands is all they said.
		for _, x := range said {
			if x.Kind == fault.Own || x.Kind == fault.Blamed {
				c.faults.see(x)
			}
		}
		return c.faults.settled()
	default:
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	best := ask(c.faults, func(core *fault.Core) *fault.Fault { return core.Judge(said, time.Now()) })
	if best != nil {
		return asError(best)
	}
	return &fault.Error{Fault: fault.Fault{Component: Name, What: err.Error(), Evidence: while}}
}

// commandSights appends what the *CommandErrors joined in err tell.
func commandSights(all []fault.Sight, err error, while string) []fault.Sight {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			all = commandSights(all, one, while)
		}
		return all
	}
	var command *commandError
	if !errors.As(err, &command) {
		return all
	}
	for _, detail := range status.Convert(command.Err).Details() {
		if c, ok := detail.(*nodev1.Cause); ok {
			return append(all, told(command.Node, c))
		}
	}
	return append(all, fault.Sight{Kind: fault.Missing, Fault: fault.Fault{
		Component: command.Node,
		Part:      fault.PartService,
		What:      command.Error(),
		Evidence:  while,
	}})
}
