package node

import (
	"strings"
	"testing"
	"time"

	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/testkit/patiently"
)

// TestTwoControls has a second control with the same certificate come into a run: from then on nodes and scheduler
// obey it alone, the first is told so, by its streams and by each call, and the run does not notice.
func TestTwoControls(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	older, newer := tagnet.Term{Number: 5, Holder: "the control on a"}, tagnet.Term{Number: 6, Holder: "the control on b"}
	message := func(t tagnet.Term) *nodev1.Term { return &nodev1.Term{Number: t.Number, Holder: t.Holder} }
	scope, req := p.hostScheduler(slowRun(t, t.TempDir()+"/", time.Hour))
	scope.Term, req.Term = older, message(older)
	p.bringUp(req)
	watch, err := p.nodes[0].Watch(p.ctx, &nodev1.WatchRequest{Term: message(older)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	first := tagnet.NewRemote(p.conns[0], tagnet.RemoteConfig{Scope: scope, OnGone: func(err error) { gone <- err }})
	defer first.Close()
	if err := first.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := first.Resume(); err != nil {
		t.Fatal(err)
	}
	// The other control meets the nodes, and takes over by that.
	for i, n := range p.nodes {
		r, err := n.Report(p.ctx, &nodev1.ReportRequest{Term: message(newer)})
		if err != nil || r.GetTerm().GetNumber() != 6 || r.GetTerm().GetHolder() != newer.Holder || r.GetTermSinceUs() == 0 {
			t.Errorf("n%d obeys %v, %v", i, r.GetTerm(), err)
		}
	}
	for err == nil {
		_, err = watch.Recv()
	}
	stop := &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Abandon: true, Term: message(older)}
	_, reported := p.nodes[1].Report(p.ctx, &nodev1.ReportRequest{Term: message(older)})
	_, nobody := p.nodes[1].Report(p.ctx, &nodev1.ReportRequest{})
	_, figures := first.Stats()
	for what, err := range map[string]error{
		"watch": err, "stop": p.command(stop)[1], "report": reported, "drain": first.Drain(0), "abandon": first.Abandon(),
		"figures": figures,
		"notices": patiently.Receive(t, gone), "end": tagnet.EndScheduler(p.ctx, p.conns[0], scope),
	} {
		f := tagnet.AsFencedError(err)
		if f == nil || f.Current != newer || f.Term != older || time.Since(f.Since) > time.Hour ||
			!strings.Contains(f.Error(),
				"the control on b has term 6 since") {
			t.Errorf("%s of the older control: %v", what, err)
		}
	}
	if tagnet.AsFencedError(nobody) == nil {
		t.Errorf("a control without a term: %v", nobody)
	}
	// The run goes on as if nothing had happened, and obeys the newer one.
	scope.Term, req.Term = newer, message(newer)
	second := tagnet.NewRemote(p.connect(0), tagnet.RemoteConfig{Scope: scope})
	defer second.Close()
	before := p.observe(1).GetCounters()["bu.meps_built"]
	r := p.until(1, "building on", func(r *nodev1.Report) bool { return r.GetCounters()["bu.meps_built"] > before+5 })
	if st := r.GetStatus(); st.GetState() != "Running" || st.GetDegraded() || r.GetCounters()["node.calls_fenced"] == 0 {
		t.Errorf("n1 is %v, and has fenced off %d calls", st, r.GetCounters()["node.calls_fenced"])
	}
	if err := second.Drain(0); err != nil {
		t.Fatal(err)
	}
	stats := p.drained(second)
	req.Command = nodev1.Command_COMMAND_STOP
	p.must(req)
	if c := stats.Registers.Counters; c.Built == 0 || c.Built != c.Issued || c.EventsBuilt != c.EventsIssued {
		t.Errorf("the accounts do not balance: %+v", c)
	}
}
