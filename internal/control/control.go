package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit/source"
	"ringlet/tagnet"
)

// Name of the control in the cluster and in its certificate.
const Name = "control"

// Config of a run.
type Config struct {
	Run      config.Config // complete
	Host     string        // address to bind and to tell the nodes
	Port     int           // of the gossip; 0 means any
	Identity *certs.Identity
	Key      []byte // of the gossip
	Version  string
	Spawner  Spawner // nil: nodes join by themselves
	// Patience is how long the nodes may take to appear and to become ready. Zero means 60 s.
	Patience time.Duration
	Timing   cluster.Timing // zero: cluster.LocalTiming
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
	cfg       Config
	log       *slog.Logger
	members   *cluster.Cluster
	nodes     []*member
	sched     *tagnet.Server
	faults    *faults
	began     time.Time
	endCause  string
	badInput  string
	output    sink.Result
	startedAt time.Time
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

// Run takes the nodes through one run. The report is whole if the nodes became ready; otherwise there is only an error. A run
// that ended by a fault has both: the error is a *FaultError.
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
	r := &run{cfg: cfg, log: cfg.Log, began: time.Now(), faults: newFaults()}
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
	if err := r.gather(ctx); err != nil {
		return nil, r.explain(err)
	}
	defer r.dismiss()
	return r.conduct(ctx)
}

// prepare settles what the data decide: streams and slots.
func prepare(c *config.Config) error {
	if c.Output != "" && c.Format != config.FormatBuffer {
		dir := filepath.Dir(c.Output)
		if strings.HasSuffix(c.Output, "/") {
			dir = c.Output
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("the output cannot be written: %w", err)
		}
	}
	if c.Input == "" {
		if c.SlotSize == 0 {
			_, high := c.MEPSize(0)
			c.SlotSize = config.Bytes(high)
		}
		return nil
	}
	path, err := filepath.Abs(c.Input)
	if err != nil {
		return err
	}
	c.Input = path
	bad, err := source.ParseOnBadRecord(c.OnBadRecord)
	if err != nil {
		return err
	}
	replay, err := source.OpenReplay(source.ReplayConfig{
		Path: c.Input, RUs: c.RUs, Streams: c.Streams, Packing: c.Packing, Loop: c.Loop, OnBadRecord: bad, Events: c.Events,
	})
	if err != nil {
		return &InputError{err}
	}
	defer func() { _ = replay.Close() }()
	c.Streams = replay.Cabling().Streams()
	need := event.MEPHeaderSize(replay.Cabling().Sources()) + replay.MaxMEP()
	if c.SlotSize == 0 {
		c.SlotSize = config.Bytes(need)
	}
	if int(c.SlotSize) < need {
		return fmt.Errorf("the largest MEP of %s needs %d bytes, but slot-size is %s: raise slot-size or lower packing", c.Input, need, c.SlotSize)
	}
	return nil
}

// An InputError is an input that cannot be replayed at all.
type InputError struct{ Err error }

func (e *InputError) Error() string { return "the input cannot be read: " + e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// gather finds the nodes, or makes them, and connects to them.
func (r *run) gather(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	var names []string
	if r.cfg.Spawner != nil {
		for _, role := range r.cfg.Run.Roles() {
			names = append(names, role.Name)
		}
		err := r.cfg.Spawner.Spawn(names, r.members.Addr().String(), func(name, how string) {
			r.faults.add(Fault{Component: name, What: "its process " + how, Evidence: "seen by the control", rank: rankProcess})
		})
		if err != nil {
			return err
		}
	} else {
		r.log.Info("waiting for nodes", "wanted", r.cfg.Run.Nodes, "join", r.members.Addr())
		var err error
		if names, err = r.await(ctx); err != nil {
			return err
		}
	}
	waited, stop := r.faults.during(ctx)
	defer stop()
	if err := r.members.Wait(waited, names...); err != nil {
		return err
	}
	return r.meet(names)
}

// await waits until enough nodes are there, and takes the first by rank.
func (r *run) await(ctx context.Context) ([]string, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var names []string
		for _, m := range r.members.Members() {
			if m.Meta.Roles.Has(cluster.Readout) || m.Meta.Roles.Has(cluster.Builder) {
				names = append(names, m.Name)
			}
		}
		if len(names) >= r.cfg.Run.Nodes {
			return names[:r.cfg.Run.Nodes], nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d nodes are wanted, and only %d have joined at %s: %s (%w)", r.cfg.Run.Nodes, len(names),
				r.members.Addr(), strings.Join(names, ", "), context.Cause(ctx))
		}
	}
}

// meet connects to the node services, in order of rank.
func (r *run) meet(names []string) error {
	known := map[string]cluster.Member{}
	for _, m := range r.members.Members() {
		known[m.Name] = m
	}
	for rank, role := range r.cfg.Run.Roles() {
		m, ok := known[names[rank]]
		if !ok {
			return fmt.Errorf("%s has left again", names[rank])
		}
		conn, err := grpc.NewClient(m.Meta.GRPCAddr,
			grpc.WithTransportCredentials(credentials.NewTLS(r.cfg.Identity.Client(m.Name))))
		if err != nil {
			return fmt.Errorf("node service of %s at %s: %w", m.Name, m.Meta.GRPCAddr, err)
		}
		r.nodes = append(r.nodes, &member{
			name: m.Name, conn: conn, client: nodev1.NewNodeClient(conn),
			view: &nodev1.Member{
				Name: m.Name, Rank: uint32(rank), QuicAddress: m.Meta.QUICAddr, GrpcAddress: m.Meta.GRPCAddr,
				Readout: role.RU != config.None, RuIndex: uint32(max(0, role.RU)),
				Builder: role.BU != config.None, BuIndex: uint32(max(0, role.BU)),
			},
		})
	}
	return nil
}

// conduct goes from configure to the closed accounts.
func (r *run) conduct(ctx context.Context) (*Report, error) {
	up, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	up, stop := r.faults.during(up)
	defer stop()
	view := &nodev1.View{Number: uint64(time.Now().UnixNano())}
	for _, n := range r.nodes {
		view.Members = append(view.Members, n.view)
	}
	lis, err := net.Listen("tcp", net.JoinHostPort(r.cfg.Host, "0"))
	if err != nil {
		return nil, fmt.Errorf("cannot bind the scheduler at %s: %w", r.cfg.Host, err)
	}
	if err := r.schedule(view.GetNumber()); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(r.cfg.Identity.Server())))
	r.sched.Register(server)
	go func() { _ = server.Serve(lis) }()
	defer server.Stop()
	defer r.sched.Close()
	req := &nodev1.CommandRequest{
		Protocol: protocolVersion, Run: r.cfg.Run.RunNumber, Configuration: r.cfg.Run.Effective(), View: view,
		TagnetAddress: lis.Addr().String(),
	}
	for _, c := range []nodev1.Command{nodev1.Command_COMMAND_LOAD, nodev1.Command_COMMAND_CONFIGURE, nodev1.Command_COMMAND_START} {
		if err := r.all(up, c, req); err != nil {
			return nil, r.explain(err)
		}
	}
	r.startedAt = time.Now()
	watching, end := context.WithCancel(context.Background())
	defer end()
	r.watch(watching)
	r.untilEnd(ctx)
	return r.finish()
}

// schedule makes the TagNet scheduler of the view.
func (r *run) schedule(view uint64) error {
	policy, err := tagnet.ParsePolicy(r.cfg.Run.EmptyPlace)
	if err != nil {
		return err
	}
	c := tagnet.Config{Slots: r.cfg.Run.Slots, Packing: r.cfg.Run.Packing, LookAhead: r.cfg.Run.LookAhead, Policy: policy}
	for _, n := range r.nodes {
		if n.view.GetReadout() {
			c.RUs = append(c.RUs, n.name)
		}
		if n.view.GetBuilder() {
			c.BUs = append(c.BUs, n.name)
		}
	}
	r.sched, err = tagnet.NewServer(tagnet.ServerConfig{
		Core: c, Run: r.cfg.Run.RunNumber, View: view, AttachTimeout: r.cfg.Patience,
		OnPeer: func(e *tagnet.PeerError) {
			r.faults.add(Fault{Component: e.Unit, What: e.Error(), Evidence: "seen by the scheduler", rank: rankStream})
		},
	})
	return err
}

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
		case <-done:
			done, r.endCause = nil, EndInterrupted
			r.sched.Drain(0)
		case <-tick.C:
			r.progress()
		}
	}
}
