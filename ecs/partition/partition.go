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
	// Inputs are where the inputs of runs may be read from. Nil: anywhere.
	Inputs *safeopen.AllowedPaths
	// Here has the scheduler live in this process, at a TCP port; 0 means any. Else it lives on a node, and a run goes
	// on without its control.
	Here       bool
	TagnetPort int
	// Spawner starts the processes of nodes, and starts those anew that have ended. Nil: nodes join by themselves.
	Spawner Spawner
	// JoinTime is how long a command waits for members that are not there. Zero means 5 s, and Patience with a Spawner.
	JoinTime time.Duration
	// Patience is how long nodes may take to appear and to become ready. Zero means 60 s.
	Patience time.Duration
	// AtLeast is how long each step, and each question to a node, may take at least, for machines that have much else to
	// do. Zero means no longer than it has by itself.
	AtLeast time.Duration
	Log     *slog.Logger // nil: slog.Default
}

// Partition is the run control of one partition. Its methods may be called from any goroutine.
type Partition struct {
	// immutable after New
	cfg    Config
	log    *slog.Logger
	runner *fsm.Runner
	stop   context.CancelFunc // of the goroutines
	ctx    context.Context
	wg     sync.WaitGroup
	ends   []func() // of what is done again and again

	// owned by the goroutine that makes snapshots
	figures *figures.Builder
	watcher *diagnosis.Watcher
	watched *nodes.Crew // that the watcher was made for

	taps      taps          // what viewers are shown; it has locks of its own
	unwritten unwritten     // what the store has not taken; it has a lock of its own
	reading   chan struct{} // of one place: taken by whoever reads an input to check it

	story atomic.Pointer[fault.Fault] // that the machine was told of last; nil: none was

	orders sync.Mutex // held by whoever tells a running crew something beside the steps

	mu sync.Mutex // guards what follows
	standing
	spawned  spawned
	recovery []time.Time              // automatic ones, of late
	verdicts map[ecsv1.Verdict]uint64 // of runs on record that are over
	unread   map[uint32]reading       // runs on record of whose output not all was read
}

// standing is how a partition stands. What its fields point to is not changed, but for crew and run, which have locks
// of their own, and rec.
type standing struct {
	output   asOutput // of the start under way
	asked    asked    // what the commands under way were given
	loaded   *loaded  // nil in Offline
	crew     *nodes.Crew
	run      *nodes.Run      // nil outside of one
	rec      *ecsv1.Run      // of run; changed under mu
	last     *nodes.Report   // of the run that was closed last; nil: none was
	ended    *nodes.Run      // that it is of
	closed   chan struct{}   // closed with the next run that is
	failed   error           // what the step that failed last did not bear
	noRun    *ecsv1.Cause    // why the run that was asked for last has not come about; nil: it has, or none was
	towards  context.Context // of the step under way to a run that has no number yet; nil: there is none
	excluded map[string]bool // outside of a run
	snapshot *ecsv1.Snapshot
	samples  []*ecsv1.Sample // of snapshots before it, oldest first
}

// now is how the partition stands at this moment.
func (p *Partition) now() standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.standing
}

// set changes how it stands.
func (p *Partition) set(change func(*standing)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.standing)
}

// loaded is what the partition was loaded with.
type loaded struct {
	asked    config.Config // complete, as it was given
	cfg      config.Config // the same, settled by what is found: paths and slots
	prepared bool          // it is settled already
	names    []string      // all members, in the order of ranks; nil while they are not settled
	absent   []absentNode
}

// asked are the arguments of commands under way.
type asked struct {
	configuration config.Config
	prepared      bool   // nothing is to be found out about it
	by            string // who gave the last command
	remark, scan  string
	end           string // why the run is to end
	abandon       bool
	awaits        time.Time // until when members are waited for; zero: the step decides
}

// New makes the run control, Offline.
func New(cfg Config) *Partition {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	p := &Partition{
		cfg:      cfg,
		log:      cfg.Log,
		figures:  figures.New(),
		unread:   map[uint32]reading{},
		reading:  make(chan struct{}, 1),
		standing: standing{closed: make(chan struct{})},
		spawned:  spawned{running: map[string]bool{}, ended: map[string]string{}, news: make(chan struct{})},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.runner = fsm.New(ownName, fsm.Actions{
		fsm.Load: p.step(fsm.Load), fsm.Configure: p.step(fsm.Configure), fsm.Start: p.step(fsm.Start),
		fsm.Pause: p.step(fsm.Pause), fsm.Resume: p.step(fsm.Resume), fsm.Stop: p.step(fsm.Stop),
		fsm.Reset: p.step(fsm.Reset), fsm.Unload: p.step(fsm.Unload), fsm.Recover: p.step(fsm.Recover),
	}, fsm.Options{Abandon: p.abandon, Timeouts: p.timeouts()})
	p.unwritten.journal, p.unwritten.log, p.unwritten.store = cfg.Journal, cfg.Log, cfg.Store
	p.wg.Go(p.attend)
	p.ends = []func(){
		stopwatch.Every(writeAgain, p.unwritten.again),
		stopwatch.Every(observeEvery, p.observe),
		stopwatch.Every(completeEvery, p.completeRecords),
	}
	return p
}

// defaultPatience is what a node that has to map and link its slots may take on a busy machine, many times over.
const defaultPatience = 60 * time.Second

// ownName of the partition among components.
const ownName = "partition"

// within is how long may be waited for nodes that have d by themselves.
func (p *Partition) within(d time.Duration) time.Duration { return max(d, p.cfg.AtLeast) }

// timeouts of the steps: each is what its nodes may take, and what it takes to find out who did not.
func (p *Partition) timeouts() fsm.Timeouts {
	return fsm.Timeouts{
		fsm.Load:      p.cfg.Patience + margin,
		fsm.Configure: p.cfg.Patience + margin,
		fsm.Start:     p.cfg.Patience + margin,
		fsm.Pause:     10 * time.Second,
		fsm.Resume:    10 * time.Second,
		fsm.Stop:      stopTime,
		fsm.Reset:     20 * time.Second,
		fsm.Unload:    20 * time.Second,
		fsm.Recover:   30 * time.Second,
	}.AtLeast(p.cfg.AtLeast)
}

const (
	margin = 5 * time.Second
	// stopTime is how long the end of a run may go without any progress. What ends it before says what it waits for:
	// the drain after half a minute, the nodes after one.
	stopTime = 120 * time.Second
)

// Close ends the run control and leaves the nodes as they are.
func (p *Partition) Close() error {
	p.stop()
	err := p.runner.Close()
	p.wg.Wait()
	for _, end := range p.ends {
		end()
	}
	p.unwritten.flush()
	p.now().release()
	return err
}

// release lets go of the nodes, and of the run if there is one, and leaves them as they are.
func (s standing) release() {
	if s.run != nil {
		s.run.Close()
	}
	if s.crew != nil {
		s.crew.Release()
	}
}

// attend follows the states, and tells the journal of each.
func (p *Partition) attend() {
	last := fsm.Status{}
	for st := range p.runner.Watch(p.ctx) {
		if st.State != last.State && st.Change != 0 {
			p.tell(&ecsv1.Event{
				Kind:      "state",
				Component: ownName,
				State:     st.State.String(),
				Text:      "the partition is " + st.State.String() + why(st),
				Severity:  severity(st),
			})
		}
		last = st
	}
}

// why says what led to Error, or to force.
func why(st fsm.Status) string {
	switch {
	case st.State == fsm.Error:
		return ": " + st.Cause.Error()
	case !st.Forced.IsZero():
		return " by force: " + st.Forced.Error()
	}
	return ""
}

func severity(st fsm.Status) ecsv1.Severity {
	switch {
	case st.State == fsm.Error:
		return bad
	case !st.Forced.IsZero():
		return warning
	}
	return info
}

// tell writes an event to the journal, and to the record of the run that goes on.
func (p *Partition) tell(e *ecsv1.Event) {
	e.At = timestamppb.Now()
	if rec := p.now().rec; rec != nil && e.Run == 0 {
		e.Run = rec.GetNumber()
	}
	p.cfg.Journal.Add(e)
	if e.GetRun() != 0 {
		p.unwritten.event(e)
	}
}

// say tells of the partition, or of a component of it.
func (p *Partition) say(severity ecsv1.Severity, kind, component, format string, args ...any) {
	p.tell(&ecsv1.Event{
		Kind:      kind,
		Component: component,
		Severity:  severity,
		Text:      fmt.Sprintf(format, args...),
	})
}

// Severities, in short.
const (
	info    = ecsv1.Severity_SEVERITY_INFO
	warning = ecsv1.Severity_SEVERITY_WARNING
	bad     = ecsv1.Severity_SEVERITY_ERROR
)

// causeOf makes the machine's cause of an error, and keeps the story behind it.
func (p *Partition) causeOf(err error) fsm.Cause {
	var told *fault.Error
	var few *musterError
	if errors.As(err, &few) {
		err = few.fault()
	}
	p.set(func(s *standing) { s.failed = err })
	var known fsm.Cause
	if errors.As(err, &known) {
		return known
	}
	if errors.As(err, &told) {
		p.story.Store(&told.Fault)
		return inMachine(told.Fault)
	}
	var invalid *config.InvalidError
	if errors.As(err, &invalid) {
		return fsm.Cause{Kind: fsm.CauseFailed, Component: ownName, What: invalid.Error()}
	}
	return fsm.Cause{Kind: fsm.CauseFailed, Component: nodes.Name, What: err.Error()}
}

// inMachine makes the machine's cause of a fault.
func inMachine(x fault.Fault) fsm.Cause {
	return fsm.Cause{
		Kind:      fsm.CauseFailed,
		Component: x.Component,
		Part:      x.Part,
		What:      x.What,
		Evidence:  x.Evidence,
	}
}

// faultOf is the fault behind a cause of the machine, with its story where that is known.
func (p *Partition) faultOf(c fsm.Cause) fault.Fault {
	if s := p.story.Load(); s != nil && s.Component == c.Component && s.What == c.What {
		return *s
	}
	return fault.Fault{
		Component: c.Component,
		Part:      c.Part,
		What:      c.What,
		Evidence:  c.Evidence,
	}
}

// inRecord makes a record's cause of a fault.
func inRecord(x fault.Fault, code string, at *timestamppb.Timestamp) *ecsv1.Cause {
	return &ecsv1.Cause{
		Component: x.Component,
		Part:      x.Part,
		What:      x.What,
		Evidence:  x.Evidence,
		Code:      code,
		At:        at,
		Advice:    x.Advice,
		Followed:  x.Followed,
	}
}

// stamp is a time in a message; nothing where nobody noted it.
func stamp(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// message is a cause for people and records.
func (p *Partition) message(c fsm.Cause) *ecsv1.Cause {
	if c.IsZero() {
		return nil
	}
	return inRecord(p.faultOf(c), c.Kind.String(), timestamppb.Now())
}
