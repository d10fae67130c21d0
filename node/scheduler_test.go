package node

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ringlet/node/certs"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// hostScheduler has n0 make the scheduler of a new view, and returns what every command of its run says.
func (p *pair) hostScheduler(c config.Config) (tagnet.Scope, *nodev1.CommandRequest) {
	p.t.Helper()
	p.number++
	p.view.Number = p.number
	scope := tagnet.Scope{Run: p.run, View: p.number, Name: ControlName}
	wait := tagnet.UnitTimeouts{Attach: time.Minute}
	if err := tagnet.BeginScheduler(p.ctx, p.conns[0], scope, p.schedulerOf(c), wait); err != nil {
		p.t.Fatal(err)
	}
	host := p.view.GetMembers()[0]
	return scope, &nodev1.CommandRequest{
		Configuration: c.Effective(),
		View:          p.view,
		TagnetName:    host.GetName(),
		TagnetAddress: host.GetGrpcAddress(),
	}
}

func (p *pair) schedulerOf(c config.Config) core.Config {
	out := core.Config{Slots: c.Slots, Packing: c.Packing, LookAhead: c.Debug.LookAhead}
	for _, m := range p.view.GetMembers() {
		if m.GetReadout() {
			out.RUs = append(out.RUs, m.GetName())
		}
		if m.GetBuilder() {
			out.BUs = append(out.BUs, m.GetName())
		}
	}
	return out
}

// upward are the commands from Offline to Running.
var upward = []nodev1.Command{
	nodev1.Command_COMMAND_LOAD, nodev1.Command_COMMAND_CONFIGURE, nodev1.Command_COMMAND_START,
}

// bringUp takes both nodes to Running.
func (p *pair) bringUp(req *nodev1.CommandRequest) {
	p.t.Helper()
	for _, cmd := range upward {
		req.Command = cmd
		p.must(req)
	}
}

// connect is another connection of the control to a node.
func (p *pair) connect(i int) *grpc.ClientConn {
	p.t.Helper()
	m := p.view.GetMembers()[i]
	conn, err := grpc.NewClient(m.GetGrpcAddress(),
		grpc.WithTransportCredentials(credentials.NewTLS(p.id.Client(m.GetName()))))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (p *pair) drained(s tagnet.Scheduler) core.Stats {
	p.t.Helper()
	select {
	case <-s.Drained():
	case <-p.ctx.Done():
		p.t.Fatal("the run does not end")
	}
	stats, err := s.Stats()
	if err != nil {
		p.t.Fatal(err)
	}
	return stats
}

// TestFormerSchedulerIsClosed holds that a scheduler which was taken over while its node stood still does not keep the
// node from having one for the next view: nobody ends it, and its view is never drained.
func TestFormerSchedulerIsClosed(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := testConfig(t, t.TempDir()+"/")
	_, _ = p.hostScheduler(c) // no unit ever attaches to it
	p.number++
	p.view.Number = p.number
	req := &nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, Run: p.run}
	for _, cmd := range upward[:2] {
		req.Command = cmd
		p.must(req)
	}
	scope := tagnet.Scope{Run: p.run, View: p.number, Name: ControlName}
	wait := tagnet.UnitTimeouts{Attach: time.Minute}
	if err := tagnet.BeginScheduler(p.ctx, p.conns[0], scope, p.schedulerOf(c), wait); err != nil {
		t.Fatalf("the next scheduler: %v", err)
	}
	req.Command, req.Back = nodev1.Command_COMMAND_RESET, false
	p.must(req)
}

// TestSchedulerOnANode runs without anything of the control's in the way of the data: its connections may go and come.
func TestSchedulerOnANode(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for range 2 { // the second view takes the seat of the first, which is drained
		c := testConfig(t, t.TempDir()+"/")
		scope, req := p.hostScheduler(c)
		first := p.connect(0)
		before := tagnet.NewRemote(first, tagnet.RemoteConfig{Scope: scope})
		p.bringUp(req)
		_ = first.Close()
		before.Close()
		after := tagnet.NewRemote(p.connect(0), tagnet.RemoteConfig{Scope: scope})
		stats := p.drained(after)
		after.Close()
		if c := stats.Registers.Counters; c.Built != 11 || c.EventsBuilt != 1050 || c.Issued != 11 {
			t.Errorf("%d of %d MEPs built, %d events", c.Built, c.Issued, c.EventsBuilt)
		}
		req.Command = nodev1.Command_COMMAND_STOP
		p.must(req)
		for i := range p.nodes {
			r := p.report(i)
			if !r.GetFinal() || r.GetStopped() != nil || r.GetStatus().GetState() != "Ready" {
				t.Errorf("n%d reports %v, %v", i, r.GetStatus(), r.GetStopped())
			}
		}
		req.Command = nodev1.Command_COMMAND_RESET
		p.must(req)
	}
}

// TestOnlyTheControlCommands lets another node try.
func TestOnlyTheControlCommands(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	control := p.id
	p.id = p.other
	conn := p.connect(1)
	p.id = control
	if _, err := nodev1.NewNodeClient(conn).Command(p.ctx, &nodev1.CommandRequest{Protocol: ProtocolVersion,
		Command: nodev1.Command_COMMAND_LOAD}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node's command: %v", err)
	}
	scope := tagnet.Scope{Run: 1, View: 1, Name: "n0"}
	if err := tagnet.BeginScheduler(p.ctx, conn, scope, p.schedulerOf(testConfig(t, "")),
		tagnet.UnitTimeouts{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node's scheduler: %v", err)
	}
	if p.other.Role != certs.RoleNode || p.report(1).GetStatus().GetState() != "Offline" {
		t.Errorf("n1 is %v", p.report(1).GetStatus())
	}
}
