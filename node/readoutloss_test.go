package node

import (
	"testing"

	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// TestReadoutLost holds that a run goes on when a node with nothing but a readout unit ends without a word: its events
// are built, and what it would have had is missing.
func TestReadoutLost(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := len(name) % 3
			p := newFarm(t, cluster.Readout, cluster.Readout, cluster.Readout, cluster.Builder, cluster.Builder,
				cluster.Builder)
			c := lossConfig(t, func(c *config.Config) {
				change(c)
				c.BuilderLoss, c.ReadoutLoss = "essential", "at-least 2 of 3"
			})
			s := p.begin(c)
			p.more(s, 20)
			p.kill[victim]()
			e := patiently.Receive(t, p.lost)
			if e.Role != core.Readout || e.Incident != core.UnitLost {
				t.Fatalf("the scheduler says %v", e)
			}
			if err := s.ExcludeRU(e.Unit); err != nil {
				t.Fatal(err)
			}
			p.more(s, 40)
			p.without(victim)
			p.end(s)
			p.checkAccountsWithout(s, uint32(victim), c)
		})
	}
}

// checkAccountsWithout closes the accounts of what is left.
func (p *pair) checkAccountsWithout(s *tagnet.Server, lost uint32, c config.Config) {
	p.t.Helper()
	p.checkAccounts(s)
	var built, marked, placed, missing, events uint64
	for i := range p.nodes {
		r := p.report(i)
		k := r.GetCounters()
		built, marked = built+k["bu.meps_built"], marked+k["bu.meps_marked"]
		placed, missing = placed+k["bu.mfps_placed"], missing+k["bu.mfps_missing"]
		for _, m := range r.GetMissing() {
			if m.GetRuIndex() != lost || m.GetFirstMep() > m.GetLastMep() || m.GetMeps() != k["bu.meps_marked"] {
				p.t.Errorf("n%d: %+v, %d marked", i, m, k["bu.meps_marked"])
			}
			events += m.GetEvents()
		}
		if st := r.GetStatus(); st.GetState() != "Ready" || len(r.GetLostPeers()) != 1 || !st.GetDegraded() {
			p.t.Errorf("n%d: %v, lost %v", i, st, r.GetLostPeers())
		}
	}
	if marked < 40 || built <= marked || missing != marked*uint64(c.Division().SourceCount(int(lost))) ||
		events != marked*uint64(c.Packing) || placed+missing != built*uint64(c.Division().Sources()) {
		p.t.Errorf("%d built, %d of them marked; %d MFPs placed, %d missing; %d events", built, marked, placed, missing,
			events)
	}
}
