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
	"ringlet/node/spawn"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// faults is the shell of the core that judges what breaks: it takes observations from any goroutine, and wakes who
// waits.
type faults struct {
	mu        sync.Mutex // guards what follows
	core      *fault.Core
	faulted   chan struct{}     // closed with the first fault that is not tolerated
	isFaulted bool              // faulted is
	onLoss    func(fault.Fault) // takes a unit out that the policy does without; nil outside of a run

	runNumber atomic.Uint32 // the run that the nodes were given last
}

func newFaults(spawnsNodes bool) *faults {
	return &faults{core: fault.New(spawnsNodes), faulted: make(chan struct{})}
}

// queryCore asks the core, one at a time.
func queryCore[T any](f *faults, question func(*fault.Core) T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return question(f.core)
}

// updateCore tells the core something that has no answer.
func (f *faults) updateCore(what func(*fault.Core)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what(f.core)
}

// observe takes what somebody has seen of a component.
func (f *faults) observe(x fault.Observation) {
	if x.At.IsZero() {
		x.At = time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch act, broken := f.core.Observe(x); act {
	case fault.EndRun:
		f.isFaulted = true
		close(f.faulted)
	case fault.LoseUnit:
		if f.onLoss != nil {
			go f.onLoss(broken)
		}
	case fault.NoAction:
	}
}

// awakeTime is the time less that in which this process stood still.
func (f *faults) awakeTime(now time.Time) time.Time {
	return queryCore(f, func(c *fault.Core) time.Time { return c.AwakeTime(now) })
}

// tolerateLosses has losses tolerated from now on.
func (f *faults) tolerateLosses(lose func(fault.Fault)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onLoss = lose
	f.core.BeginRun()
}

// clear forgets what broke and listens again; clearIfIgnoring does so only where the end of a run has silenced it.
func (f *faults) clearIfIgnoring() {
	if queryCore(f, (*fault.Core).IgnoresFaults) {
		f.clear()
	}
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.core.Clear()
	if f.isFaulted && f.core.Cause(time.Now()) == nil {
		f.faulted, f.isFaulted = make(chan struct{}), false
	}
}

// Faulted is closed with the first fault since the last clear that the policy does not tolerate.
func (f *faults) Faulted() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faulted
}

// noteReport takes that a node has told something.
func (f *faults) noteReport(node string, rep *nodev1.Report) {
	f.updateCore(func(c *fault.Core) {
		process := ""
		if pid := rep.GetMachine().GetProcess(); pid != 0 {
			process = strconv.FormatUint(uint64(pid), 10)
		}
		c.SetLocation(node, rep.GetMachine().GetHost(), process)
		c.NoteReport(node, time.Now(), f.isFinal(rep))
	})
}

// isFinal says that the run which the nodes were given last is over for the one that tells this. Until a node begins a
// run it tells of the one before: a final report of that says nothing.
func (f *faults) isFinal(rep *nodev1.Report) bool {
	return rep.GetFinal() && rep.GetRun() == f.runNumber.Load()
}

// observeReport takes what a node says of itself, and of those to which it has lost its link. A node in Error, or
// parked, names whoever is at fault. One that tells of a run that is over says nothing of its links.
func (f *faults) observeReport(node string, rep *nodev1.Report, present bool) {
	if st := rep.GetStatus(); present && queryCore(f, (*fault.Core).AcceptsReports) &&
		(st.GetState() == fsm.Error.String() || st.GetParked()) {
		f.observe(peerObservation(node, st.GetCause()))
	}
	if rep.GetFinal() {
		return
	}
	for _, bad := range rep.GetBadPeers() {
		x := peerObservation(node, bad)
		x.Kind = fault.SelfReported // whoever says so goes on, and what that says of itself follows from it
		f.observe(x)
	}
	for _, lost := range rep.GetLostPeers() {
		f.observe(fault.Observation{Kind: fault.Disconnected, ReportedBy: node, Fault: fault.Fault{
			Component: lost,
			Subsystem: fault.SubsystemTransport,
			What:      "the link of " + node + " to it is down",
			Evidence:  "seen by " + node,
		}})
	}
}

// peerObservation is the word of a node on whoever is at fault.
func peerObservation(node string, c *nodev1.Cause) fault.Observation {
	x := fault.Observation{
		Fault:      fault.FromCause(c),
		Kind:       fault.ReportedByPeer,
		ReportedBy: node,
		LinkClosed: c.GetCode() == fsm.CauseClosed.String(),
	}
	if x.Component == node {
		x.Kind = fault.SelfReported
	}
	return x
}

// cause is what broke as far as is known now, or nil.
func (f *faults) cause() *fault.Error {
	return asError(queryCore(f, func(c *fault.Core) *fault.Fault { return c.Cause(time.Now()) }))
}

func asError(x *fault.Fault) *fault.Error {
	if x == nil {
		return nil
	}
	return &fault.Error{Fault: *x}
}

// AwaitCause waits a moment for the closest witness and returns the cause, or nil if nothing broke.
func (f *faults) AwaitCause() *fault.Error {
	for began := time.Now(); !queryCore(f, func(c *fault.Core) bool { return c.IsConclusive(time.Since(began)) }); {
		time.Sleep(10 * time.Millisecond)
	}
	return f.cause()
}

// untilFault makes a context that also ends, with errOtherFailed, so long after something broke or failed is closed.
func (f *faults) untilFault(ctx context.Context, failed <-chan struct{},
	after time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-f.Faulted():
		case <-failed:
		case <-over:
			return
		}
		select {
		case <-time.After(after):
			cancel(errOtherFailed)
		case <-over:
		}
	})
	return ctx, func() { close(over); watch.Wait(); cancel(nil) }
}

// ObserveProcessEnd takes that the process of a node has ended, from whoever started it.
func (f *faults) ObserveProcessEnd(node, how string) {
	x := fault.Observation{Kind: fault.ProcessEndSeen, Fault: fault.SeenByControl(node, fault.SubsystemProcess,
		"its process "+how)}
	if how == spawn.EndedByWatchdog {
		x.Trouble = fsm.TroubleUnresponsive
	}
	f.observe(x)
}

// Presence says whether a node is there, as far as is known.
func (f *faults) Presence(node string) fault.Presence {
	return queryCore(f, func(c *fault.Core) fault.Presence { return c.PresenceOf(node) })
}

// Losses are the nodes that the run goes on without since they are lost, each as its cause is known now.
func (f *faults) Losses() []fault.Fault { return queryCore(f, (*fault.Core).Losses) }

// MayExclude says why a node's builder unit cannot be taken out; nil if it can.
func (f *faults) MayExclude(node string) error {
	return queryCore(f, func(c *fault.Core) error { return c.MayExclude(node) })
}

// InactiveBuilders lists the nodes whose builder unit takes no MEPs now.
func (f *faults) InactiveBuilders() []string { return queryCore(f, (*fault.Core).InactiveBuilders) }

// WasDegraded says whether a unit was lost or excluded at any time of the run.
func (f *faults) WasDegraded() bool { return queryCore(f, (*fault.Core).WasDegraded) }

// FaultOf makes a fault of an error: what struck meanwhile and brought it about, what nodes said with commands that
// failed, or the error itself.
func (f *faults) FaultOf(err error, while string) *fault.Error {
	said := commandObservations(nil, err, while)
	select {
	case <-f.Faulted():
		// Before the run began nobody watches the nodes: what they said with their commands is all they said.
		for _, x := range said {
			if x.Kind == fault.SelfReported || x.Kind == fault.ReportedByPeer {
				f.observe(x)
			}
		}
		return f.AwaitCause()
	default:
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	best := queryCore(f, func(core *fault.Core) *fault.Fault { return core.CauseAmong(said, time.Now()) })
	if best != nil {
		return asError(best)
	}
	return &fault.Error{Fault: fault.Fault{Component: ControlName, What: err.Error(), Evidence: while}}
}

// commandObservations appends what the *CommandErrors joined in err tell.
func commandObservations(observations []fault.Observation, err error, while string) []fault.Observation {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			observations = commandObservations(observations, one, while)
		}
		return observations
	}
	var command *commandError
	if !errors.As(err, &command) {
		return observations
	}
	for _, detail := range status.Convert(command.Err).Details() {
		if c, ok := detail.(*nodev1.Cause); ok {
			return append(observations, peerObservation(command.Node, c))
		}
	}
	return append(observations, fault.Observation{Kind: fault.SilentToControl, Fault: fault.Fault{
		Component: command.Node,
		Subsystem: fault.SubsystemNodeService,
		What:      command.Error(),
		Evidence:  while,
	}})
}
