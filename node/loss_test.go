package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ringlet/barrier"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// lossConfig is a run of 3 readout and 3 builder units without end, which tolerates the loss of builder units.
func lossConfig(t *testing.T, change func(*config.Config)) config.Config {
	t.Helper()
	c := config.Default()
	c.Nodes, c.RUs, c.BUs, c.Events, c.Packing, c.Verify, c.BuilderLoss = 6, 3, 3, 0, 20, config.VerifyFull,
		"at-least 1 of 3"
	c.Slots, c.Transport = 4, "quic"
	change(&c)
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if err := c.FitSlot(); err != nil {
		t.Fatal(err)
	}
	return c
}

// disciplines are all ways in which readout units may be told when to send.
var disciplines = map[string]func(*config.Config){
	"shift, barrier": func(c *config.Config) { c.PhaseEnd = "tournament" },
	"shift, count":   func(c *config.Config) { c.PhaseEnd = "count" },
	"shift, window":  func(c *config.Config) { c.PhaseEnd = "1ms" },
	"announced, barrier": func(c *config.Config) {
		c.PhaseEnd = "tournament"
		withoutPreGranted(c)
	},
	"announced, free": func(c *config.Config) {
		c.Discipline = "free"
		withoutPreGranted(c)
	},
	"shift, no barrier": func(c *config.Config) { c.PhaseEnd = "none" },
	"free":              func(c *config.Config) { c.Discipline = "free" },
	"push":              func(c *config.Config) { c.Discipline = "push" },
	"announced, push": func(c *config.Config) {
		c.Discipline = "push"
		withoutPreGranted(c)
	},
	"pull":           func(c *config.Config) { c.Discipline = "pull" },
	"shift, local":   func(c *config.Config) { c.Transport = "auto" },
	"tagring, local": func(c *config.Config) { c.Discipline, c.Transport = "tagring", "auto" },
	"tagring":        func(c *config.Config) { c.Discipline = "tagring" },
	"tagring, no bypass": func(c *config.Config) {
		c.Discipline = "tagring-wait"
	},
}

// withoutPreGranted makes slots too small for pre-granted windows, so that each MEP is given its own.
func withoutPreGranted(c *config.Config) {
	complete := *c
	if err := complete.Complete(); err != nil {
		panic(err)
	}
	_, high := complete.MEPSize(0)
	c.SlotSize = config.Bytes(high)
}

// begin takes all nodes to Running.
func (p *pair) begin(c config.Config) *tagnet.Server {
	p.t.Helper()
	return p.begun(c, upward...)
}

// begun gives all nodes these commands, with a scheduler of their own.
func (p *pair) begun(c config.Config, commands ...nodev1.Command) *tagnet.Server {
	p.t.Helper()
	sched, address := p.scheduler(c)
	req := &nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address}
	for _, cmd := range commands {
		req.Command = cmd
		p.must(req)
	}
	return sched
}

// awaits waits for a condition.
func (p *pair) awaits(what string, ok func() bool) {
	p.t.Helper()
	for !ok() {
		select {
		case <-p.ctx.Done():
			p.t.Fatalf("%s did not come", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// more waits until so many more MEPs are built.
func (p *pair) more(s *tagnet.Server, n uint64) {
	p.t.Helper()
	from := s.Registers().Counters.Built
	p.awaits(fmt.Sprintf("%d more MEPs", n), func() bool { return s.Registers().Counters.Built >= from+n })
}

// end drains the run and stops the nodes that are left.
func (p *pair) end(s *tagnet.Server) {
	p.t.Helper()
	s.Drain(0)
	select {
	case <-s.Drained():
	case <-p.ctx.Done():
		p.t.Fatalf("the run does not end: %+v", s.Registers())
	}
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP})
}

// checkAccounts closes the accounts of what is left: nothing is open, and each token came to an end at each readout
// unit.
func (p *pair) checkAccounts(s *tagnet.Server) {
	p.t.Helper()
	reg := s.Registers()
	c := reg.Counters
	if c.Issued != c.Built || c.EventsIssued != c.EventsBuilt || reg.InFlight != 0 {
		p.t.Errorf("not everything was built once: %+v", c)
	}
	for why, n := range c.Refused {
		if n > 0 && core.Reason(why) != core.NotNow {
			p.t.Errorf("the scheduler refused %d inputs: %v", n, core.Reason(why))
		}
	}
	for i, m := range p.view.GetMembers() {
		r := p.report(i)
		k := r.GetCounters()
		if r.GetStatus().GetState() != "Ready" {
			p.t.Errorf("%s is %v", m.GetName(), r.GetStatus())
		}
		if m.GetReadout() && (k["ru.tokens"] != c.Issued+c.Reissued ||
			k["ru.tokens"] != k["ru.writes"]+k["ru.withdrawn"]+k["ru.unasked"] ||
			k["ru.open"]+k["ru.left_writes"]+k["link.tx_used"] != 0) {
			p.t.Errorf("%s: %d tokens of %d, %d written, %d withdrawn, %d unasked; %d open, %d left, %d ids in use", m.GetName(),
				k["ru.tokens"],
				c.Issued+c.Reissued, k["ru.writes"], k["ru.withdrawn"], k["ru.unasked"], k["ru.open"], k["ru.left_writes"],
				k["link.tx_used"])
		}
		if bad := k["node.bad_signals"] + k["node.writes_refused"] + k["node.malformed"] + k["bu.strays"] + k["bu.rejected"] +
			k["bu.announce_refused"]; bad != 0 {
			p.t.Errorf("%s refused %d messages: %v", m.GetName(), bad, k)
		}
	}
}

// TestBuilderLost holds that a run goes on when a node with nothing but a builder unit ends without a word, whatever
// the discipline.
func TestBuilderLost(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const victim = 4
			p := newFarm(t, cluster.Readout, cluster.Readout, cluster.Readout, cluster.Builder, cluster.Builder, cluster.Builder)
			s := p.begin(lossConfig(t, change))
			p.more(s, 20)
			p.kill[victim]()
			e := patiently.Receive(t, p.lost)
			if e.Unit != "n4" || e.Incident != core.UnitLost || e.Role != core.Builder {
				t.Fatalf("the scheduler says %v", e)
			}
			if _, err := s.ExcludeBU(e.Unit); err != nil {
				t.Fatal(err)
			}
			p.more(s, 40)
			for i := range 3 {
				r := p.report(i)
				if st := r.GetStatus(); st.GetState() != "Running" || len(r.GetLostPeers()) != 1 || r.GetLostPeers()[0] != "n4" ||
					!st.GetDegraded() ||
					st.GetCause().GetComponent() != "n4" {
					t.Errorf("n%d: %v, lost %v", i, st, r.GetLostPeers())
				}
			}
			p.without(victim)
			p.end(s)
			p.checkAccounts(s)
		})
	}
}

// without forgets a node that has ended.
func (p *pair) without(rank int) {
	p.nodes = append(p.nodes[:rank], p.nodes[rank+1:]...)
	p.view = &nodev1.View{Number: p.view.GetNumber(), Members: slices.Delete(slices.Clone(p.view.GetMembers()), rank,
		rank+1)}
}

// TestBuilderExcludedAndIncluded takes the builder unit of a folded node out of a run and lets it come back, twice.
func TestBuilderExcludedAndIncluded(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFarm(t, folded, folded, folded)
			s := p.begin(lossConfig(t, func(c *config.Config) { c.Nodes = 3; change(c) }))
			for range 2 {
				p.more(s, 20)
				p.excludeBuilder(s, "n1", 1)
				p.more(s, 40)
				p.includeBuilder(s, "n1", 1)
			}
			p.end(s)
			p.checkAccounts(s)
			if k := p.report(1).GetCounters(); k["bu.exclusions"] != 2 {
				t.Errorf("n1 was excluded twice and counts %d", k["bu.exclusions"])
			}
			select {
			case e := <-p.lost:
				t.Error(e)
			default:
			}
		})
	}
}

// TestStartAgain holds that a run can follow another without a new configuration, with counters that begin anew, and
// that it ends as well as the first.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFarm(t, folded, folded)
			c := lossConfig(t, func(c *config.Config) {
				c.Nodes, c.RUs, c.BUs, c.Events, c.BuilderLoss = 2, 2, 2, 1990, "essential"
				change(c)
			})
			p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_LOAD})
			s := p.begun(c, nodev1.Command_COMMAND_CONFIGURE, nodev1.Command_COMMAND_START)
			for round := range 3 {
				select {
				case <-s.Drained():
				case <-p.ctx.Done():
					t.Fatalf("round %d does not end: %+v", round, s.Registers())
				}
				p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP})
				p.checkAccounts(s)
				p.checkComplete(s, 1990)
				if round == 2 {
					break
				}
				p.run++
				p.number-- // the same view
				s = p.begun(c, nodev1.Command_COMMAND_START)
			}
		})
	}
}

// checkComplete holds that all events of a run were built, and that writers and readers of links agree about this run
// alone.
func (p *pair) checkComplete(s *tagnet.Server, events uint64) {
	p.t.Helper()
	sums := map[string]uint64{}
	for i := range p.nodes {
		r := p.report(i)
		if r.GetRun() != p.run || !r.GetFinal() {
			p.t.Errorf("n%d reports run %d, final %v", i, r.GetRun(), r.GetFinal())
		}
		for name, n := range r.GetCounters() {
			sums[name] += n
		}
	}
	if c := s.Registers().Counters; c.EventsBuilt != events || c.Built != sums["bu.meps_built"] {
		p.t.Errorf("%d events in %d MEPs, %d by the builder units", c.EventsBuilt, c.Built, sums["bu.meps_built"])
	}
	if sums["ru.bytes_written"] != sums["link.bytes_placed"] ||
		sums["link.chunks_sent"]-sums["link.chunks_resent"] != sums["link.chunks_placed"] {
		p.t.Errorf("written %d placed %d bytes; sent %d, resent %d, placed %d chunks", sums["ru.bytes_written"],
			sums["link.bytes_placed"],
			sums["link.chunks_sent"], sums["link.chunks_resent"], sums["link.chunks_placed"])
	}
}

// TestPause holds that a paused run stands still in good order, longer than its barrier waits, and goes on.
func TestPause(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFarmOf(t, Config{LeaveGrace: time.Minute}, folded, folded) // no barrier waits longer than configured
			c := lossConfig(t, func(c *config.Config) {
				c.Nodes, c.RUs, c.BUs, c.BuilderLoss = 2, 2, 2, "essential"
				change(c)
			})
			pause := 50 * time.Millisecond
			if c.BarrierKind() != barrier.None {
				// which a busy machine does not need from one phase to the next
				c.Debug.BarrierTimeout = patiently.Scaled(3 * time.Second)
				pause += c.Debug.BarrierTimeout
			}
			s := p.begin(c)
			p.more(s, 20)
			if err := s.Pause(); err != nil {
				t.Fatal(err)
			}
			p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_PAUSE})
			p.awaits("quiet", func() bool { return s.Registers().InFlight == 0 })
			before := s.Registers().Counters.Issued
			time.Sleep(pause) // longer than the barrier waits
			if n := s.Registers().Counters.Issued; n != before {
				t.Errorf("%d MEPs were issued in a pause", n-before)
			}
			p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESUME})
			if err := s.Resume(); err != nil {
				t.Fatal(err)
			}
			p.more(s, 20)
			p.end(s)
			p.checkAccounts(s)
		})
	}
}
