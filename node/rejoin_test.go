package node

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// TestReadoutComesBack holds that a node with nothing but a readout unit, which ended in a run, takes part again as
// another process: what is built from its return on lacks nothing.
func TestReadoutComesBack(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		if strings.HasPrefix(name, "tagring") {
			continue // tags pass through every readout unit
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := len(name) % 3
			p := newFarm(t, cluster.Readout, cluster.Readout, cluster.Readout, cluster.Builder, cluster.Builder,
				cluster.Builder)
			c := lossConfig(t, func(c *config.Config) {
				change(c)
				c.BuilderLoss, c.ReadoutLoss = "essential", "at-least 2 of 3"
			})
			s, address := p.scheduler(c)
			req := &nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address}
			p.bringUp(req)
			p.more(s, 20)
			losses := cases.Count(2, 1)
			for times := range losses {
				p.kill[victim]()
				if e := patiently.Receive(t, p.lost); e.Role != core.Readout || e.Incident != core.UnitLost {
					t.Fatalf("the scheduler says %v", e)
				}
				if err := s.ExcludeRU(p.view.GetMembers()[victim].GetName()); err != nil {
					t.Fatal(err)
				}
				p.more(s, 40)
				p.revive(s, req, victim)
				p.more(s, 40)
				gone := s.Registers().Rus[victim].Gone
				if len(gone) != times+1 || !gone[times].Back {
					t.Fatalf("the registers say %+v", gone)
				}
			}
			p.end(s)
			p.checkRejoined(s, victim)
		})
	}
}

// revive starts the process of a node again and takes it into the run.
func (p *pair) revive(s *tagnet.Server, req *nodev1.CommandRequest, rank int) {
	p.t.Helper()
	patiently.Receive(p.t, p.gone[rank])
	name := p.view.GetMembers()[rank].GetName()
	before := p.view.GetMembers()[rank].GetQuicAddress()
	p.launch(rank, cluster.Readout)
	p.awaits("the node", func() bool {
		for _, m := range p.seed.Members() {
			if m.Name == name && m.Meta.QUICAddr != before {
				p.view.Members[rank].QuicAddress, p.view.Members[rank].GrpcAddress = m.Meta.QUICAddr, m.Meta.GRPCAddr
				return true
			}
		}
		return false
	})
	conn, err := grpc.NewClient(p.view.GetMembers()[rank].GetGrpcAddress(),
		grpc.WithTransportCredentials(credentials.NewTLS(p.id.Client(name))))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	p.nodes[rank], p.conns[rank] = nodev1.NewNodeClient(conn), conn
	for _, command := range upward {
		one := &nodev1.CommandRequest{
			Protocol:      ProtocolVersion,
			Command:       command,
			Run:           p.run,
			Configuration: req.GetConfiguration(),
			View:          p.view,
			TagnetAddress: req.GetTagnetAddress(),
			Back:          true,
			RunKey:        req.GetRunKey(),
		}
		if command == nodev1.Command_COMMAND_START {
			p.awaits("links", func() bool {
				return !slices.ContainsFunc(p.nodes, func(n nodev1.NodeClient) bool {
					r, err := n.Report(p.ctx, &nodev1.ReportRequest{})
					return err != nil || slices.Contains(r.GetLostPeers(), name)
				})
			})
			if err := s.IncludeRU(name); err != nil {
				p.t.Fatal(err)
			}
		}
		if _, err := p.nodes[rank].Command(p.ctx, one); err != nil {
			p.t.Fatalf("%s: %v: %v", name, command, err)
		}
	}
}

// checkRejoined holds that parts are missing of the MEPs that the readout unit was gone for, and of no others.
func (p *pair) checkRejoined(s *tagnet.Server, rank int) {
	p.t.Helper()
	reg := s.Registers()
	gone := reg.Rus[rank].Gone
	if c := reg.Counters; c.Issued != c.Built || reg.InFlight != 0 {
		p.t.Errorf("not everything was built once: %+v", c)
	}
	last, marked := gone[len(gone)-1], uint64(0)
	for i := range p.nodes {
		r := p.report(i)
		marked += r.GetCounters()["bu.meps_marked"]
		for _, m := range r.GetMissing() {
			if int(m.GetRuIndex()) != rank || m.GetLastMep() >= last.BackMep {
				p.t.Errorf("n%d: missing are %+v, and it was back from MEP %d on", i, m, last.BackMep)
			}
		}
		if st := r.GetStatus(); st.GetState() != "Ready" || len(r.GetLostPeers()) != 0 || st.GetDegraded() {
			p.t.Errorf("n%d: %v, lost %v", i, st, r.GetLostPeers())
		}
		if c := r.GetCounters(); c["node.bad_signals"]+c["node.writes_refused"]+c["node.malformed"]+c["bu.rejected"]+
			c["bu.announce_refused"]+c["ru.refused"] > 0 {
			p.t.Errorf("n%d: something was refused: %v", i, c)
		}
	}
	var least uint64
	for _, g := range gone {
		least += g.BackMep - g.FromMep
	}
	if marked < least || marked >= reg.Counters.Built {
		p.t.Errorf("%d MEPs marked of %d, of which it was gone for %d", marked, reg.Counters.Built, least)
	}
}
