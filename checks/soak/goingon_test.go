package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// TestRunsThatMustGoOn: enough of the plan must go on, with each kind of loss; their policies tolerate what is struck,
// also by the program's own judgement, and their faults are over before the end.
func TestRunsThatMustGoOn(t *testing.T) {
	all, faults, spares := 0, map[kind]int{}, 0
	drawn(everything, func(seed uint64, r plannedRun) {
		if len(r.Faults) == 0 || !r.MustGoOn {
			return
		}
		all++
		if !r.tolerates() {
			t.Fatalf("seed %d, run %d: %v", seed, r.Index, r.Faults)
		}
		cfg := config.Default()
		if err := cfg.Apply(append(slices.Clone(r.Settings), "output=/there/")); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Complete(); err != nil {
			t.Fatal(err)
		}
		readout, builder := cfg.LossPolicies()
		if rus, bus := r.struckUnits(); !readout.Tolerates(cfg.RUs-len(rus)) || !builder.Tolerates(cfg.BUs-len(bus)) {
			t.Fatalf("seed %d, run %d: %v are lost with %v", seed, r.Index, r.Faults, r.Settings)
		}
		if cfg.Spares == config.SparesAuto {
			spares++
		}
		for _, f := range r.Faults {
			faults[f.Kind]++
			if f.At+f.Duration >= r.Length {
				t.Fatalf("seed %d, run %d: %s is not over after %v", seed, r.Index, f, r.Length)
			}
		}
	})
	if all < 200 || spares < all/20 {
		t.Errorf("%d runs must go on, %d with spares", all, spares)
	}
	for _, k := range []kind{
		killBuilder, killReadout, killFolded, killScheduler, killTwo, killSpare, stopFolded, stopScheduler, stopTwo,
		termBuilder, termReadout, termFolded, termScheduler, killControl, killDecision, exclude, move, cut,
	} {
		if faults[k] == 0 {
			t.Errorf("never: %s", k)
		}
	}
}

// TestTolerates holds what a run bears, and what it does not.
func TestTolerates(t *testing.T) {
	folded := unitLayout{nodes: 4, rus: 4, bus: 4, scheduler: "n0"}
	one := policy{ReadoutsLost: 1, BuildersLost: 1, Succession: true}
	long := 5 * time.Second
	for _, c := range []struct {
		name      string
		policy    policy
		faults    []fault
		tolerates bool
	}{
		{"a folded node", one, []fault{{Kind: killFolded, Node: "n2"}}, true},
		{"the same node twice", one,
			[]fault{{Kind: killFolded, Node: "n2"}, {Kind: stopFolded, Node: "n2", Duration: long}}, true},
		{"two of one", one, []fault{{Kind: killFolded, Node: "n2"}, {Kind: killFolded, Node: "n3"}}, false},
		{"two at once of one", one, []fault{{Kind: killTwo, Node: "n2", Second: "n3"}}, false},
		{"two that stand still shortly", one, []fault{{Kind: stopTwo, Node: "n2", Second: "n3", Duration: 1}}, true},
		{"its policies are essential", policy{}, []fault{{Kind: killFolded, Node: "n2"}}, false},
		{"the scheduler", one, []fault{{Kind: killScheduler, Node: "n0"}}, true},
		{"the scheduler as a folded node", one, []fault{{Kind: cut, Node: "n0", Duration: long}}, true},
		{"a scheduler without a successor", policy{ReadoutsLost: 1, BuildersLost: 1},
			[]fault{{Kind: killScheduler, Node: "n0"}}, false},
		{"the scheduler is told to end", one, []fault{{Kind: termScheduler, Node: "n0"}}, true},
		{"one without a successor is told to end", policy{ReadoutsLost: 1, BuildersLost: 1},
			[]fault{{Kind: termScheduler, Node: "n0"}}, false},
		{"a builder unit is excluded, and one is lost", one,
			[]fault{{Kind: exclude, Node: "n1", Duration: 1}, {Kind: killFolded, Node: "n2"}}, false},
		{"the control", policy{}, []fault{{Kind: killControl}}, true},
		{"the control, and a node", one, []fault{{Kind: killControl}, {Kind: killFolded, Node: "n2"}}, true},
		{"the control is away for long", one, []fault{{Kind: stopControl, Duration: long}}, false},
		{"a way in one direction", one, []fault{{Kind: cutIn, Node: "n2", Duration: long}}, false},
		{"everybody", one, []fault{{Kind: killEverybody}}, false},
		{"a spare", one, []fault{{Kind: killFolded, Node: "n2"}, {Kind: killSpare, Node: "n4"}}, true},
	} {
		r := plannedRun{Layout: folded, Policy: c.policy, Faults: c.faults}
		if r.tolerates() != c.tolerates {
			t.Errorf("%s: tolerated is %v", c.name, r.tolerates())
		}
	}
}

// TestJudgeGoingOn: what is wrong with a run that had to go on is found, by each rule.
func TestJudgeGoingOn(t *testing.T) {
	plan := plannedRun{
		Layout:   unitLayout{nodes: 4, rus: 4, bus: 4, scheduler: "n0"},
		Policy:   policy{Durability: "file", ReadoutsLost: 1, BuildersLost: 1},
		Faults:   []fault{{Kind: killFolded, Node: "n2"}},
		MustGoOn: true,
	}
	const back = `,"lacking":[{"node":"n2","gone":[{"back_mep":7}]}]`
	for name, c := range map[string]struct {
		change func(*ecsv1.Run, *trial)
		says   string
	}{
		"right": {func(*ecsv1.Run, *trial) {}, ""},
		"aborted": {func(r *ecsv1.Run, _ *trial) { r.End, r.Verdict = "fault", ecsv1.Verdict_VERDICT_ABORTED },
			"did not go on"},
		"incomplete": {func(r *ecsv1.Run, _ *trial) { r.Verdict = ecsv1.Verdict_VERDICT_INCOMPLETE },
			"INCOMPLETE, for faults that its policies bear"},
		"accounts": {func(r *ecsv1.Run, _ *trial) { r.Accounts[0].Ok = false }, "do not balance"},
		"an event is lost": {func(r *ecsv1.Run, _ *trial) {
			r.ReportJson = strings.Replace(r.GetReportJson(), `"recorded":{"events":100}`, `"recorded":{"events":99}`, 1)
		}, "100 events were triggered, and 99 are in the output"},
		"of another node": {func(r *ecsv1.Run, _ *trial) {
			r.ReportJson = strings.Replace(r.GetReportJson(), `"n2"`, `"n1"`, 1)
		}, "fragments of n1 are missing, which nothing struck"},
		"for ever": {func(r *ecsv1.Run, _ *trial) {
			r.ReportJson = strings.Replace(r.GetReportJson(), `{"back_mep":7}`, `{}`, 1)
		}, "does not say from which MEP on"},
		"not back": {func(_ *ecsv1.Run, tr *trial) { tr.NotBack = "n2: it is gone" }, "n2: it is gone"},
		"two runs": {func(r *ecsv1.Run, tr *trial) { tr.Runs = append(tr.Runs, r) }, "there are 2 runs"},
	} {
		run := goodRun()
		run.Verdict = ecsv1.Verdict_VERDICT_DEGRADED
		run.ReportJson = strings.TrimSuffix(run.GetReportJson(), "}") + back + "}"
		tr := trial{Runs: []*ecsv1.Run{run}, FaultsMade: plan.Faults, AllFaultsInRun: true}
		c.change(run, &tr)
		got := strings.Join(judgeTrial(plan, &tr), "; ")
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}
