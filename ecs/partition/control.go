package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// control is what all parts of a partition have: what it was made with, how it stands, and who is told of that.
type control struct {
	// immutable after New
	cfg            Config
	log            *slog.Logger
	runner         *fsm.Runner
	stopGoroutines context.CancelFunc // of the goroutines
	ctx            context.Context
	wg             sync.WaitGroup

	pendingWrites pendingWrites               // what the store has not taken; it has a lock of its own
	rootCause     atomic.Pointer[fault.Fault] // that the machine was told of last; nil: none was

	mu sync.Mutex // guards what follows
	partitionState
}

// partitionState is how a partition stands. What its fields point to is not changed, but for nodeSet and run, which
// have locks of their own, and runRecord.
type partitionState struct {
	outputCheck      outputCheck    // of the start under way
	pendingCommand   pendingCommand // what the commands under way were given
	loadedConfig     *loadedConfig  // nil in Offline
	nodeSet          *nodes.NodeSet
	run              *nodes.Run      // nil outside of one
	runRecord        *ecsv1.Run      // of run; changed under mu
	lastReport       *nodes.Report   // of the run that was closed last; nil: none was
	endedRun         *nodes.Run      // that it is of
	nextRunClosed    chan struct{}   // closed with the next run that is
	lastFailure      error           // what the step that failed last did not tolerate
	lastStartFailure *ecsv1.Cause    // why the run that was asked for last has not come about; nil: it has, or none was
	preRunContext    context.Context // of the step under way to a run that has no number yet; nil: there is none
	excluded         map[string]bool // outside of a run
	snapshot         *ecsv1.Snapshot
	samples          []*ecsv1.Sample // of snapshots before it, oldest first
}

// currentState is how the partition stands at this moment. A run that nobody can end any more is none.
func (c *control) currentState() partitionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.partitionState
	if s.run != nil && !s.run.State().Phase.IsGoing() {
		s.run = nil
	}
	return s
}

// presentRun is the run that has no closed record yet; nil outside of one.
func (c *control) presentRun() *nodes.Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run
}

// updateState changes how it stands.
func (c *control) updateState(change func(*partitionState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.partitionState)
}

// loadedConfig is what the partition was loaded with.
type loadedConfig struct {
	original config.Completed // complete, as it was given
	cfg      config.Completed // the same, resolved by what is found: paths and slots
	prepared bool             // it is resolved already
	names    []string         // all members, in the order of ranks; nil while they are not resolved
	absent   []absentNode
}

// pendingCommand are the arguments of commands under way.
type pendingCommand struct {
	configuration    config.Completed
	prepared         bool   // nothing is to be found out about it
	user             string // who gave the last command
	remark, scanName string
	stopRequested    bool      // the run is to end since somebody wants it
	abandon          bool      // and what is under way is to be dropped
	joinDeadline     time.Time // until when members are waited for; zero: the step decides
}

// timeoutFor is how long may be waited for nodes that have d by themselves.
func (c *control) timeoutFor(d time.Duration) time.Duration { return max(d, c.cfg.MinTimeout) }

// timeouts of the steps: each is what its nodes may take, and what it takes to find out who did not.
func (c *control) timeouts() fsm.Timeouts {
	return fsm.Timeouts{
		fsm.Load:      c.cfg.ReadyTimeout + timeoutMargin,
		fsm.Configure: c.cfg.ReadyTimeout + timeoutMargin,
		fsm.Start:     c.cfg.ReadyTimeout + timeoutMargin,
		fsm.Pause:     10 * time.Second,
		fsm.Resume:    10 * time.Second,
		fsm.Stop:      stopStallTimeout,
		fsm.Reset:     20 * time.Second,
		fsm.Unload:    20 * time.Second,
		fsm.Recover:   30 * time.Second,
	}.WithMinimum(c.cfg.MinTimeout)
}

const (
	timeoutMargin = 5 * time.Second
	// stopStallTimeout is how long the end of a run may go without any progress. What ends it before says what it waits
	// for: the drain after half a minute, the nodes after one.
	stopStallTimeout = 120 * time.Second
)

// publish writes an event to the journal, and to the record of the run that goes on.
func (c *control) publish(e *ecsv1.Event) {
	e.At = timestamppb.Now()
	if rec := c.currentState().runRecord; rec != nil && e.Run == 0 {
		e.Run = rec.GetNumber()
	}
	c.cfg.Journal.Add(e)
	if e.GetRun() != 0 {
		c.pendingWrites.addEvent(e)
	}
}

// publishf tells of the partition, or of a component of it.
func (c *control) publishf(severity ecsv1.Severity, kind, component, format string, args ...any) {
	c.publish(&ecsv1.Event{
		Kind:      kind,
		Component: component,
		Severity:  severity,
		Text:      fmt.Sprintf(format, args...),
	})
}

// Severities, in short.
const (
	severityInfo    = ecsv1.Severity_SEVERITY_INFO
	severityWarning = ecsv1.Severity_SEVERITY_WARNING
	severityError   = ecsv1.Severity_SEVERITY_ERROR
)

// changeRecord changes the record of the present run, if there is one.
func (c *control) changeRecord(f func(*ecsv1.Run)) {
	c.mu.Lock()
	if c.runRecord == nil {
		c.mu.Unlock()
		return
	}
	f(c.runRecord)
	rec := proto.CloneOf(c.runRecord)
	c.mu.Unlock()
	c.pendingWrites.putRecord(rec)
}

// causeFromError makes the machine's cause of an error, and keeps the root cause behind it.
func (c *control) causeFromError(err error) fsm.Cause {
	var broken *fault.Error
	var few *tooFewUnitsError
	if errors.As(err, &few) {
		err = few.asFault()
	}
	c.updateState(func(s *partitionState) { s.lastFailure = err })
	var cause fsm.Cause
	if errors.As(err, &cause) {
		return cause
	}
	if errors.As(err, &broken) {
		c.rootCause.Store(&broken.Fault)
		return causeFromFault(broken.Fault)
	}
	var invalid *config.InvalidError
	if errors.As(err, &invalid) {
		return fsm.Cause{Kind: fsm.CauseFailed, Component: partitionComponent, What: invalid.Error()}
	}
	return fsm.Cause{Kind: fsm.CauseFailed, Component: nodes.ControlName, What: err.Error()}
}

// causeFromFault makes the machine's cause of a fault.
func causeFromFault(x fault.Fault) fsm.Cause {
	return fsm.Cause{
		Kind:      fsm.CauseFailed,
		Component: x.Component,
		Subsystem: x.Subsystem,
		What:      x.What,
		Evidence:  x.Evidence,
	}
}

// faultFromCause is the fault behind a cause of the machine, with its root cause where that is known.
func (c *control) faultFromCause(why fsm.Cause) fault.Fault {
	if s := c.rootCause.Load(); s != nil && s.Component == why.Component && s.What == why.What {
		return *s
	}
	return fault.Fault{
		Component: why.Component,
		Subsystem: why.Subsystem,
		What:      why.What,
		Evidence:  why.Evidence,
	}
}

// recordCause makes a record's cause of a fault.
func recordCause(x fault.Fault, code string, at *timestamppb.Timestamp) *ecsv1.Cause {
	return &ecsv1.Cause{
		Component: x.Component,
		Part:      x.Subsystem,
		What:      x.What,
		Evidence:  x.Evidence,
		Code:      code,
		At:        at,
		Advice:    x.Advice,
		Followed:  x.Followed,
	}
}

// timestampOrNil is a time in a message; nothing where nobody noted it.
func timestampOrNil(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// causeMessage is a cause for people and records.
func (c *control) causeMessage(why fsm.Cause) *ecsv1.Cause {
	if why.IsZero() {
		return nil
	}
	return recordCause(c.faultFromCause(why), why.Kind.String(), timestamppb.Now())
}

// lastRun is the number of the run that is built, or was last.
func (c *control) lastRun() uint32 {
	if rec := c.currentState().runRecord; rec != nil {
		return rec.GetNumber()
	}
	last, _ := c.cfg.Store.LastRunNumber() // a store that cannot be read is told by whoever writes to it
	return last
}

// clearDegraded clears the flag that less takes part than should, unless members are absent.
func (c *control) clearDegraded() error {
	if len(c.currentState().loadedConfig.absent) > 0 {
		return nil
	}
	return c.runner.Restore()
}

// joinTimeout is how long a command waits for members: those that this control starts come up within its ReadyTimeout.
func (c *control) joinTimeout() time.Duration {
	if c.cfg.Spawner != nil {
		return c.cfg.ReadyTimeout
	}
	return cmp.Or(c.cfg.JoinTimeout, defaultJoinTimeout)
}

// defaultJoinTimeout is how long a command waits for members that are not there: a node that was just started takes
// less than a second.
const defaultJoinTimeout = 5 * time.Second

// rejoinTimeout is how long nodes may take to answer a control that has come back: it does not start those that are
// gone.
func (c *control) rejoinTimeout() time.Duration {
	return c.timeoutFor(2 * cmp.Or(c.cfg.JoinTimeout, defaultJoinTimeout))
}
