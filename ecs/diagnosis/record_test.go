package diagnosis

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"

	"ringlet/ecs/figures"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
)

var record = flag.Bool("record", false, "make the recordings in testdata anew, with real runs on this machine")

// recordedVersion is the version of the nodes that were recorded.
const recordedVersion = "recorded"

// recordings are runs of four nodes in one process: real units, links and a scheduler.
var recordings = map[string]func(name string, c *config.Config){
	"healthy": func(string, *config.Config) {},
	"slow_source": func(name string, c *config.Config) { // the others read as fast as they may
		if name == "n2" {
			c.Rate = 40_000
		}
	},
	"suspended_builder": func(_ string, c *config.Config) {
		c.Debug.SuspendBUs, c.Debug.SuspendEvery, c.Debug.SuspendFor = "1", 10*time.Second, 9*time.Second
	},
	"lossy": func(name string, c *config.Config) { // what comes to n3
		if name == "n3" {
			c.Debug.Drop = 0.05
		}
	},
}

// TestRecord makes testdata/*.json.gz: go test ./ecs/diagnosis -run Record -record. Then look at what the transcripts
// say (-update), since no two runs are alike.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("recordings are there: -record makes them anew")
	}
	for name, change := range recordings {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, 4)
			f.run(change)
			if err := os.WriteFile("testdata/"+name+".json.gz", f.film(12*time.Second), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// farm is nodes in this process and what a control would be.
type farm struct {
	t     *testing.T
	ctx   context.Context
	id    *certs.Identity
	view  *nodev1.View
	nodes []nodev1.NodeClient
	sched *tagnet.Server
	base  config.Config
	began time.Time
}

func newFarm(t *testing.T, nodes int) *farm {
	t.Helper()
	issue := issuer.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
	f := &farm{
		t:    t,
		ctx:  ctx,
		id:   issue(node.ControlName, certs.RoleControl),
		view: &nodev1.View{Number: 1},
		base: config.Default(),
	}
	quiet := slog.New(slog.DiscardHandler)
	key := certs.NewGossipKey()
	seed, err := cluster.Open(ctx, cluster.Config{
		Name:   node.ControlName,
		Key:    key,
		Timing: cluster.LocalTiming(),
		Meta:   cluster.Meta{Roles: cluster.Control},
		Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.base.Nodes, f.base.Packing, f.base.RunNumber, f.base.Duration = nodes, 200, 77, time.Hour
	if err := f.base.Complete(); err != nil {
		t.Fatal(err)
	}
	var names []string
	var wg sync.WaitGroup
	for _, role := range f.base.Roles() {
		names = append(names, role.Name)
		wg.Go(func() {
			if err := node.Run(ctx, node.Config{
				Name:         role.Name,
				Host:         "127.0.0.1",
				Join:         []string{seed.Addr().String()},
				Identity:     issue(role.Name, certs.RoleNode),
				GossipKey:    key,
				GossipTiming: cluster.LocalTiming(),
				Roles:        cluster.Readout | cluster.Builder,
				Version:      recordedVersion,
				Log:          quiet,
			}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); patiently.Wait(t, wg.Wait); _ = seed.Close() })
	if err := seed.WaitForMembers(ctx, names...); err != nil {
		t.Fatal(err)
	}
	f.connect(seed)
	return f
}

func (f *farm) connect(seed *cluster.Cluster) {
	for _, m := range seed.Members() {
		if m.Name == node.ControlName {
			continue
		}
		conn, err := grpc.NewClient(m.Meta.GRPCAddr, grpc.WithTransportCredentials(credentials.NewTLS(f.id.Client(m.Name))))
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = conn.Close() })
		rank := uint32(len(f.nodes))
		f.nodes = append(f.nodes, nodev1.NewNodeClient(conn))
		f.view.Members = append(f.view.Members, &nodev1.Member{
			Name:        m.Name,
			Rank:        rank,
			QuicAddress: m.Meta.QUICAddr,
			GrpcAddress: m.Meta.GRPCAddr,
			Readout:     true,
			RuIndex:     rank,
			Builder:     true,
			BuIndex:     rank,
		})
	}
}

// run begins a run that each node has its own configuration of.
func (f *farm) run(change func(name string, c *config.Config)) {
	t := f.t
	if err := f.base.FitSlot(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range f.view.GetMembers() {
		names = append(names, m.GetName())
	}
	host := tagnet.NewHost(tagnet.Access{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(tagnet.ServerOptions(), grpc.Creds(credentials.NewTLS(f.id.Server())))...)
	host.Register(server)
	go func() { _ = server.Serve(lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(f.id.Client(node.ControlName))))
	if err != nil {
		t.Fatal(err)
	}
	scope := tagnet.Scope{Run: f.base.RunNumber, View: f.view.GetNumber(), Name: node.ControlName}
	err = tagnet.BeginScheduler(f.ctx, conn, scope, core.Config{
		RUs:          names,
		BUs:          names,
		Slots:        f.base.Slots,
		Packing:      f.base.Packing,
		LookAhead:    f.base.Debug.LookAhead,
		NoSlotPolicy: core.Skip,
	}, tagnet.UnitTimeouts{Attach: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f.sched = host.Server()
	t.Cleanup(func() { _ = conn.Close(); host.Close(); server.Stop() })
	for _, command := range []nodev1.Command{
		nodev1.Command_COMMAND_LOAD, nodev1.Command_COMMAND_CONFIGURE, nodev1.Command_COMMAND_START,
	} {
		var wg sync.WaitGroup
		for i, n := range f.nodes {
			c := f.base
			change(names[i], &c)
			wg.Go(func() {
				if _, err := n.Command(f.ctx, &nodev1.CommandRequest{
					Protocol:      node.ProtocolVersion,
					Command:       command,
					Run:           c.RunNumber,
					Configuration: c.Effective(),
					View:          f.view,
					TagnetAddress: lis.Addr().String(),
				}); err != nil {
					t.Errorf("%s: %v: %v", names[i], command, err)
				}
			})
		}
		patiently.Wait(t, wg.Wait)
	}
	if t.Failed() {
		t.FailNow()
	}
	f.began = time.Now()
}

// film takes a snapshot every second, and leaves out what rules do not look at.
func (f *farm) film(length time.Duration) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	b := figures.New()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for time.Since(f.began) < length {
		now := patiently.Receive(f.t, every.C)
		r := &figures.Reading{
			At:            now,
			Run:           f.base.RunNumber,
			State:         "Running",
			RunBegan:      f.began,
			Scheduler:     &core.Stats{Registers: f.sched.Registers()},
			SchedulerNode: "n0",
		}
		for i, n := range f.nodes {
			rep, err := n.Report(f.ctx, &nodev1.ReportRequest{})
			if err != nil {
				f.t.Fatal(err)
			}
			for name, v := range rep.GetCounters() {
				if v == 0 {
					delete(rep.GetCounters(), name)
				}
			}
			r.Nodes = append(r.Nodes, figures.Node{Member: f.view.GetMembers()[i], Report: rep, Received: time.Now()})
		}
		s := b.Add(r)
		s.Latency = nil
		line, err := protojson.Marshal(s)
		if err != nil {
			f.t.Fatal(err)
		}
		if _, err := z.Write(append(line, '\n')); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		f.t.Fatal(err)
	}
	return out.Bytes()
}
