package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// TestNodeComesBack holds that a node that ended in a run takes part again as another process: what is built from its
// return on lacks nothing, and its builder unit builds again.
func TestNodeComesBack(t *testing.T) {
	t.Parallel()
	for what, farm := range map[string]struct {
		lost  cluster.Roles
		roles []cluster.Roles
	}{
		"readout": {cluster.Readout, []cluster.Roles{cluster.Readout, cluster.Readout, cluster.Readout, cluster.Builder,
			cluster.Builder, cluster.Builder}},
		"builder": {cluster.Builder, []cluster.Roles{cluster.Builder, cluster.Builder, cluster.Builder, cluster.Readout,
			cluster.Readout, cluster.Readout}},
		"folded": {folded, []cluster.Roles{folded, folded, folded}},
	} {
		for name, change := range cases.Select(t, disciplines) {
			if strings.HasPrefix(name, "tagring") && farm.lost != cluster.Builder {
				continue // tags pass through every readout unit
			}
			t.Run(what+", "+name, func(t *testing.T) {
				t.Parallel()
				victim := len(name) % 3
				p := newFarm(t, farm.roles...)
				c := lossConfig(t, func(c *config.Config) {
					change(c)
					c.Nodes, c.BuilderLoss, c.ReadoutLoss = len(farm.roles), "at-least 2 of 3", "at-least 2 of 3"
				})
				s, address := p.scheduler(c)
				req := &nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address}
				p.bringUp(req)
				p.more(s, 20)
				for times := range cases.Count(2, 1) {
					p.kill[victim]()
					p.excludeLost(s, victim, farm.lost)
					p.more(s, 40)
					p.revive(s, req, victim, farm.lost)
					p.more(s, 40)
					p.checkReturn(s, victim, farm.lost, times+1)
				}
				p.end(s)
				p.checkRejoined(s, victim, farm.lost)
			})
		}
	}
}

// TestReadoutComesBackWhileBuilderExcluded holds that a builder unit which is excluded, and so hears nothing of the
// scheduler, lets the next process of a lost readout unit in, and builds with it once it is included; also when it was
// excluded while a readout unit was gone.
func TestReadoutComesBackWhileBuilderExcluded(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		if strings.HasPrefix(name, "tagring") {
			continue // tags pass through every readout unit
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const victim = 1
			p := newFarm(t, cluster.Readout, cluster.Readout, cluster.Readout, cluster.Builder, cluster.Builder, cluster.Builder)
			c := lossConfig(t, func(c *config.Config) {
				change(c)
				c.ReadoutLoss = "at-least 1 of 3"
			})
			s, address := p.scheduler(c)
			req := &nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address}
			p.bringUp(req)
			p.more(s, 20)
			p.excludeBuilder(s, "n4", 4)
			for range 2 { // the builder unit hears of both losses and returns at once
				p.kill[victim]()
				p.excludeLost(s, victim, cluster.Readout)
				p.revive(s, req, victim, cluster.Readout)
				p.more(s, 20)
			}
			p.includeBuilder(s, "n4", 4)
			p.kill[victim]()
			p.excludeLost(s, victim, cluster.Readout)
			p.more(s, 20)
			p.excludeBuilder(s, "n4", 4)
			p.includeBuilder(s, "n4", 4)
			p.revive(s, req, victim, cluster.Readout)
			p.more(s, 40)
			p.checkReturn(s, victim, cluster.Readout, 3)
			p.end(s)
			p.checkRejoined(s, victim, cluster.Readout)
		})
	}
}

// excludeBuilder excludes the builder unit of a node, and waits until it knows.
func (p *pair) excludeBuilder(s *tagnet.Server, name string, rank int) {
	p.t.Helper()
	before := p.report(rank).GetCounters()["bu.exclusions"]
	if _, err := s.ExcludeBU(name); err != nil {
		p.t.Fatal(err)
	}
	p.awaits("the exclusion", func() bool { return p.report(rank).GetCounters()["bu.exclusions"] > before })
}

// includeBuilder includes the builder unit of a node, and waits for its MEPs.
func (p *pair) includeBuilder(s *tagnet.Server, name string, rank int) {
	p.t.Helper()
	p.awaits("the inclusion of "+name, func() bool {
		err := s.IncludeBU(name)
		if err != nil && !errors.Is(err, core.NotNow) {
			p.t.Fatal(err)
		}
		return err == nil
	})
	bu := p.view.GetMembers()[rank].GetBuIndex()
	p.awaits("the return of "+name, func() bool { b := s.Registers().Bus[bu]; return !b.Excluded && b.Attached })
	built := s.Registers().Bus[bu].Counters.Built
	p.awaits("MEPs of "+name, func() bool { return s.Registers().Bus[bu].Counters.Built > built+10 })
}

// excludeLost waits until the scheduler has lost all units of a node, and excludes them.
func (p *pair) excludeLost(s *tagnet.Server, rank int, roles cluster.Roles) {
	p.t.Helper()
	name := p.view.GetMembers()[rank].GetName()
	for lost := cluster.Roles(0); lost != roles; {
		e := patiently.Receive(p.t, p.lost)
		if e.Unit != name || e.Incident != core.UnitLost {
			p.t.Fatalf("the scheduler says %v", e)
		}
		if e.Role == core.Readout {
			lost |= cluster.Readout
		} else {
			lost |= cluster.Builder
		}
	}
	if roles.Contains(cluster.Readout) {
		if err := s.ExcludeRU(name); err != nil {
			p.t.Fatal(err)
		}
	}
	if roles.Contains(cluster.Builder) {
		if _, err := s.LoseBU(name); err != nil {
			p.t.Fatal(err)
		}
	}
}

// checkReturn holds that the scheduler gives the units of a node work again.
func (p *pair) checkReturn(s *tagnet.Server, rank int, roles cluster.Roles, times int) {
	p.t.Helper()
	m := p.view.GetMembers()[rank]
	if roles.Contains(cluster.Readout) {
		if gone := s.Registers().Rus[m.GetRuIndex()].Gone; len(gone) != times || !gone[times-1].Back {
			p.t.Fatalf("the registers say %+v", gone)
		}
	}
	if roles.Contains(cluster.Builder) {
		p.awaits("a MEP of its builder unit", func() bool { return p.report(rank).GetCounters()["bu.meps_built"] > 0 })
		if b := s.Registers().Bus[m.GetBuIndex()]; b.GetLost() || b.GetExcluded() {
			p.t.Errorf("the registers say %v", b)
		}
	}
}

// revive starts the process of a node again and takes it into the run.
func (p *pair) revive(s *tagnet.Server, req *nodev1.CommandRequest, rank int, roles cluster.Roles) {
	p.t.Helper()
	patiently.Receive(p.t, p.gone[rank])
	name := p.view.GetMembers()[rank].GetName()
	before := p.view.GetMembers()[rank].GetQuicAddress()
	p.launch(rank, roles)
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
			if roles.Contains(cluster.Readout) {
				if err := s.IncludeRU(name); err != nil {
					p.t.Fatal(err)
				}
			}
			if roles.Contains(cluster.Builder) {
				if err := s.ReadmitBU(name); err != nil {
					p.t.Fatal(err)
				}
			}
		}
		if _, err := p.nodes[rank].Command(p.ctx, one); err != nil {
			p.t.Fatalf("%s: %v: %v", name, command, err)
		}
	}
}

// checkRejoined holds that parts are missing of the MEPs that a node's readout unit was gone for, and of no others.
func (p *pair) checkRejoined(s *tagnet.Server, rank int, roles cluster.Roles) {
	p.t.Helper()
	reg := s.Registers()
	if c := reg.Counters; c.Issued != c.Built || reg.InFlight != 0 {
		p.t.Errorf("not everything was built once: %+v", c)
	}
	gone := []*tagnetv1.Gone{{}} // for no MEP
	if roles.Contains(cluster.Readout) {
		gone = reg.Rus[p.view.GetMembers()[rank].GetRuIndex()].Gone
	}
	last, marked := gone[len(gone)-1], uint64(0)
	for i := range p.nodes {
		r := p.report(i)
		marked += r.GetCounters()["bu.meps_marked"]
		for _, m := range r.GetMissing() {
			if m.GetRuIndex() != p.view.GetMembers()[rank].GetRuIndex() || m.GetLastMep() >= last.BackMep {
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
	if marked < least && !roles.Contains(cluster.Builder) || marked >= reg.Counters.Built { // its marks end with it
		p.t.Errorf("%d MEPs marked of %d, of which it was gone for %d", marked, reg.Counters.Built, least)
	}
}

// TestVacatedUntilTheUnitIsBack holds that a node whose process ends after it has made its links, and before the
// scheduler has its units take part again, may link at once another time: the scheduler says nothing new of it.
func TestVacatedUntilTheUnitIsBack(t *testing.T) {
	var l losses
	l.begin()
	l.add(2)
	l.setUnitOver(2, core.Readout, true)
	l.setUnitOver(2, core.Builder, true)
	if left := l.remove(2); left != 0 {
		t.Errorf("%d links are down, want 0", left)
	}
	if !l.isUnitOver(2, core.Readout) || !l.isUnitOver(2, core.Builder) {
		t.Error("the new link alone says that units of this node take part again")
	}
	l.setUnitOver(2, core.Builder, false)
	if !l.isUnitOver(2, core.Readout) || l.isUnitOver(2, core.Builder) {
		t.Error("the builder unit is back, and this is not what is recorded")
	}
}

// TestVacatedForTheDecisionUnit holds that a node with the decision unit alone lets a lost node link again: it deals
// with none of its units, and the scheduler tells it nothing of them. A builder unit waits until it has finished with
// them.
func TestVacatedForTheDecisionUnit(t *testing.T) {
	members := []*nodev1.Member{
		{Name: "n0", Rank: 0, Readout: true}, {Name: "n1", Rank: 1}, {Name: "n2", Rank: 2, Builder: true},
	}
	for _, self := range members[1:] {
		a := &assignment{view: &nodev1.View{Members: members}, self: self, decisionRank: 1}
		s := &session{base: base{assignment: a}}
		if vacated := s.isVacated(0); vacated != (self.GetName() == "n1") {
			t.Errorf("%s has finished with n0: %v", self.GetName(), vacated)
		}
	}
}

// TestDecisionUnitComesBackToANewProcess holds that a node which came into the run while the decision unit's was lost
// lets that link: it has never had a link to it.
func TestDecisionUnitComesBackToANewProcess(t *testing.T) {
	members := []*nodev1.Member{{Name: "n0", Rank: 0, Readout: true, Builder: true}, {Name: "n1", Rank: 1}}
	s := &session{base: base{assignment: &assignment{view: &nodev1.View{Members: members}, self: members[0],
		decisionRank: 1}, losses: losses{}}}
	if s.isVacated(1) {
		t.Error("it lets another process link while it has a link")
	}
	s.losses.add(1)  // by configure, which names who is lost
	s.losses.begin() // by start
	if !s.isVacated(1) {
		t.Error("it does not let the decision unit's node link")
	}
}
