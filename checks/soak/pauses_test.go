package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// TestPauses holds that a plan of pauses strikes once, for 1 to 30 s, and never the node of the scheduler or one with
// two units; and that the program takes its settings, which tolerate that.
func TestPauses(t *testing.T) {
	kinds := map[kind]int{}
	drawn(env{Pauses: true}, func(seed uint64, r plannedRun) {
		if !reflect.DeepEqual(r, planRun(seed, r.Index, env{Pauses: true})) {
			t.Fatalf("seed %d, run %d: it is another one the second time", seed, r.Index)
		}
		cfg := config.Default()
		if err := cfg.Apply(append(slices.Clone(r.Settings), "output=/there/")); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Complete(); err != nil {
			t.Fatalf("seed %d, run %d: %v", seed, r.Index, err)
		}
		if r.Index%faultlessEvery == 0 {
			if len(r.Faults) > 0 {
				t.Errorf("seed %d, run %d has %v", seed, r.Index, r.Faults)
			}
			return
		}
		f := r.Faults[0]
		kinds[f.Kind]++
		readout, builder := cfg.LossPolicies()
		if len(r.Faults) > 1 || f.Duration < time.Second || f.Duration > longestPause || f.At+f.Duration >= r.Length ||
			f.Node == "n0" || cfg.RUs+cfg.BUs != cfg.Nodes || !readout.Tolerates(cfg.RUs-1) || !builder.Tolerates(cfg.BUs-1) {
			t.Errorf("seed %d, run %d: %+v", seed, r.Index, r)
		}
	})
	if len(kinds) != 3 {
		t.Errorf("drawn are %v", kinds)
	}
}

// TestJudgePauses: a run must end since it was told to, and lose nobody but who stood still.
func TestJudgePauses(t *testing.T) {
	pause := plannedRun{Faults: []fault{{Kind: stopBuilder, Node: "n3"}}}
	lost := func(who string) string { return `{"losses":[{"of":"` + who + `","unit":"units"}]}` }
	for name, c := range map[string]struct {
		end, report string
		verdict     ecsv1.Verdict
		says        string
	}{
		"good":             {"stopped", "{}", ecsv1.Verdict_VERDICT_GOOD, ""},
		"who stood still":  {"stopped", lost("n3"), ecsv1.Verdict_VERDICT_DEGRADED, ""},
		"another one":      {"stopped", lost("n1"), ecsv1.Verdict_VERDICT_DEGRADED, "n1 is lost, and n3 stood still"},
		"it was ended":     {"fault", "{}", ecsv1.Verdict_VERDICT_ABORTED, "not as it was asked to"},
		"nodes ended it":   {"control_lost", "{}", ecsv1.Verdict_VERDICT_GOOD, "not as it was asked to"},
		"it is incomplete": {"stopped", "{}", ecsv1.Verdict_VERDICT_INCOMPLETE, "for a pause that it tolerates"},
	} {
		run := &ecsv1.Run{Number: 1, End: c.end, Verdict: c.verdict, ReportJson: c.report}
		problems := strings.Join(judgePauses(pause, &trial{Runs: []*ecsv1.Run{run}}), "; ")
		if (c.says == "") != (problems == "") || !strings.Contains(problems, c.says) {
			t.Errorf("%s: %q, not %q", name, problems, c.says)
		}
	}
	if problems := judgePauses(pause, &trial{}); len(problems) != 1 {
		t.Errorf("without a run: %v", problems)
	}
}
