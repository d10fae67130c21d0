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
	"ringlet/node"
	"ringlet/node/config"
	"ringlet/node/fsm"
	"ringlet/node/spawn"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// faults is the shell of fault.Core: it takes observations from any goroutine, and closes a channel when the run must
// end.
type faults struct {
	mu        sync.Mutex // guards what follows
	core      *fault.Core
	faulted   chan struct{}       // closed with the first fault that is not tolerated
	isFaulted bool                // faulted is closed
	onLoss    func([]fault.Fault) // takes the units of lost nodes out of the run; nil outside of a run

	runNumber      atomic.Uint32 // the last run that was made
	lossesUnderWay atomic.Int32  // lost nodes whose units onLoss has not taken out yet
}

func newFaults(spawnsNodes bool, timeouts config.Timeouts) *faults {
	return &faults{core: fault.New(spawnsNodes, timeouts), faulted: make(chan struct{})}
}

// queryCore calls a function of the core that returns a value, under the lock.
func queryCore[T any](f *faults, question func(*fault.Core) T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return question(f.core)
}

// updateCore calls a function of the core without result, under the lock.
func (f *faults) updateCore(what func(*fault.Core)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what(f.core)
}

// observe gives observations to the core, and does what the core returns: it acts on them together.
func (f *faults) observe(all ...fault.Observation) { f.lose(f.note(all...)) }

// note gives observations to the core, and returns the nodes that are lost with them, for lose. All nodes of a stopped
// process are observed with one of them.
func (f *faults) note(all ...fault.Observation) (lost []fault.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range all {
		if x.Kind > fault.SelfReported && f.onLoss != nil && isStopped(f.core.LocalProcess(x.Component)) {
			for _, name := range fault.NodesOfLocalProcess(f.core, x.Component) {
				lost = append(lost, f.noteLocked(fault.Observation{Kind: fault.ProcessStopped, Fault: fault.SeenByControl(name,
					fault.SubsystemProcess, "its process stands still: it was stopped, by SIGSTOP or a debugger")})...)
			}
		}
		lost = append(lost, f.noteLocked(x)...)
	}
	return lost
}

// lose takes the units of lost nodes out of the run, on a goroutine of its own.
func (f *faults) lose(lost []fault.Fault) {
	if len(lost) == 0 {
		return
	}
	f.mu.Lock()
	takeOut := f.onLoss
	f.mu.Unlock()
	go func() {
		defer f.lossesUnderWay.Add(-int32(len(lost)))
		if takeOut != nil {
			takeOut(lost)
		}
	}()
}

// noteLocked gives an observation to the core, and returns the node that is lost with it. The caller holds mu.
func (f *faults) noteLocked(x fault.Observation) (lost []fault.Fault) {
	if x.At.IsZero() {
		x.At = time.Now()
	}
	switch act, broken := f.core.Observe(x); act {
	case fault.EndRun:
		f.isFaulted = true
		close(f.faulted)
	case fault.LoseUnit:
		if f.onLoss != nil {
			f.lossesUnderWay.Add(1)
			lost = []fault.Fault{broken}
		}
	case fault.ObserveAgain:
		if x.Scheduler { // reports repeat themselves
			time.AfterFunc(fault.MinHold, func() { f.observe(x) })
		}
	case fault.NoAction:
	}
	return lost
}

// awakeTime is fault.Core.AwakeTime.
func (f *faults) awakeTime(now time.Time) time.Time {
	return queryCore(f, func(c *fault.Core) time.Time { return c.AwakeTime(now) })
}

// tolerateLosses has the loss policies apply from now on; takeOut is called, on its own goroutine, with tolerated
// losses that were observed together.
func (f *faults) tolerateLosses(takeOut func([]fault.Fault)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onLoss = takeOut
	f.core.BeginRun()
}

// clearIfIgnoring forgets the faults seen so far, if they are ignored: while a run ends, faults are ignored, and after
// its end new ones must count again. clear does the same in any case.
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

// noteReport gives the node's process and the time of its report to the core.
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

// isFinal says that a report is a node's final one of the last run. Before a node begins a run, its reports are still
// those of the run before.
func (f *faults) isFinal(rep *nodev1.Report) bool {
	return rep.GetFinal() && rep.GetRun() == f.runNumber.Load()
}

// observeReport makes observations out of a node's report. A node in Error, or parked, names the component at fault,
// which can be itself. A node also lists the peers to which it has lost its link, except in its final report. present
// says that the report is of the present view.
func (f *faults) observeReport(node string, rep *nodev1.Report, present bool) {
	if st := rep.GetStatus(); present && queryCore(f, (*fault.Core).AcceptsReports) &&
		(st.GetState() == fsm.Error.String() || st.GetParked()) {
		f.observe(peerObservation(node, st.GetCause()))
	}
	if rep.GetFinal() {
		return
	}
	var all []fault.Observation
	for _, bad := range rep.GetBadPeers() {
		x := peerObservation(node, bad)
		x.Kind = fault.SelfReported // the reporting node goes on: later faults of its own follow from this one
		all = append(all, x)
	}
	for _, lost := range rep.GetLostPeers() {
		all = append(all, fault.Observation{Kind: fault.Disconnected, ReportedBy: node, Fault: fault.Fault{
			Component: lost,
			Subsystem: fault.SubsystemTransport,
			What:      "the link of " + node + " to it is down",
			Evidence:  "seen by " + node,
		}})
	}
	f.observe(all...)
}

// peerObservation is the observation of a node's cause: of the node itself, or of the peer that it names.
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

// cause is the root cause as far as it is known now; nil if nothing broke.
func (f *faults) cause() *fault.Error {
	return asError(queryCore(f, func(c *fault.Core) *fault.Fault { return c.Cause(time.Now()) }))
}

func asError(x *fault.Fault) *fault.Error {
	if x == nil {
		return nil
	}
	return &fault.Error{Fault: *x}
}

// AwaitCause waits until the cause is conclusive, Timeouts.Witness at most, and returns it; nil if nothing broke.
func (f *faults) AwaitCause() *fault.Error {
	for began := time.Now(); !queryCore(f, func(c *fault.Core) bool { return c.IsConclusive(time.Since(began)) }); {
		time.Sleep(10 * time.Millisecond)
	}
	return f.cause()
}

// awaitLosses waits until the run goes on, or ends, without each node that was lost so far.
func (f *faults) awaitLosses() {
	for f.lossesUnderWay.Load() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
}

// untilFault returns a context that is also canceled, with errOtherFailed, a time after the first fault or after failed
// is closed. Call the function to release it.
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

// observeProcessEnd observes that the process of these nodes has ended, which the control started; how is a clause.
func (f *faults) observeProcessEnd(nodes []string, how string) {
	all := make([]fault.Observation, len(nodes))
	for i, node := range nodes {
		all[i] = fault.Observation{Kind: fault.ProcessEndSeen, Fault: fault.SeenByControl(node, fault.SubsystemProcess,
			"its process "+how)}
		if how == spawn.EndedByWatchdog {
			all[i].Trouble = fsm.TroubleUnresponsive
		}
	}
	f.observe(all...)
}

// Presence says whether a node is present, as far as the control knows.
func (f *faults) Presence(node string) fault.Presence {
	return queryCore(f, func(c *fault.Core) fault.Presence { return c.PresenceOf(node) })
}

// Losses are the faults of the lost nodes that the run goes on without, each as its cause is known now.
func (f *faults) Losses() []fault.Fault { return queryCore(f, (*fault.Core).Losses) }

// MayExclude says why a node's builder unit cannot be taken out; nil if it can.
func (f *faults) MayExclude(node string) error {
	return queryCore(f, func(c *fault.Core) error { return c.MayExclude(node) })
}

// MayLose says why the run cannot go on without a node; nil if it can.
func (f *faults) MayLose(node string) error {
	return queryCore(f, func(c *fault.Core) error { return c.MayLose(node) })
}

// InactiveBuilders lists the nodes whose builder unit takes no MEPs now.
func (f *faults) InactiveBuilders() []string { return queryCore(f, (*fault.Core).InactiveBuilders) }

// WasDegraded says whether a unit was lost or excluded at any time of the run.
func (f *faults) WasDegraded() bool { return queryCore(f, (*fault.Core).WasDegraded) }

// FaultOf finds the fault behind an error: a fault that struck meanwhile, else one that nodes returned with the
// commands that failed, else the error itself. while is a clause with the circumstances.
func (f *faults) FaultOf(err error, while string) *fault.Error {
	said := commandObservations(nil, err, while)
	select {
	case <-f.Faulted():
		// Before the run begins, the answers to commands may be the only reports of their faults.
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

// OutputProblem is why a node did not carry out a command, if that is its output; empty otherwise.
func OutputProblem(err error) string {
	for _, x := range commandObservations(nil, err, "") {
		if x.Subsystem == node.SubsystemOutput {
			return x.What
		}
	}
	return ""
}

// commandObservations appends an observation for each *commandError joined in err.
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
