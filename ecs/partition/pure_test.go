package partition_test

import (
	"strings"
	"testing"
	"time"

	"ringlet/ecs/partition"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestSelectMembers(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		absent string
		there  string // of members; empty: refused
		says   string
		shape  [3]int
	}{
		"everybody": {"nodes: 3\n", "", "n0,n1,n2", "", [3]int{3, 3, 3}},
		"one of the essential": {"nodes: 3\n", "n1", "",
			"readout-loss: 2 of 3 readout units are there, and the policy is essential (n1: it left)", [3]int{}},
		"one that may be lost": {"nodes: 3\nreadout-loss: at-least 2 of 3\nbuilder-loss: expendable\n", "n1", "n0,n2",
			"", [3]int{2, 2, 2}},
		"two of which one may": {"nodes: 3\nreadout-loss: at-least 2 of 3\nbuilder-loss: expendable\n", "n1,n2", "",
			"readout-loss: 1 of 3", [3]int{}},
		"a builder": {"rus: 2\nbus: 3\nbuilder-loss: at-least 2 of 3\n", "n4", "n0,n1,n2,n3", "",
			[3]int{4, 2, 2}},
		"a builder that is essential": {"rus: 2\nbus: 3\n", "n4", "", "builder-loss: 2 of 3", [3]int{}},
		"a readout unit": {"rus: 2\nbus: 3\nreadout-loss: expendable\n", "n0", "n1,n2,n3,n4", "",
			[3]int{4, 1, 3}},
		"one with a seat": {"nodes: 3\nseats: 2,1,0\nreadout-loss: expendable\nbuilder-loss: expendable\n", "n1", "n0,n2",
			"", [3]int{2, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Compose("x.yaml", []byte(c.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range cfg.Roles() {
				names = append(names, r.Name)
			}
			var absent []partition.Absent
			for _, a := range strings.FieldsFunc(c.absent, func(r rune) bool { return r == ',' }) {
				absent = append(absent, partition.Absent{Name: a, Why: "it left"})
			}
			got, there, err := partition.SelectMembers(cfg, names, absent)
			if c.there == "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%v, %v", there, err)
				}
				return
			}
			if err != nil || strings.Join(there, ",") != c.there || [3]int{got.Nodes, got.RUs, got.BUs} != c.shape {
				t.Errorf("%v of %d nodes, %d readout and %d builder units: %v", there, got.Nodes, got.RUs, got.BUs, err)
			}
		})
	}
}

func TestRecoveryIsBounded(t *testing.T) {
	bound := config.RecoveryBound{MaxTimes: 2, Within: 10 * time.Minute}
	now := time.Unix(100_000, 0)
	var before []time.Time
	var answers []bool
	for _, after := range []time.Duration{
		0, time.Minute, 2 * time.Minute, 10*time.Minute + time.Second, 10*time.Minute + 2*time.Second,
	} {
		at := now.Add(after)
		again, counting := partition.Allowance(bound, before, at)
		answers = append(answers, again)
		if before = counting; again {
			before = append(before, at)
		}
	}
	for i, want := range []bool{true, true, false, true, false} {
		if answers[i] != want {
			t.Errorf("fault %d: recovered %v", i+1, answers[i])
		}
	}
	if again, _ := partition.Allowance(config.RecoveryBound{}, nil, now); again {
		t.Error("never is sometimes")
	}
}

func TestVerdicts(t *testing.T) {
	for want, r := range map[ecsv1.Verdict]nodes.Report{
		ecsv1.Verdict_VERDICT_GOOD:       {AccountingOK: true},
		ecsv1.Verdict_VERDICT_DEGRADED:   {AccountingOK: true, Degraded: true},
		ecsv1.Verdict_VERDICT_INCOMPLETE: {AccountingOK: true, Degraded: true, EventsAbandoned: 1},
		ecsv1.Verdict_VERDICT_ABORTED:    {AccountingOK: true, GivenUp: true},
	} {
		if got := partition.Verdict(&r); got != want {
			t.Errorf("%v, not %v", got, want)
		}
	}
}
