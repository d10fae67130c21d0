package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"google.golang.org/grpc"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/address"
	"ringlet/internal/connlimit"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
)

// scheduler is the control's side of a run's scheduler, which runs in the process of a node or in this one.
type scheduler struct {
	// immutable
	set      *NodeSet
	log      *slog.Logger
	cfg      *config.Completed // of the run
	isEnding func() bool       // the run ends

	// set when it is made
	localHost  *member             // connection to the scheduler's service in this process; nil: it is on a node
	stopHost   func()              // ends the service in this process; nil: it is on a node
	listener   *connlimit.Listener // of the service in this process; nil: it is on a node
	endOnHost  func()              // ends the scheduler; nil before it is made
	isDraining bool                // the scheduler was told to issue no further MEP
	lost       bool                // the scheduler was lost before its accounts were closed: lastStats is stale

	mu            sync.Mutex       // guards what follows
	sched         tagnet.Scheduler // nil until it is made
	tagnetName    string           // of the node with the scheduler; empty: this process has it
	tagnetAddress string           // of the scheduler's service
	lastStats     tagcore.Stats    // last figures of the scheduler
}

// startScheduler makes the TagNet scheduler of the view, on its node or in this process.
func (r *scheduler) startScheduler(ctx context.Context) error {
	core, err := r.schedulerConfig()
	if err != nil {
		return err
	}
	name := ""
	n := r.localHost
	if r.set.opts.TagnetNode != "" {
		if n, err = r.tagnetNode(); err == nil {
			name = n.process() // units expect the certificate of this node; of the control if name is empty
		}
	} else if n == nil {
		n, err = r.hostScheduler()
	}
	if err == nil {
		err = r.createScheduler(ctx, n, core)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tagnetName, r.tagnetAddress = name, n.firstEntry.GetGrpcAddress()
	return nil
}

// hostScheduler serves the scheduler's host in this process, and connects to it as to a node's.
func (r *scheduler) hostScheduler() (*member, error) {
	lis, err := address.ListenService(net.JoinHostPort(r.set.opts.Host, strconv.Itoa(r.set.opts.TagnetPort)))
	if err != nil {
		return nil, fmt.Errorf("cannot bind the scheduler at %s: %w", r.set.opts.Host, err)
	}
	localHost, err := r.set.newMember(&nodev1.Member{Name: ControlName, GrpcAddress: lis.Addr().String()})
	if err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	host := tagnet.NewHost(tagnet.Access{Identify: node.Identify, Log: r.log})
	options := node.ServiceOptions(r.set.opts.Identity, r.set.opts.Log, r.set.opts.MinTimeout)
	server := grpc.NewServer(append(tagnet.ServerOptions(), options...)...)
	host.Register(server)
	r.localHost, r.listener = localHost, connlimit.Listen(lis, "scheduler", r.set.opts.Log)
	go func() { _ = server.Serve(r.listener) }()
	r.stopHost = func() {
		host.Close()
		server.Stop()
		_ = localHost.conn.Close()
	}
	return localHost, nil
}

// observePeerError observes a unit that the scheduler reports as lost.
func (r *scheduler) observePeerError(e *tagcore.UnitError) {
	r.set.faults.observe(fault.Observation{Kind: fault.Disconnected, Scheduler: true, Fault: fault.Fault{
		Component: e.Unit,
		Subsystem: strings.ReplaceAll(e.Role.String(), " ", "_"),
		What:      e.Error(),
		Evidence:  "seen by the scheduler",
	}})
}

func (r *scheduler) schedulerConfig() (c tagcore.Config, err error) {
	if c.NoSlotPolicy, err = tagcore.ParsePolicy(r.cfg.EmptyPlace); err != nil {
		return c, err
	}
	if c.Rules, err = r.cfg.Rules(); err != nil {
		return c, err
	}
	c.Slots, c.Packing, c.LookAhead = r.cfg.Slots, r.cfg.Packing, r.cfg.Debug.LookAhead
	if c.Live = r.cfg.HasLiveSources(); c.Live {
		c.MaxEvents, c.CompleteEventsOnly = r.cfg.Events, r.cfg.EventsComplete()
	}
	if c.Trigger = r.cfg.Trigger; c.Trigger != "" {
		c.MaxEvents = r.cfg.Events
	}
	by := r.cfg.DisciplineKind()
	c.Loose, c.TagRing, c.BypassBusyRUs, c.Push = !by.Phases, by.Tags, by.Bypass, by.Push
	for _, n := range r.set.nodes {
		if n.firstEntry.GetReadout() {
			c.RUs = append(c.RUs, n.name)
		}
		if n.firstEntry.GetBuilder() {
			c.BUs = append(c.BUs, n.name)
		}
	}
	return c, nil
}

// Shutdown ends the scheduler in whichever process it runs, when the run has its report.
func (r *scheduler) Shutdown() {
	if r.endOnHost != nil {
		r.endOnHost()
	}
	r.Close()
}

// Close ends a scheduler in this process, or the session with one on a node: another control may adopt a run that goes
// on there.
func (r *scheduler) Close() {
	if s := r.current(); s != nil {
		s.Close()
	}
	if r.stopHost != nil {
		r.stopHost()
	}
}

// Drained is closed when every issued MEP has its outcome and no other will be issued: the run can be finished.
func (r *scheduler) Drained() <-chan struct{} { return r.current().Drained() }

// IsDrained says that the run can be finished now.
func (r *scheduler) IsDrained() bool {
	s := r.current()
	if s == nil {
		return false
	}
	select {
	case <-s.Drained():
		return true
	default:
		return false
	}
}

// Drain has the scheduler issue no further MEP. It fails if the scheduler cannot be reached: call it again then. After
// a success it does nothing.
func (r *scheduler) Drain() error {
	if r.isDraining {
		return nil
	}
	err := r.current().Drain(0)
	r.isDraining = err == nil
	return err
}

// ClearRegisters begins the high-water marks of the scheduler's registers anew, for a user.
func (r *scheduler) ClearRegisters(user string) error { return r.current().ClearRegisters(user) }

// Trigger triggers events by hand and returns how many triggers the scheduler took.
func (r *scheduler) Trigger(count uint64) (taken int, err error) { return r.current().Trigger(count) }

// Stats are the scheduler's present figures, or its last ones if it does not answer.
func (r *scheduler) Stats() tagcore.Stats {
	_ = r.refreshStats()
	return r.LastStats()
}

// refreshStats asks the scheduler, if there is one, for its figures.
func (r *scheduler) refreshStats() error {
	s := r.current()
	if s == nil {
		return nil
	}
	st, err := s.Stats()
	if err == nil {
		r.takeStats(st)
	}
	return err
}

func (r *scheduler) takeStats(st tagcore.Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if accountsFinal(st) || !accountsFinal(r.lastStats) { // answers to two goroutines may come in the wrong order
		r.lastStats = st
	}
}

// LastStats are the scheduler's last figures. It does not ask the scheduler, and so never waits.
func (r *scheduler) LastStats() tagcore.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastStats.Latency == nil {
		r.lastStats.Latency = hdr.New(1, 2, 1)
	}
	return r.lastStats
}

func (r *scheduler) current() tagnet.Scheduler {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sched
}

// attachGrace is how much longer than ReadyTimeout the scheduler waits for units to attach: if a node does not start,
// the control has found the cause by then.
const attachGrace = 5 * time.Second

// createScheduler makes the scheduler on its host and attaches to it.
func (r *scheduler) createScheduler(ctx context.Context, n *member, core tagcore.Config) error {
	wait := tagnet.UnitTimeouts{Attach: r.set.opts.ReadyTimeout + attachGrace, Resume: r.cfg.Timeouts().Resume}
	if err := tagnet.BeginScheduler(ctx, n.conn, r.schedulerScope(), core, wait); err != nil {
		return &fault.Error{Fault: fault.SeenByControl(n.name, fault.SubsystemScheduler,
			"the scheduler could not be made on it: "+err.Error())}
	}
	r.attachScheduler(n)
	for _, n := range r.set.nodes {
		if by := n.entry().GetSubstitute(); by != "" {
			if err := r.current().SetSubstitute(n.name, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// attachScheduler opens the control's session with a scheduler on its host.
func (r *scheduler) attachScheduler(n *member) {
	scope := r.schedulerScope()
	sched := tagnet.NewRemote(n.conn, tagnet.RemoteConfig{
		Scope: scope, OnIncident: r.observePeerError, MinCallTimeout: r.set.opts.MinTimeout,
		OnGone: func(err error) {
			if r.isEnding() && accountsFinal(r.LastStats()) {
				return // the control has its final figures
			}
			r.set.faults.observe(fault.Observation{Kind: fault.Disconnected,
				Fault: fault.SeenByControl(n.name, fault.SubsystemScheduler,
					"the scheduler that lived on it is gone: "+err.Error())})
		},
	})
	r.mu.Lock()
	r.sched = sched
	r.mu.Unlock()
	r.endOnHost = func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.set.opts.timeoutFor(endSchedulerTimeout))
		defer cancel()
		if err := tagnet.EndScheduler(ctx, n.conn, scope); err != nil {
			r.log.Info("the scheduler on a node could not be ended", "node", n.name, "err", err)
		}
	}
}

// endSchedulerTimeout bounds how long the end of a scheduler on a node may take. A node that is gone took its scheduler
// with it.
const endSchedulerTimeout = 2 * time.Second

func (r *scheduler) schedulerScope() tagnet.Scope {
	return tagnet.Scope{
		Run:  r.cfg.RunNumber,
		View: r.set.View().GetNumber(),
		Name: ControlName,
		Term: r.set.opts.Term,
	}
}

// schedulerAnswers says whether the scheduler answers. While its node responds, it repeats the question for
// retryTimeout: a connection may have broken, and only the node itself can say that the scheduler is gone.
func (r *scheduler) schedulerAnswers() bool {
	n, err := r.tagnetNode()
	if err != nil {
		return false
	}
	return r.askRepeatedly(n, r.current()) == nil
}

func (r *scheduler) askRepeatedly(n *member, sched tagnet.Scheduler) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(retryTimeout, n.confirm))
	defer cancel()
	return poll(ctx, retryInterval, func() (bool, error) {
		st, failed := sched.Stats()
		if failed == nil {
			r.takeStats(st)
		}
		var gone *tagnet.GoneError
		return !errors.As(failed, &gone) || n.unresponsive.Load(), failed
	})
}

// askScheduler asks the scheduler on a node for its figures before the control has a session with it.
func (r *scheduler) askScheduler(n *member) error {
	sched := tagnet.NewRemote(n.conn, tagnet.RemoteConfig{
		Scope:          r.schedulerScope(),
		MinCallTimeout: r.set.opts.MinTimeout,
	})
	defer sched.Close()
	return r.askRepeatedly(n, sched)
}

// SchedulerNode is the node, or the member for which it substitutes, whose process runs the scheduler now; empty: this
// process does.
func (r *scheduler) SchedulerNode() string {
	r.mu.Lock()
	process := cmp.Or(r.tagnetName, r.set.opts.TagnetNode)
	r.mu.Unlock()
	if n, err := r.set.findProcess(process); err == nil {
		return n.name
	}
	return process
}

// tagnetNode finds the node whose process runs the scheduler.
func (r *scheduler) tagnetNode() (*member, error) {
	on := r.SchedulerNode()
	n, err := r.set.findMember(on)
	if err != nil {
		return nil, &fault.Error{Fault: fault.Fault{
			Component: ControlName,
			Subsystem: fault.SubsystemScheduler,
			What:      fmt.Sprintf("the scheduler is to live on %s, which takes no part", on),
		}}
	}
	return n, nil
}
