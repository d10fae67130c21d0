package nodes

import (
	"strings"
	"testing"

	"ringlet/ecs/partition/fault"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// The accounts of decisions close where each event number has one, and say what they leave out where a process was
// lost.
func TestDecisionAccounts(t *testing.T) {
	reg := &core.Registers{Counters: &tagnetv1.Counters{Issued: 10}}
	good := Decisions{
		Node:                "n1",
		Decided:             970,
		NumbersWithoutEvent: 30,
		NoResult:            20,
		ResultsLate:         15,
		ResultsDoubled:      2,
		ResultsImpossible:   1,
		Readout:             ReadoutDecisions{Received: 1900, Confirmed: 1900, ForEndedReadouts: 40},
	}
	sums := map[string]uint64{"dec.results_taken": 980, "bu.results_sent": 998}
	for _, tt := range []struct {
		change func(*Decisions, map[string]uint64)
		checks int
		bad    string // name of a check that fails
		said   string
	}{
		{func(*Decisions, map[string]uint64) {}, 6, "", ""},
		{func(d *Decisions, _ map[string]uint64) { d.Decided++ }, 6, "event numbers triggered", ""},
		{func(d *Decisions, _ map[string]uint64) { d.ResultsDoubled-- }, 6, "results sent", ""},
		{func(d *Decisions, _ map[string]uint64) { d.NoResult++ }, 6, "decisions by a result", ""},
		{func(_ *Decisions, s map[string]uint64) { s["dec.pending"] = 1 }, 6, "events that wait", ""},
		{func(d *Decisions, _ map[string]uint64) { d.First, d.Decided = 500, 470 }, 2, "", "results sent"},
		{func(d *Decisions, _ map[string]uint64) { d.ResultsUnsent = 1 }, 4, "", "results sent"},
		{func(d *Decisions, _ map[string]uint64) { d.Readout.Received-- }, 6, "decisions told to readout", ""},
		{func(d *Decisions, _ map[string]uint64) { d.Readout.ForEndedReadouts = 39 }, 6, "decisions, for each", ""},
		{func(d *Decisions, _ map[string]uint64) {
			d.Readout.LeftOut, d.Readout.NotReceived, d.Readout.ForEndedReadouts = 50, 50, 0
		}, 5, "", ""},
		{func(d *Decisions, _ map[string]uint64) { d.Readout.Unconfirmed = 10 }, 4, "", "told to readout"},
		{func(d *Decisions, _ map[string]uint64) { d.NodeLost = true }, 0, "", "decisions, since n1 is lost"},
	} {
		d, s := good, map[string]uint64{}
		for k, v := range sums {
			s[k] = v
		}
		tt.change(&d, s)
		r := &Report{Packing: 100, RUs: 2, Decisions: &d}
		checks := r.decisionChecks(&accountSums{}, reg, countsIn(s))
		if len(checks) != tt.checks || (tt.said == "") != (len(r.NotChecked) == 0) {
			t.Errorf("%+v: %v, %v", d, checks, r.NotChecked)
		}
		failed := false
		for _, c := range checks {
			failed = failed || !c.OK && strings.HasPrefix(c.Name, tt.bad)
			if tt.bad == "" && !c.OK {
				t.Errorf("%+v: %v", d, c)
			}
		}
		if failed != (tt.bad != "") {
			t.Errorf("%+v: %v, and %q must fail", d, checks, tt.bad)
		}
		if tt.said != "" && !strings.Contains(strings.Join(r.NotChecked, " "), tt.said) {
			t.Errorf("%v does not say %q", r.NotChecked, tt.said)
		}
	}
	if r := (&Report{}); r.decisionChecks(&accountSums{}, reg, countsIn(sums)) != nil || r.decisionsLost() {
		t.Error("there is no decision unit, and something to check")
	}
}

// TestDecisionsOfTheDead: what a decision unit told last is marked as that where its process has ended, though no
// policy tolerated the loss and the run was given up.
func TestDecisionsOfTheDead(t *testing.T) {
	nodeSet := &NodeSet{faults: usualFaults(false), roster: roster{nodes: []*member{{name: "n1"}}}}
	r := &Run{NodeSet: nodeSet}
	r.cfg.DecisionNode = "n1"
	var before, after Report
	(&reporter{Run: r}).fillDecisions(&before, nil)
	nodeSet.faults.observe(fault.Observation{Kind: fault.ProcessVanished,
		Fault: fault.Fault{Component: "n1", What: "its process has ended"}})
	(&reporter{Run: r}).fillDecisions(&after, nil)
	if before.Decisions.NodeLost || !after.Decisions.NodeLost {
		t.Errorf("lost: %v before, %v after", before.Decisions.NodeLost, after.Decisions.NodeLost)
	}
}
