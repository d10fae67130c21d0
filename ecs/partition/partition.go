package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/diagnosis"
	"ringlet/ecs/figures"
	"ringlet/ecs/journal"
	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/internal/safeopen"
	"ringlet/internal/stopwatch"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/tagnet"
)

// Config of a partition.
type Config struct {
	Default  config.Config // what load takes where it is given nothing; not completed
	Members  *cluster.Cluster
	Store    Store
	Journal  *journal.Journal
	Identity *certs.Identity
	Host     string // address of this process
	Version  string
	// Term of this control, from the store: see record.Store.NextTerm.
	Term tagnet.Term
	// AllowedInputs are where the inputs of runs may be read from. Nil: anywhere.
	AllowedInputs *safeopen.AllowedPaths
	// LocalScheduler has the scheduler live in this process, at a TCP port; 0 means any. Else it lives on a node, and a
	// run goes on without its control.
	LocalScheduler bool
	TagnetPort     int
	// Spawner starts the processes of nodes, and starts those anew that have ended. Nil: nodes join by themselves.
	Spawner Spawner
	// JoinTimeout is how long a command waits for members that are not there. Zero means 5 s, and ReadyTimeout with a
	// Spawner.
	JoinTimeout time.Duration
	// ReadyTimeout is how long nodes may take to appear and to become ready. Zero means 60 s.
	ReadyTimeout time.Duration
	// MinTimeout is how long each step, and each question to a node, may take at least, for machines that have much else
	// to do. Zero means no longer than it has by itself.
	MinTimeout time.Duration
	Log        *slog.Logger // nil: slog.Default
}

// Partition is the run control of one partition. Its methods may be called from any goroutine.
type Partition struct {
	// immutable after New
	cfg            Config
	log            *slog.Logger
	runner         *fsm.Runner
	stopGoroutines context.CancelFunc // of the goroutines
	ctx            context.Context
	wg             sync.WaitGroup
	stopTickers    []func() // of what is done again and again

	// owned by the goroutine that makes snapshots
	figures     *figures.Builder
	watcher     *diagnosis.Watcher
	watchedCrew *nodes.Crew // that the watcher was made for

	taps          taps          // what viewers are shown; it has locks of its own
	pendingWrites pendingWrites // what the store has not taken; it has a lock of its own
	readingSlot   chan struct{} // of one place: taken by whoever reads an input to check it

	rootCause atomic.Pointer[fault.Fault] // that the machine was told of last; nil: none was

	commandMu sync.Mutex // held by whoever tells the nodes of a run something beside the steps

	mu sync.Mutex // guards what follows
	partitionState
	spawned       spawnedProcesses
	recoveryTimes []time.Time              // automatic ones, of late
	verdictCounts map[ecsv1.Verdict]uint64 // of runs on record that are over
	unreadRuns    map[uint32]readAttempt   // runs on record of whose output not all was read
}

// partitionState is how a partition stands. What its fields point to is not changed, but for crew and run, which have
// locks of their own, and rec.
type partitionState struct {
	outputCheck      outputCheck    // of the start under way
	pendingCommand   pendingCommand // what the commands under way were given
	loadedConfig     *loadedConfig  // nil in Offline
	crew             *nodes.Crew
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

// currentState is how the partition stands at this moment.
func (p *Partition) currentState() partitionState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.partitionState
}

// updateState changes how it stands.
func (p *Partition) updateState(change func(*partitionState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.partitionState)
}

// loadedConfig is what the partition was loaded with.
type loadedConfig struct {
	original config.Config // complete, as it was given
	cfg      config.Config // the same, resolved by what is found: paths and slots
	prepared bool          // it is resolved already
	names    []string      // all members, in the order of ranks; nil while they are not resolved
	absent   []absentNode
}

// pendingCommand are the arguments of commands under way.
type pendingCommand struct {
	configuration    config.Config
	prepared         bool   // nothing is to be found out about it
	user             string // who gave the last command
	remark, scanName string
	endCause         string // why the run is to end
	abandon          bool
	joinDeadline     time.Time // until when members are waited for; zero: the step decides
}

// New makes the run control, Offline.
func New(cfg Config) *Partition {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.ReadyTimeout == 0 {
		cfg.ReadyTimeout = defaultReadyTimeout
	}
	p := &Partition{
		cfg:            cfg,
		log:            cfg.Log,
		figures:        figures.New(),
		unreadRuns:     map[uint32]readAttempt{},
		readingSlot:    make(chan struct{}, 1),
		partitionState: partitionState{nextRunClosed: make(chan struct{})},
		spawned: spawnedProcesses{running: map[string]bool{}, endReasons: map[string]string{},
			nextProcessEnd: make(chan struct{})},
	}
	p.ctx, p.stopGoroutines = context.WithCancel(context.Background())
	p.runner = fsm.New(partitionComponent, fsm.Actions{
		fsm.Load: p.workFor(fsm.Load), fsm.Configure: p.workFor(fsm.Configure), fsm.Start: p.workFor(fsm.Start),
		fsm.Pause: p.workFor(fsm.Pause), fsm.Resume: p.workFor(fsm.Resume), fsm.Stop: p.workFor(fsm.Stop),
		fsm.Reset: p.workFor(fsm.Reset), fsm.Unload: p.workFor(fsm.Unload), fsm.Recover: p.workFor(fsm.Recover),
	}, fsm.Options{Abandon: p.abandonRun, Timeouts: p.timeouts()})
	p.pendingWrites.journal, p.pendingWrites.log, p.pendingWrites.store = cfg.Journal, cfg.Log, cfg.Store
	p.wg.Go(p.followStates)
	p.stopTickers = []func(){
		stopwatch.RunEvery(writeRetryInterval, p.pendingWrites.retry),
		stopwatch.RunEvery(snapshotInterval, p.updateSnapshot),
		stopwatch.RunEvery(completeInterval, p.completeRecords),
	}
	return p
}

// defaultReadyTimeout is what a node that has to map and link its slots may take on a busy machine, many times over.
const defaultReadyTimeout = 60 * time.Second

// partitionComponent of the partition among components.
const partitionComponent = "partition"

// timeoutFor is how long may be waited for nodes that have d by themselves.
func (p *Partition) timeoutFor(d time.Duration) time.Duration { return max(d, p.cfg.MinTimeout) }

// timeouts of the steps: each is what its nodes may take, and what it takes to find out who did not.
func (p *Partition) timeouts() fsm.Timeouts {
	return fsm.Timeouts{
		fsm.Load:      p.cfg.ReadyTimeout + timeoutMargin,
		fsm.Configure: p.cfg.ReadyTimeout + timeoutMargin,
		fsm.Start:     p.cfg.ReadyTimeout + timeoutMargin,
		fsm.Pause:     10 * time.Second,
		fsm.Resume:    10 * time.Second,
		fsm.Stop:      stopStallTimeout,
		fsm.Reset:     20 * time.Second,
		fsm.Unload:    20 * time.Second,
		fsm.Recover:   30 * time.Second,
	}.WithMinimum(p.cfg.MinTimeout)
}

const (
	timeoutMargin = 5 * time.Second
	// stopStallTimeout is how long the end of a run may go without any progress. What ends it before says what it waits
	// for: the drain after half a minute, the nodes after one.
	stopStallTimeout = 120 * time.Second
)

// Close ends the run control and leaves the nodes as they are.
func (p *Partition) Close() error {
	p.stopGoroutines()
	err := p.runner.Close()
	p.wg.Wait()
	for _, end := range p.stopTickers {
		end()
	}
	p.pendingWrites.flush()
	p.currentState().releaseNodes()
	return err
}

// releaseNodes lets go of the nodes, and of the run if there is one, and leaves them as they are.
func (s partitionState) releaseNodes() {
	if s.run != nil {
		s.run.Close()
	}
	if s.crew != nil {
		s.crew.CloseConnections()
	}
}

// followStates follows the states, and tells the journal of each.
func (p *Partition) followStates() {
	last := fsm.Status{}
	for st := range p.runner.Watch(p.ctx) {
		if st.State != last.State && st.Change != 0 {
			p.publish(&ecsv1.Event{
				Kind:      "state",
				Component: partitionComponent,
				State:     st.State.String(),
				Text:      "the partition is " + st.State.String() + stateReason(st),
				Severity:  stateSeverity(st),
			})
		}
		last = st
	}
}

// stateReason says what led to Error, or to force.
func stateReason(st fsm.Status) string {
	switch {
	case st.State == fsm.Error:
		return ": " + st.Cause.Error()
	case !st.Forced.IsZero():
		return " by force: " + st.Forced.Error()
	}
	return ""
}

func stateSeverity(st fsm.Status) ecsv1.Severity {
	switch {
	case st.State == fsm.Error:
		return severityError
	case !st.Forced.IsZero():
		return severityWarning
	}
	return severityInfo
}

// publish writes an event to the journal, and to the record of the run that goes on.
func (p *Partition) publish(e *ecsv1.Event) {
	e.At = timestamppb.Now()
	if rec := p.currentState().runRecord; rec != nil && e.Run == 0 {
		e.Run = rec.GetNumber()
	}
	p.cfg.Journal.Add(e)
	if e.GetRun() != 0 {
		p.pendingWrites.addEvent(e)
	}
}

// publishf tells of the partition, or of a component of it.
func (p *Partition) publishf(severity ecsv1.Severity, kind, component, format string, args ...any) {
	p.publish(&ecsv1.Event{
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

// causeFromError makes the machine's cause of an error, and keeps the root cause behind it.
func (p *Partition) causeFromError(err error) fsm.Cause {
	var broken *fault.Error
	var few *tooFewUnitsError
	if errors.As(err, &few) {
		err = few.asFault()
	}
	p.updateState(func(s *partitionState) { s.lastFailure = err })
	var cause fsm.Cause
	if errors.As(err, &cause) {
		return cause
	}
	if errors.As(err, &broken) {
		p.rootCause.Store(&broken.Fault)
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
func (p *Partition) faultFromCause(c fsm.Cause) fault.Fault {
	if s := p.rootCause.Load(); s != nil && s.Component == c.Component && s.What == c.What {
		return *s
	}
	return fault.Fault{
		Component: c.Component,
		Subsystem: c.Subsystem,
		What:      c.What,
		Evidence:  c.Evidence,
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
func (p *Partition) causeMessage(c fsm.Cause) *ecsv1.Cause {
	if c.IsZero() {
		return nil
	}
	return recordCause(p.faultFromCause(c), c.Kind.String(), timestamppb.Now())
}
