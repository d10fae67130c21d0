package nodes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"ringlet/ecs/partition/fault"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// reportSequence is a node that answers with its reports in turn, the last one for ever.
type reportSequence struct {
	nodev1.NodeClient
	reports *[]*nodev1.Report
}

func (n reportSequence) Report(context.Context, *nodev1.ReportRequest, ...grpc.CallOption) (*nodev1.Report, error) {
	all := *n.reports
	if len(all) > 1 {
		*n.reports = all[1:]
	}
	return all[0], nil
}

// TestAwaitLink holds that a node has told of its link when it has answered so, and a report that it gave unasked and
// later says so as well: one that was under way would make the other node lost once more.
func TestAwaitLink(t *testing.T) {
	report := func(at int64, lost ...string) *nodev1.Report { return &nodev1.Report{AtUs: at, LostPeers: lost} }
	for name, c := range map[string]struct {
		answers   []*nodev1.Report
		unasked   *nodev1.Report // that comes after a second; before it there is an old one
		confirmed bool
	}{
		"both":               {[]*nodev1.Report{report(5, "n1"), report(6)}, report(7), true},
		"lost still":         {[]*nodev1.Report{report(5, "n1")}, report(7), false},
		"an old report":      {[]*nodev1.Report{report(6)}, report(6), false},
		"lost again":         {[]*nodev1.Report{report(6)}, report(7, "n1"), false},
		"lost, but not that": {[]*nodev1.Report{report(6, "n2")}, report(7, "n2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &member{name: "n0", client: reportSequence{reports: &c.answers}, report: report(4)}
				time.AfterFunc(time.Second, func() { m.storeReport(c.unasked) })
				ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
				defer cancel()
				began := time.Now()
				if err := m.awaitLink(ctx, "n1"); (err == nil) != c.confirmed {
					t.Errorf("it has told: %v", err)
				}
				if c.confirmed && time.Since(began) < time.Second {
					t.Error("nobody waited for the report that it gives unasked")
				}
			})
		})
	}
}

// TestNobodyComesBack holds who cannot come back, and that the sentence says why.
func TestNobodyComesBack(t *testing.T) {
	nodeSet := NewNodeSet(Options{}, config.Completed{})
	r := &Run{NodeSet: nodeSet}
	r.units = &units{run: r}
	loss, err := config.ParseLoss("expendable", 3)
	if err != nil {
		t.Fatal(err)
	}
	nodeSet.faults.updateCore(func(c *fault.Core) {
		c.SetView([]fault.Unit{{Node: "r0", Readout: true}, {Node: "r1", Readout: true}, {Node: "b0", Builder: true},
			{Node: "b1", Builder: true}}, "", loss, loss)
		c.BeginRun()
		for _, name := range []string{"r1", "b1"} {
			c.Observe(fault.Observation{Kind: fault.ProcessEndSeen, Fault: fault.SeenByControl(name, fault.SubsystemProcess,
				"its process was killed")})
		}
	})
	for node, want := range map[string]string{
		"r0": "r0 is not lost to this run",
		"r1": "",
		"b1": "",
		"x":  "the view has no node called x",
	} {
		said := ""
		if err := r.MayReadmit(node); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%s: %q, want %q", node, said, want)
		}
	}
	r.state.Phase = ecsrun.Draining
	if err := r.MayReadmit("r1"); err == nil {
		t.Error("a node may come back in a run that ends")
	}
}
