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

// control is what all parts of a partition share: its Config, its state machine, its state, and the writes to journal
// and store.
type control struct {
	// immutable after New
	cfg            Config
	log            *slog.Logger
	runner         *fsm.Runner
	stopGoroutines context.CancelFunc // cancels ctx
	ctx            context.Context    // of all goroutines of the partition
	wg             sync.WaitGroup

	pendingWrites pendingWrites               // what the store has not taken; has a lock of its own
	rootCause     atomic.Pointer[fault.Fault] // the last one behind a cause of the state machine; nil: none

	mu sync.Mutex // guards what follows
	partitionState
}

// partitionState is the state of a partition. Values behind its pointers are immutable, except nodeSet and run, which
// have locks of their own, and runRecord.
type partitionState struct {
	outputCheck      outputCheck    // for the start under way
	pendingCommand   pendingCommand // arguments of the commands under way
	loadedConfig     *loadedConfig  // nil in Offline
	nodeSet          *nodes.NodeSet
	run              *nodes.Run        // nil: no run is open
	runRecord        *ecsv1.Run        // of run; changed under mu
	lastReport       *nodes.Report     // of the run that was closed last; nil: none was
	endedRun         *nodes.Run        // the run of lastReport
	nextRunClosed    chan struct{}     // closed when the next run is closed
	lastFailure      error             // of the step that failed last
	lastStartFailure *ecsv1.Cause      // why the run that a user asked for last did not begin; nil: no such failure
	preRunContext    context.Context   // of the step that leads to a run without a number yet; nil: there is no such step
	excluded         map[string]bool   // nodes that are excluded from the next run
	moves            map[string]string // by member: the node that is to have its units; itself: its own process
	snapshot         *ecsv1.Snapshot
	samples          []*ecsv1.Sample // of earlier snapshots, oldest first
}

// currentState is a copy of the partition's state. Its run is nil from the phase Stopping on, when no command can end
// the run any more.
func (c *control) currentState() partitionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.partitionState
	if s.run != nil && !s.run.State().Phase.IsGoing() {
		s.run = nil
	}
	return s
}

// presentRun is the run whose record is still open, in any phase; nil if there is none.
func (c *control) presentRun() *nodes.Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run
}

// updateState changes the state under its lock.
func (c *control) updateState(change func(*partitionState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.partitionState)
}

// loadedConfig is the configuration that the partition was loaded with.
type loadedConfig struct {
	original config.Completed // complete, as it was given
	cfg      config.Completed // original with absolute paths, and slots that fit the input
	prepared bool             // cfg has these already
	names    []string         // all members, in the order of ranks; nil while they are not chosen
	absent   []absentNode
}

// pendingCommand are the arguments of commands under way.
type pendingCommand struct {
	configuration    config.Completed
	prepared         bool   // the same as in loadedConfig
	user             string // who gave the last command
	remark, scanName string
	stopRequested    bool      // a user asked for stop
	abandon          bool      // a user asked for abandon: the MEPs under way are dropped
	joinDeadline     time.Time // how long the step waits for members; zero: joinTimeout from the step's beginning
}

// timeoutFor is the time-out of a question to a node whose default is d.
func (c *control) timeoutFor(d time.Duration) time.Duration { return max(d, c.cfg.MinTimeout) }

// timeouts of the steps: the time that nodes may take, and a margin to find out which node is late.
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
	// stopStallTimeout is how long the end of a run may go without progress. Two earlier time-outs can name what it
	// waits for: that of the drain after 30 s, and that of the nodes after 65 s (package nodes).
	stopStallTimeout = 120 * time.Second
)

// publish writes an event to the journal and to the record of the present run.
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

// publishf publishes an event of the partition or of one of its components.
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

// changeRecord changes the record of the present run, if there is one, and writes it.
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

// causeFromError turns an error into a cause of the state machine. It keeps the fault behind it for faultFromCause.
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

// causeFromFault turns a fault into a cause of the state machine, which has no advice and no followers.
func causeFromFault(x fault.Fault) fsm.Cause {
	return fsm.Cause{
		Kind:      fsm.CauseFailed,
		Component: x.Component,
		Subsystem: x.Subsystem,
		What:      x.What,
		Evidence:  x.Evidence,
	}
}

// faultFromCause is the fault behind a cause of the state machine: the whole one if causeFromError has kept it.
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

// recordCause turns a fault into the cause of a run's record.
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

// timestampOrNil is a time in a message; nil for the zero time.
func timestampOrNil(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// causeMessage turns a cause of the state machine into one for clients, with its advice; nil if there is none.
func (c *control) causeMessage(why fsm.Cause) *ecsv1.Cause {
	if why.IsZero() {
		return nil
	}
	return recordCause(c.faultFromCause(why), why.Kind.String(), timestamppb.Now())
}

// lastRun is the number of the present run, or of the last one.
func (c *control) lastRun() uint32 {
	if rec := c.currentState().runRecord; rec != nil {
		return rec.GetNumber()
	}
	last, _ := c.cfg.Store.LastRunNumber() // pendingWrites reports a store that fails
	return last
}

// clearDegraded clears the flag Degraded, unless members are absent.
func (c *control) clearDegraded() error {
	if len(c.currentState().loadedConfig.absent) > 0 {
		return nil
	}
	return c.runner.Restore()
}

// joinTimeout is how long a command waits for members to join; the control's own processes have its ReadyTimeout.
func (c *control) joinTimeout() time.Duration {
	if c.cfg.Spawner != nil {
		return c.cfg.ReadyTimeout
	}
	return cmp.Or(c.cfg.JoinTimeout, defaultJoinTimeout)
}

// defaultJoinTimeout is how long a command waits for members that have not joined: a node joins less than 1 s after its
// start.
const defaultJoinTimeout = 5 * time.Second

// rejoinTimeout bounds how long nodes may take to answer a restarted control.
func (c *control) rejoinTimeout() time.Duration {
	return c.timeoutFor(2 * cmp.Or(c.cfg.JoinTimeout, defaultJoinTimeout))
}
