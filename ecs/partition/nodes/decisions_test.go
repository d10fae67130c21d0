package nodes

import (
	"strings"
	"testing"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet"
)

// The books of decisions close where each event number has one, and say what they leave out where a process was lost.
func TestDecisionAccounts(t *testing.T) {
	reg := &tagnet.Registers{Counters: &tagnetv1.Counters{Issued: 10}}
	good := Decisions{
		Node:       "n1",
		Decided:    970,
		Void:       30,
		NoResult:   20,
		Late:       15,
		Doubled:    2,
		Impossible: 1,
		Readout:    Hearing{Heard: 1900, Told: 1900, Ended: 40},
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
		{func(d *Decisions, _ map[string]uint64) { d.Doubled-- }, 6, "results sent", ""},
		{func(d *Decisions, _ map[string]uint64) { d.NoResult++ }, 6, "decisions by a result", ""},
		{func(_ *Decisions, s map[string]uint64) { s["dec.pending"] = 1 }, 6, "events that wait", ""},
		{func(d *Decisions, _ map[string]uint64) { d.First, d.Decided = 500, 470 }, 2, "", "results sent"},
		{func(d *Decisions, _ map[string]uint64) { d.Unsent = 1 }, 4, "", "results sent"},
		{func(d *Decisions, _ map[string]uint64) { d.Readout.Heard-- }, 6, "decisions told to readout", ""},
		{func(d *Decisions, _ map[string]uint64) { d.Readout.Ended = 39 }, 6, "decisions, for each", ""},
		{func(d *Decisions, _ map[string]uint64) {
			d.Readout.LeftOut, d.Readout.Missed, d.Readout.Ended = 50, 50, 0
		}, 5, "", ""},
		{func(d *Decisions, _ map[string]uint64) { d.Readout.Unheard = 10 }, 4, "", "told to readout"},
		{func(d *Decisions, _ map[string]uint64) { d.Lost = true }, 0, "", "decisions, since n1 is lost"},
	} {
		d, s := good, map[string]uint64{}
		for k, v := range sums {
			s[k] = v
		}
		tt.change(&d, s)
		r := &Report{Packing: 100, RUs: 2, Decisions: &d}
		checks := r.decided(&books{}, reg, s)
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
	if r := (&Report{}); r.decided(&books{}, reg, sums) != nil || r.decisionsLost() {
		t.Error("there is no decision unit, and something to check")
	}
}

// What is under way to a decision unit that was lost has no outcome yet, and is no fault of the run.
func TestResultsOnTheirWayToWhoIsLost(t *testing.T) {
	here := map[string]uint64{"link.tx_used": 8}
	for _, tt := range []struct {
		d    *Decisions
		open uint64
		said int
	}{
		{nil, 8, 0},
		{&Decisions{Node: "n2"}, 8, 0},
		{&Decisions{Node: "n2", Lost: true}, 0, 1},
	} {
		r := &Report{Decisions: tt.d}
		if got := r.transactions(here); got != tt.open || len(r.NotChecked) != tt.said {
			t.Errorf("%+v: %d are open, %v", tt.d, got, r.NotChecked)
		}
	}
}
