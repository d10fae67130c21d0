package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
)

// pair is two nodes or more in this process and a control that does what it is told.
type pair struct {
	t      *testing.T
	id     *certs.Identity // of the control
	other  *certs.Identity // of some node
	ctx    context.Context
	run    uint32
	view   *nodev1.View
	nodes  []nodev1.NodeClient
	conns  []*grpc.ClientConn
	number uint64
	kill   []func() // by rank: ends the node at once
	lost   chan *tagcore.UnitError

	leave    []chan struct{} // by rank: tells the node to end
	gone     []chan struct{} // closed when it has
	monitors []string        // where it is monitored

	seed   *cluster.Cluster
	launch func(rank int, role cluster.Roles) // starts the process of a node
	ended  []chan error                       // of each process

	inside sync.Map // by rank: reads its report without a call
	issue  func(name string, role certs.Role) *certs.Identity
	proxy  func(address string) string // what nodes are told instead of the scheduler's address; nil: that
}

const folded = cluster.Readout | cluster.Builder

func newPair(t *testing.T) *pair { return newPairWith(t, time.Minute) }

// newPairWith gives the nodes a grace.
func newPairWith(t *testing.T, grace time.Duration) *pair {
	return newFarmWith(t, grace, folded, folded)
}

// newFarm makes nodes n0, n1, … with these roles.
func newFarm(t *testing.T, roles ...cluster.Roles) *pair {
	return newFarmWith(t, time.Minute, roles...)
}

func newFarmWith(t *testing.T, grace time.Duration, roles ...cluster.Roles) *pair {
	t.Helper()
	return newFarmOf(t, Config{LeaveGrace: grace, MinBarrierTimeout: patiently.LongTimeout}, roles...)
}

// newFarmOf makes nodes that have these settings.
func newFarmOf(t *testing.T, of Config, roles ...cluster.Roles) *pair {
	t.Helper()
	t.TempDir() // temporary directories are removed when all nodes have ended, which may write to them until then
	issue := issuer.New(t)
	p := &pair{
		t:     t,
		issue: issue,
		id:    issue(ControlName, certs.RoleControl),
		other: issue("n7", certs.RoleNode),
		run:   1<<31 | rand.Uint32(),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patiently.LongTimeout)
	p.ctx = ctx
	t.Cleanup(cancel)
	key := certs.NewGossipKey()
	of.GossipKey, of.GossipTiming = key, cluster.LocalTiming()
	of.GossipTiming.LeaveTimeout = 50 * time.Millisecond
	of.GossipTiming.SuspicionMult *= 3 // who is busy has not failed
	seed, err := cluster.Open(ctx, cluster.Config{
		Name:   ControlName,
		Key:    key,
		Timing: of.GossipTiming,
		Meta:   cluster.Meta{Roles: cluster.Control},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	p.launch = func(rank int, role cluster.Roles) { p.started(p.process(ctx, seed, of, rank, role)) }
	for rank, role := range roles {
		p.kill, p.leave, p.gone, p.monitors = append(p.kill, nil), append(p.leave, nil), append(p.gone, nil),
			append(p.monitors, "")
		names = append(names, fmt.Sprint("n", rank))
		p.launch(rank, role)
	}
	t.Cleanup(func() {
		cancel()
		for _, ended := range p.ended {
			if err := patiently.Receive(t, ended); err != nil {
				t.Errorf("a node ended with %v", err)
			}
		}
		_ = seed.Close()
		if leftovers, _ := filepath.Glob(fmt.Sprintf("/dev/shm/ringlet-%d-*", p.run)); len(leftovers) > 0 {
			t.Errorf("left behind: %v", leftovers)
		}
	})
	if err := seed.WaitForMembers(ctx, names...); err != nil {
		t.Fatal(err)
	}
	p.seed = seed
	p.connectAll(seed)
	return p
}

func (p *pair) started(ended chan error) { p.ended = append(p.ended, ended) }

// process starts a node, and returns where it tells how it has ended.
func (p *pair) process(ctx context.Context, seed *cluster.Cluster, of Config, rank int, role cluster.Roles) chan error {
	p.t.Helper()
	name, ended := fmt.Sprint("n", rank), make(chan error, 1)
	id := p.issue(name, certs.RoleNode)
	nodeCtx, kill := context.WithCancel(ctx)
	leave, gone := make(chan struct{}), make(chan struct{})
	monitor, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.kill[rank], p.leave[rank], p.gone[rank], p.monitors[rank] = kill, leave, gone, monitor.Addr().String()
	go func() {
		defer close(gone)
		ended <- Run(nodeCtx, Config{
			Name:              name,
			Host:              "127.0.0.1",
			Join:              []string{seed.Addr().String()},
			Identity:          id,
			GossipKey:         of.GossipKey,
			GossipTiming:      of.GossipTiming,
			IdleTimeout:       patiently.Scaled(30 * time.Second),
			MinBarrierTimeout: of.MinBarrierTimeout,
			MinTimeout:        patiently.LongTimeout,
			Roles:             role,
			Log:               slog.New(slog.DiscardHandler),
			LeaveRequest:      leave,
			LeaveGrace:        of.LeaveGrace,
			MonitorListener:   monitor,
			NewMetricsHandler: func(reports map[string]func() *nodev1.Report) http.Handler {
				report := reports[name]
				p.inside.Store(rank, report)
				return http.HandlerFunc(func(w http.ResponseWriter,
					_ *http.Request) {
					_, _ = fmt.Fprintln(w, report().GetName())
				})
			},
		})
	}()
	return ended
}

func (p *pair) connectAll(seed *cluster.Cluster) {
	p.t.Helper()
	p.view = &nodev1.View{}
	var rus, bus uint32
	for _, m := range seed.Members() {
		if m.Name == ControlName {
			continue
		}
		conn, err := grpc.NewClient(m.Meta.GRPCAddr, grpc.WithTransportCredentials(credentials.NewTLS(p.id.Client(m.Name))))
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { _ = conn.Close() })
		rank := uint32(len(p.nodes))
		p.nodes, p.conns = append(p.nodes, nodev1.NewNodeClient(conn)), append(p.conns, conn)
		p.view.Members = append(p.view.Members, &nodev1.Member{
			Name:        m.Name,
			Rank:        rank,
			QuicAddress: m.Meta.QUICAddr,
			GrpcAddress: m.Meta.GRPCAddr,
			Readout:     m.Meta.Roles.Contains(cluster.Readout),
			RuIndex:     rus,
			Builder:     m.Meta.Roles.Contains(cluster.Builder),
			BuIndex:     bus,
		})
		if m.Meta.Roles.Contains(cluster.Readout) {
			rus++
		}
		if m.Meta.Roles.Contains(cluster.Builder) {
			bus++
		}
	}
}

// scheduler serves a new view.
func (p *pair) scheduler(c config.Config) (*tagnet.Server, string) {
	p.t.Helper()
	p.number++
	p.view.Number = p.number
	policy, err := tagcore.ParsePolicy(c.EmptyPlace)
	if err != nil {
		p.t.Fatal(err)
	}
	core := tagcore.Config{
		Slots:              c.Slots,
		Packing:            c.Packing,
		LookAhead:          c.Debug.LookAhead,
		NoSlotPolicy:       policy,
		Loose:              !c.DisciplineKind().Phases,
		TagRing:            c.DisciplineKind().Tags,
		BypassBusyRUs:      c.DisciplineKind().Bypass,
		Push:               c.DisciplineKind().Push,
		Live:               c.HasLiveSources(),
		CompleteEventsOnly: c.EventsComplete(),
	}
	if c.HasLiveSources() {
		core.MaxEvents = c.Events
	}
	if core.Rules.TurnOrder, err = tagcore.ParseTurnOrder(c.Next); err != nil {
		p.t.Fatal(err)
	}
	for _, m := range p.view.GetMembers() {
		if m.GetReadout() {
			core.RUs = append(core.RUs, m.GetName())
		}
		if m.GetBuilder() {
			core.BUs = append(core.BUs, m.GetName())
		}
	}
	lost := make(chan *tagcore.UnitError, 16)
	p.lost = lost
	host := tagnet.NewHost(tagnet.Access{Identify: Identify, Log: slog.New(slog.DiscardHandler)})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(p.id.Server())))
	host.Register(server)
	go func() { _ = server.Serve(lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(p.id.Client(ControlName))))
	if err != nil {
		p.t.Fatal(err)
	}
	scope := tagnet.Scope{Run: p.run, View: p.number, Name: ControlName}
	if err := tagnet.BeginScheduler(p.ctx, conn, scope, core, tagnet.UnitTimeouts{Attach: time.Minute}); err != nil {
		p.t.Fatal(err)
	}
	s := host.Server()
	remote := tagnet.NewRemote(conn, tagnet.RemoteConfig{Scope: scope,
		OnIncident: func(e *tagcore.UnitError) { lost <- e }})
	p.t.Cleanup(func() {
		remote.Close()
		_ = conn.Close()
		host.Close()
		server.Stop()
	})
	if p.proxy != nil {
		return s, p.proxy(lis.Addr().String())
	}
	return s, lis.Addr().String()
}

// command gives both nodes a command at the same time.
func (p *pair) command(req *nodev1.CommandRequest) []error {
	req.Protocol, req.Run = ProtocolVersion, p.run
	req.RunKey = bytes.Repeat([]byte{byte(p.run)}, len(recording.Key{}))
	errs := make([]chan error, len(p.nodes))
	for i, n := range p.nodes {
		errs[i] = make(chan error, 1)
		go func() {
			_, err := n.Command(p.ctx, req)
			errs[i] <- err
		}()
	}
	out := make([]error, len(errs))
	for i := range errs {
		out[i] = patiently.Receive(p.t, errs[i])
	}
	return out
}

func (p *pair) must(req *nodev1.CommandRequest) {
	p.t.Helper()
	for i, err := range p.command(req) {
		if err != nil {
			p.t.Fatalf("n%d: %v: %v", i, req.GetCommand(), err)
		}
	}
}

func (p *pair) report(i int) *nodev1.Report {
	p.t.Helper()
	r, err := p.nodes[i].Report(p.ctx, &nodev1.ReportRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func testConfig(t *testing.T, output string) config.Config {
	t.Helper()
	c := config.Default()
	c.Nodes, c.Events, c.Packing, c.Verify, c.Output = 2, 1050, 100, config.VerifyFull, output
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if err := c.FitSlot(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTwoRunsInARow(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for round := range 2 {
		out := t.TempDir() + "/"
		c := testConfig(t, out)
		sched, address := p.scheduler(c)
		p.bringUp(&nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address})
		select {
		case <-sched.Drained():
		case <-p.ctx.Done():
			t.Fatal("the run does not end")
		}
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP})
		var built, written uint64
		for i := range p.nodes {
			r := p.report(i)
			if !r.GetFinal() || r.GetRun() != p.run || r.GetStatus().GetState() != "Ready" || r.GetMaxRssBytes() == 0 {
				t.Errorf("round %d: n%d reports %v of run %d, %v", round, i, r.GetStatus(), r.GetRun(), r.GetFinal())
			}
			built += r.GetCounters()["bu.meps_built"]
			written += r.GetCounters()["bu.output_events"]
			if _, err := os.Stat(fmt.Sprintf("%s/bu%d-00001.mep", recording.RunDir(out, p.run), i)); err != nil {
				t.Error(err)
			}
			var to uint64
			for _, l := range r.GetLinks() {
				to += l.GetBytesWritten()
			}
			if c := r.GetCounters(); len(r.GetLinks()) != 2 || to == 0 || to != c["ru.bytes_written"] || c["ru.source_us"] == 0 {
				t.Errorf("round %d: n%d wrote %d bytes over %d links, %d in all, in %d µs of its source",
					round, i, to, len(r.GetLinks()), c["ru.bytes_written"], c["ru.source_us"])
			}
			if m := r.GetMachine(); r.GetAtUs() == 0 || m.GetProcessors() == 0 || m.GetRssBytes() == 0 ||
				m.GetDiskFreeBytes() == 0 || len(r.GetTimeline()) > finalReportSteps {
				t.Errorf("round %d: n%d at %d has %v, and keeps %d steps", round, i, r.GetAtUs(), m, len(r.GetTimeline()))
			}
		}
		if built != 11 || written != 1050 {
			t.Errorf("round %d: %d MEPs built, %d events written", round, built, written)
		}
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_UNLOAD})
	}
}

func TestAbandonedRun(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	out := t.TempDir() + "/"
	c := testConfig(t, out)
	c.Events = 0 // it would go on for ever
	_, address := p.scheduler(c)
	req := &nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address}
	p.bringUp(req)
	watch, err := p.nodes[0].Watch(p.ctx, &nodev1.WatchRequest{IntervalMs: 10, Timeline: 3})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(r.GetTimeline()) > 3 {
			t.Fatalf("%d steps, of the last 3", len(r.GetTimeline()))
		}
		if r.GetCounters()["bu.meps_built"] > 0 && len(r.GetTimeline()) == 3 {
			break
		}
	}
	// Whichever is told first takes its links down. The other may find them down before it is told, and is in Ready then,
	// too.
	for i, err := range p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Abandon: true}) {
		if err != nil {
			t.Errorf("n%d did not stop: %v", i, err)
		}
		if r := p.report(i); r.GetStatus().GetState() != "Ready" || !r.GetFinal() {
			t.Errorf("n%d: %v", i, r)
		}
	}
	// Its links are down, so it cannot start again as it is; after a reset it can be configured.
	for _, err := range p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_START, View: p.view}) {
		if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), errLinksDown.Error()) {
			t.Errorf("start without links: %v", err)
		}
	}
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RECOVER})
	// What was written is kept and closed, however the run ended.
	if got, err := recording.Read(t.Context(), recording.RunDir(out, p.run)); err != nil || got.ProblemCount() > 0 ||
		got.Events() == 0 {
		t.Errorf("output of an abandoned run: %+v, %v", got, err)
	}
	_, req.TagnetAddress = p.scheduler(c)
	req.Command = nodev1.Command_COMMAND_CONFIGURE
	p.must(req)
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
}

// TestPeersGiveUp holds that a node whose peers have dropped the run before it is told so is in Ready all the same, and
// does not say that it is at fault.
func TestPeersGiveUp(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(*pair){
		"a peer": func(p *pair) {
			req := &nodev1.CommandRequest{
				Protocol: ProtocolVersion,
				Run:      p.run,
				Command:  nodev1.Command_COMMAND_STOP,
				Abandon:  true,
			}
			if _, err := p.nodes[0].Command(p.ctx, req); err != nil {
				p.t.Error(err)
			}
		},
		"nobody": func(*pair) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFarm(t, folded, folded, folded, folded)
			sched := p.begin(lossConfig(t,
				func(c *config.Config) { c.Nodes, c.RUs, c.BUs, c.BuilderLoss = 4, 4, 4, "essential" }))
			p.more(sched, 20)
			first(p)
			for i, err := range p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Abandon: true}) {
				st := p.report(i).GetStatus()
				if err != nil || st.GetState() != "Ready" || st.GetCause().GetComponent() == fmt.Sprint("n", i) {
					t.Errorf("n%d: %v, %v", i, st, err)
				}
			}
			sched.Abandon()
			p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
		})
	}
}
