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
	Default  config.Config // defaults of load, not completed
	Members  *cluster.Cluster
	Store    Store
	Journal  *journal.Journal
	Identity *certs.Identity
	Host     string // address of this process
	Version  string
	// Term of this control, from the store: see record.Store.NextTerm.
	Term tagnet.Term
	// AllowedInputs are the places from which runs may read inputs. Nil: anywhere.
	AllowedInputs *safeopen.AllowedPaths
	// LocalScheduler runs the scheduler in this process, at TCP port TagnetPort; 0 means any. Else a node runs it, and a
	// run survives the end of its control.
	LocalScheduler bool
	TagnetPort     int
	// Spawner starts the processes of nodes, and restarts those that have ended. Nil: nodes are started by others.
	Spawner Spawner
	// SpawnedSpares are nodes that the Spawner starts beside the members.
	SpawnedSpares []string
	// JoinTimeout is how long a command waits for members that have not joined. Zero means 5 s. With a Spawner it is
	// ReadyTimeout.
	JoinTimeout time.Duration
	// ReadyTimeout is how long nodes may take to join and to become Ready. Zero means 60 s.
	ReadyTimeout time.Duration
	// MinTimeout is a lower bound for the time-outs of all steps and of all questions to nodes, for busy machines. Zero:
	// each has its default.
	MinTimeout time.Duration
	Log        *slog.Logger // nil: slog.Default
}

// Partition is the run control of one partition: the methods for package ecs/api, and the state machine. Its parts do
// the work. All methods may be called from any goroutine.
type Partition struct {
	*control
	members   *members
	checks    *checks
	records   *records
	conductor *conductor
	snapshots *snapshots
	slow      *slowKeeper
	taps      taps // has a lock of its own

	stopTickers []func() // end the periodic work
}

// New makes the run control, in Offline.
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

// newPartition makes the parts, without goroutines.
func newPartition(cfg Config) *Partition {
	c := &control{cfg: cfg, log: cfg.Log, partitionState: partitionState{nextRunClosed: make(chan struct{})}}
	c.ctx, c.stopGoroutines = context.WithCancel(context.Background())
	c.pendingWrites.journal, c.pendingWrites.log, c.pendingWrites.store = cfg.Journal, cfg.Log, cfg.Store
	p := &Partition{control: c, members: &members{control: c, spawned: spawnedProcesses{
		running: map[string]bool{}, endReasons: map[string]string{}, nextProcessEnd: make(chan struct{})}}}
	p.checks = &checks{members: p.members, readingSlot: make(chan struct{}, 1)}
	p.records = &records{control: c, checks: p.checks}
	p.records.completion = &completion{control: c, records: p.records, unread: map[uint32]readAttempt{}}
	p.slow = &slowKeeper{control: c}
	p.conductor = &conductor{control: c, records: p.records, taps: &p.taps, slow: p.slow}
	p.members.onLost = p.conductor.noteLoss
	p.snapshots = &snapshots{control: c, slow: p.slow, figures: figures.New()}
	return p
}

// defaultReadyTimeout is many times what a node takes to map its slots and to make its links on a busy machine.
const defaultReadyTimeout = 60 * time.Second

// partitionComponent names the partition in events, causes and the status tree.
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

// releaseNodes closes the connections to the nodes and to the scheduler, and leaves them as they are.
func (s partitionState) releaseNodes() {
	if s.run != nil {
		s.run.Close()
	}
	if s.nodeSet != nil {
		s.nodeSet.CloseConnections()
	}
}

// followStates publishes each change of state until ctx ends.
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

// stateReason is a clause with the cause of Error, or of a step that was forced; else empty.
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
