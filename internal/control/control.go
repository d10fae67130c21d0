package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"ringlet/builderunit/sink"
	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	"ringlet/internal/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Name of the control in the cluster and in its certificate.
const Name = node.ControlName

// Config of a run.
type Config struct {
	Run        config.Config // complete
	Host       string        // address to bind and to tell the nodes
	Port       int           // of the gossip; 0 means any
	TagnetPort int           // of the scheduler; 0 means any
	Identity   *certs.Identity
	Key        []byte // of the gossip
	Version    string
	Spawner    Spawner // nil: nodes join by themselves
	// Patience is how long the nodes may take to appear and to become ready. Zero means 60 s.
	Patience time.Duration
	Timing   cluster.Timing // zero: cluster.LocalTiming
	// Began is called when the run begins. Nil means that nobody waits for it.
	Began func()
	// Progress is called about twice a second while the run goes on. Nil means that nobody looks.
	Progress func(Progress)
	Log      *slog.Logger
}

// A Spawner starts and ends node processes.
type Spawner interface {
	// Spawn starts the named nodes, which are to join the cluster at the given address. It tells of every one that ends.
	Spawn(names []string, join string, ended func(name, how string)) error
	// Stop ends all of them and waits.
	Stop()
}

// run is one run under way.
type run struct {
	// immutable after Run has made it
	cfg     Config
	log     *slog.Logger
	members *cluster.Cluster
	faults  *faults

	// owned by Run's goroutine
	nodes     []*member
	sched     *tagnet.Server // nil until it is made
	endCause  string
	badInput  string
	output    sink.Result
	startedAt time.Time // zero if it never began
	gaveUp    bool      // the nodes dropped what they did
}

// Causes of a run's end, as the report gives them.
const (
	EndDuration    = "duration"
	EndEvents      = "events"
	EndInput       = "end_of_input"
	EndInterrupted = "interrupted"
	EndBadInput    = "bad_input"
	EndFault       = "fault"
)

// Run takes the nodes through one run. What is wrong with the configuration, the input or this process's own address is an error
// without a report. A run that ended by a fault, even before it began, has both: the error is a *FaultError.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Patience == 0 {
		cfg.Patience = 60 * time.Second
	}
	if err := prepare(&cfg.Run); err != nil {
		return nil, err
	}
	if !sealed(&cfg.Run) {
		cfg.Log.Warn("this run is " + Open)
	}
	r := &run{cfg: cfg, log: cfg.Log, faults: newFaults()}
	members, err := cluster.Open(ctx, cluster.Config{
		Name: Name, BindAddr: cfg.Host, BindPort: cfg.Port, Key: cfg.Key, Timing: cfg.Timing, Logger: cfg.Log,
		Meta: cluster.Meta{Roles: cluster.Control, Version: cfg.Version},
	})
	if err != nil {
		return nil, err
	}
	r.members = members
	defer func() { _ = members.Close() }()
	if cfg.Spawner != nil {
		defer cfg.Spawner.Stop()
	}
	defer r.dismiss()
	if err := r.gather(ctx); err != nil {
		return r.neverBegan(ctx, err, "while the nodes gathered")
	}
	return r.conduct(ctx)
}

// conduct goes from configure to the closed accounts.
func (r *run) conduct(ctx context.Context) (*Report, error) {
	up, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	view := &nodev1.View{Number: uint64(time.Now().UnixNano())}
	for _, n := range r.nodes {
		view.Members = append(view.Members, n.view)
	}
	lis, err := net.Listen("tcp", net.JoinHostPort(r.cfg.Host, strconv.Itoa(r.cfg.TagnetPort)))
	if err != nil {
		return r.neverBegan(ctx, fmt.Errorf("cannot bind the scheduler at %s: %w", r.cfg.Host, err), "")
	}
	if err := r.schedule(view.GetNumber()); err != nil {
		return r.neverBegan(ctx, errors.Join(err, lis.Close()), "")
	}
	server := grpc.NewServer(append(tagnet.ServerOptions(), grpc.Creds(credentials.NewTLS(r.cfg.Identity.Server())))...)
	r.sched.Register(server)
	go func() { _ = server.Serve(lis) }()
	defer server.Stop()
	defer r.sched.Close()
	req := &nodev1.CommandRequest{
		Protocol: node.Protocol, Run: r.cfg.Run.RunNumber, Configuration: r.cfg.Run.Effective(), View: view,
		TagnetAddress: lis.Addr().String(),
	}
	for _, c := range []nodev1.Command{nodev1.Command_COMMAND_LOAD, nodev1.Command_COMMAND_CONFIGURE, nodev1.Command_COMMAND_START} {
		req.Command = c
		if err := r.together(up, req); err != nil {
			return r.neverBegan(ctx, err, "before the run began")
		}
	}
	r.startedAt = time.Now()
	if r.cfg.Began != nil {
		r.cfg.Began()
	}
	defer r.watch()()
	r.untilEnd(ctx)
	return r.finish()
}

// schedule makes the TagNet scheduler of the view.
func (r *run) schedule(view uint64) error {
	policy, err := tagnet.ParsePolicy(r.cfg.Run.EmptyPlace)
	if err != nil {
		return err
	}
	rules, err := rules(&r.cfg.Run)
	if err != nil {
		return err
	}
	c := tagnet.Config{
		Slots: r.cfg.Run.Slots, Packing: r.cfg.Run.Packing, LookAhead: r.cfg.Run.LookAhead, Policy: policy, Rules: rules,
		Loose: r.cfg.Run.Discipline != config.DisciplineShift,
		Ring:  r.cfg.Run.Discipline == config.DisciplineTagring, Bypass: r.cfg.Run.Bypass == config.BypassOn,
	}
	for _, n := range r.nodes {
		if n.view.GetReadout() {
			c.RUs = append(c.RUs, n.name)
		}
		if n.view.GetBuilder() {
			c.BUs = append(c.BUs, n.name)
		}
	}
	r.sched, err = tagnet.NewServer(tagnet.ServerConfig{
		Core: c, Run: r.cfg.Run.RunNumber, View: view, AttachTimeout: r.cfg.Patience + attachGrace,
		OnPeer: func(e *tagnet.PeerError) {
			r.faults.add(Fault{Component: e.Unit, What: e.Error(), Evidence: "seen by the scheduler", rank: rankStream})
		},
	})
	return err
}

// rules are the scheduler's, as configured.
func rules(c *config.Config) (out tagnet.Rules, err error) {
	if out.Next, err = tagnet.ParseNext(c.Next); err != nil {
		return out, err
	}
	if c.BusyGroup != "" {
		if out.BusyGroup, err = tagnet.ParsePolicy(c.BusyGroup); err != nil {
			return out, err
		}
	}
	out.Groups, out.Partitions, out.Ratio = c.Groups.Lists(), c.Partitions.Lists(), c.Weights()
	return out, nil
}

// drainPatience is how long a run that is to end may go without the outcome of any MEP: a MEP takes less than a second, an output
// that is written to a slow disk a few.
const drainPatience = 10 * time.Second

// untilEnd waits for whatever ends the run, and drains it.
func (r *run) untilEnd(ctx context.Context) {
	var limit <-chan time.Time
	if d := r.cfg.Run.Duration; d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		limit = timer.C
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	r.endCause = EndInput
	if r.cfg.Run.Events > 0 {
		r.endCause = EndEvents
	}
	done := ctx.Done()
	var draining *stall
	for {
		select {
		case <-r.sched.Drained():
			return
		case <-r.faults.struck:
			r.endCause = EndFault
			return
		case <-limit:
			limit, r.endCause = nil, EndDuration
			r.sched.Drain(0)
			draining = &stall{since: time.Now()}
		case <-done:
			done, r.endCause = nil, EndInterrupted
			r.sched.Drain(0)
			draining = &stall{since: time.Now()}
		case <-tick.C:
			r.progress()
			if draining != nil {
				draining.look(r, time.Now())
			}
		}
	}
}

// attachGrace is what the scheduler waits for units beyond the time that nodes have to come up: who is at fault for a node that does
// not start is known by then.
const attachGrace = 5 * time.Second

// stall watches a run that drains.
type stall struct {
	since    time.Time
	outcomes uint64
}

// look makes it a fault if nothing has moved for too long.
func (s *stall) look(r *run, now time.Time) {
	reg := r.sched.Registers()
	c := &reg.Counters
	if n := c.Built + c.Incomplete + c.Discarded + c.Rejected + c.Abandoned; n != s.outcomes {
		s.outcomes, s.since = n, now
	}
	if now.Sub(s.since) < drainPatience {
		return
	}
	r.faults.add(stuck(&reg))
}

// stuck names what a run that drains waits for.
func stuck(reg *tagnet.Registers) Fault {
	f := Fault{Evidence: "seen by the scheduler", rank: rankSelf}
	if reg.Ring != nil && reg.Ring.Under.Now > 0 { // a tag that has its window waits for no output
		f.Component = "the ring"
		f.What = fmt.Sprintf("%d tags have not come round and %d MEPs have had no outcome for %v while the run was to end; a readout unit holds or has lost a tag",
			reg.Ring.Under.Now, reg.InFlight, drainPatience)
		return f
	}
	var holders []string
	for _, b := range reg.BUs {
		if b.Used.Now > 0 {
			holders = append(holders, b.Name)
		}
	}
	f.Component = strings.Join(holders, ", ")
	f.What = fmt.Sprintf("%d MEPs have had no outcome for %v while the run was to end; an output that nobody reads or that is stuck holds them up",
		reg.InFlight, drainPatience)
	return f
}
