package partition

import (
	"context"
	"log/slog"
	"time"

	"ringlet/ecs/figures"
	"ringlet/ecs/journal"
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

// Partition is the run control of one partition: what others may ask of it, and its state machine. The work is done by
// its parts. Its methods may be called from any goroutine.
type Partition struct {
	*control
	members   *members
	checks    *checks
	records   *records
	conductor *conductor
	snapshots *snapshots
	taps      taps // what viewers are shown; it has locks of its own

	stopTickers []func() // of what is done again and again
}

// New makes the run control, Offline.
func New(cfg Config) *Partition {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.ReadyTimeout == 0 {
		cfg.ReadyTimeout = defaultReadyTimeout
	}
	p := newPartition(cfg)
	p.runner = fsm.New(partitionComponent, fsm.Actions{
		fsm.Load: p.workFor(fsm.Load), fsm.Configure: p.workFor(fsm.Configure), fsm.Start: p.workFor(fsm.Start),
		fsm.Pause: p.workFor(fsm.Pause), fsm.Resume: p.workFor(fsm.Resume), fsm.Stop: p.workFor(fsm.Stop),
		fsm.Reset: p.workFor(fsm.Reset), fsm.Unload: p.workFor(fsm.Unload), fsm.Recover: p.workFor(fsm.Recover),
	}, fsm.Options{Abandon: p.conductor.abandon, Timeouts: p.timeouts()})
	p.wg.Go(p.followStates)
	p.stopTickers = []func(){
		stopwatch.RunEvery(writeRetryInterval, p.pendingWrites.retry),
		stopwatch.RunEvery(snapshotInterval, func() { p.snapshots.update(p.Status().GetRoot()) }),
		stopwatch.RunEvery(completeInterval, p.records.completion.completeRecords),
	}
	return p
}

// newPartition makes the parts, which do nothing yet.
func newPartition(cfg Config) *Partition {
	c := &control{cfg: cfg, log: cfg.Log, partitionState: partitionState{nextRunClosed: make(chan struct{})}}
	c.ctx, c.stopGoroutines = context.WithCancel(context.Background())
	c.pendingWrites.journal, c.pendingWrites.log, c.pendingWrites.store = cfg.Journal, cfg.Log, cfg.Store
	p := &Partition{control: c, members: &members{control: c, spawned: spawnedProcesses{
		running: map[string]bool{}, endReasons: map[string]string{}, nextProcessEnd: make(chan struct{})}}}
	p.checks = &checks{members: p.members, readingSlot: make(chan struct{}, 1)}
	p.records = &records{control: c, checks: p.checks}
	p.records.completion = &completion{control: c, records: p.records, unread: map[uint32]readAttempt{}}
	p.conductor = &conductor{control: c, records: p.records}
	p.members.onLost = p.conductor.noteLoss
	p.snapshots = &snapshots{control: c, figures: figures.New()}
	return p
}

// defaultReadyTimeout is what a node that has to map and link its slots may take on a busy machine, many times over.
const defaultReadyTimeout = 60 * time.Second

// partitionComponent of the partition among components.
const partitionComponent = "partition"

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
	if s.nodeSet != nil {
		s.nodeSet.CloseConnections()
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
