package main

import (
	"strings"
	"testing"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func goodRun() *ecsv1.Run {
	return &ecsv1.Run{
		Number:      7,
		Verdict:     ecsv1.Verdict_VERDICT_GOOD,
		End:         "stopped",
		EventsBuilt: 100,
		Accounts:    []*ecsv1.Account{{Name: "MFPs sent = placed", Left: 3, Right: 3, Ok: true}},
		ReportJson:  `{"events_triggered":100,"events_built":100,"recorded":{"events":100}}`,
	}
}

// TestJudge: what is wrong is found, by each of its rules.
func TestJudge(t *testing.T) {
	kill := fault{Kind: killBuilder, Node: "n4"}
	killed := &ecsv1.Cause{Component: "n4", What: "its process has ended"}
	for _, c := range []struct {
		name   string
		change func(*ecsv1.Run, *runReading, *plannedRun, *trial)
		want   string // part of the problems; empty: none
	}{
		{"good", nil, ""},
		{"accounts", func(r *ecsv1.Run, _ *runReading, _ *plannedRun, _ *trial) {
			r.Accounts[0].Right, r.Accounts[0].Ok = 2, false
		}, "GOOD, and MFPs sent = placed is 3 on one side and 2 on the other"},
		{"outcomes", func(r *ecsv1.Run, _ *runReading, _ *plannedRun, _ *trial) {
			r.ReportJson = `{"events_triggered":101,"events_built":100}`
		}, "101 events were triggered, and 100 have an outcome"},
		{"two answers", func(r *ecsv1.Run, f *runReading, _ *plannedRun, _ *trial) {
			r.EventsBuilt, f.foundEvents = 99, 99
		}, "the record says 99 events built, its report 100"},
		{"lost", func(_ *ecsv1.Run, f *runReading, _ *plannedRun, _ *trial) {
			f.foundEvents = 99
		}, "100 events are reported as built, 99 are in the output"},
		{"more than told", func(_ *ecsv1.Run, f *runReading, _ *plannedRun, _ *trial) {
			f.foundEvents = 101
		}, "100 events are reported as built, 101 are in the output"},
		{"lost by a fault", func(r *ecsv1.Run, f *runReading, p *plannedRun, tr *trial) {
			r.Verdict, r.Cause, f.foundEvents = ecsv1.Verdict_VERDICT_ABORTED, killed, 99
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, "only 99 are in the output"},
		{"safe in the files, and not told", func(r *ecsv1.Run, f *runReading, p *plannedRun, tr *trial) {
			r.Verdict, r.Cause, r.EventsBuilt = ecsv1.Verdict_VERDICT_ABORTED, killed, 90
			r.ReportJson = `{"events_triggered":100,"events_built":90,"events_abandoned":10,"recorded":{"events":100}}`
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, ""},
		{"lost with the memory, and said so", func(r *ecsv1.Run, f *runReading, p *plannedRun, tr *trial) {
			r.Verdict, f.foundEvents, p.Policy.Durability = ecsv1.Verdict_VERDICT_INCOMPLETE, 99, "memory"
			r.Accounts[0].Ok = false
			r.ReportJson = `{"events_triggered":100,"events_built":100,"recorded":{"events":99}}`
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, ""},
		{"lost with the memory, and balanced", func(r *ecsv1.Run, f *runReading, p *plannedRun, tr *trial) {
			r.Verdict, f.foundEvents, p.Policy.Durability = ecsv1.Verdict_VERDICT_DEGRADED, 99, "memory"
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, "only 99 are in the output"},
		{"more than there was", func(r *ecsv1.Run, f *runReading, p *plannedRun, tr *trial) {
			r.Verdict, f.foundEvents = ecsv1.Verdict_VERDICT_DEGRADED, 101
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, "100 events were triggered, 101 are in the output"},
		{"nobody could tell what there was", func(r *ecsv1.Run, _ *runReading, p *plannedRun, tr *trial) {
			r.Verdict, r.EventsBuilt, r.ReportJson = ecsv1.Verdict_VERDICT_INCOMPLETE, 0, `{"events_triggered":0}`
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, "the record says that 0 events are in the output, and 100 are"},
		{"never read", func(r *ecsv1.Run, f *runReading, p *plannedRun, tr *trial) {
			r.Verdict, r.Cause, r.Unread = ecsv1.Verdict_VERDICT_ABORTED, killed, []string{"n3", "n4"}
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, "the output of n3, n4 was never read"},
		{"aborted, and nobody says why", func(r *ecsv1.Run, _ *runReading, p *plannedRun, tr *trial) {
			r.Verdict = ecsv1.Verdict_VERDICT_ABORTED
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, "ABORTED, and it does not say why"},
		{"hung", func(r *ecsv1.Run, _ *runReading, p *plannedRun, tr *trial) {
			r.Verdict = ecsv1.Verdict_VERDICT_ABORTED
			r.Cause = &ecsv1.Cause{What: "told to stop, and nothing has moved for 1m5s"}
			p.Faults, tr.FaultsMade = []fault{kill}, []fault{kill}
		}, "it hung: told to stop"},
		{"no reason", func(r *ecsv1.Run, _ *runReading, _ *plannedRun, _ *trial) {
			r.Verdict, r.Cause = ecsv1.Verdict_VERDICT_ABORTED, &ecsv1.Cause{Component: "n1", What: "it is gone"}
		}, "ABORTED, and nothing happened that excuses it: stopped: n1: it is gone"},
		{"no run", func(_ *ecsv1.Run, _ *runReading, _ *plannedRun, tr *trial) { tr.Runs = nil }, "no fault, and no run"},
		{"manifest", func(_ *ecsv1.Run, f *runReading, _ *plannedRun, _ *trial) { f.withoutVerdict = 2 },
			"2 manifests have no verdict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, f := goodRun(), runReading{foundEvents: 100}
			plan, trial := plannedRun{Policy: policy{Durability: "file"}}, trial{Runs: []*ecsv1.Run{run}, AllFaultsInRun: true}
			if c.change != nil {
				c.change(run, &f, &plan, &trial)
			}
			got := strings.Join(append(judgeTrial(plan, &trial), judgeFound(plan, run, f)...), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
