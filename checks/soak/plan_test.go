package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/node/config"
	"ringlet/testkit/cases"
)

var everything = env{Network: true, Filter: true, Mounts: true}

// drawn are runs of several seeds.
func drawn(env env, visit func(seed uint64, r plannedRun)) {
	for seed := range cases.Count[uint64](20, 5) {
		for i := range 100 {
			visit(seed, planRun(seed, i, env))
		}
	}
}

// TestPlanIsItsSeed: the same seed gives the same run, whatever was drawn before, and another seed gives another.
func TestPlanIsItsSeed(t *testing.T) {
	different, all := 0, 0
	drawn(everything, func(seed uint64, r plannedRun) {
		all++
		if again := planRun(seed, r.Index, everything); !reflect.DeepEqual(r, again) {
			t.Fatalf("seed %d, run %d is %+v and %+v", seed, r.Index, r, again)
		}
		if !reflect.DeepEqual(r, planRun(seed+1, r.Index, everything)) {
			different++
		}
	})
	if different < all-all/200 {
		t.Errorf("only %d of %d runs differ from those of the next seed", different, all)
	}
}

// TestPlansAreTaken: the program takes every planned configuration, and the units are where the faults look for them.
func TestPlansAreTaken(t *testing.T) {
	drawn(everything, func(seed uint64, r plannedRun) {
		cfg := config.Default()
		if err := cfg.Apply(append(slices.Clone(r.Settings), "output=/there/")); err != nil {
			t.Fatalf("seed %d, run %d: %v: %v", seed, r.Index, r.Settings, err)
		}
		if err := cfg.Complete(); err != nil {
			t.Fatalf("seed %d, run %d: %v: %v", seed, r.Index, r.Settings, err)
		}
		readouts, builders := map[string]bool{}, map[string]bool{}
		for rank, role := range cfg.Roles() {
			readouts[name(rank)] = role.RU != config.NoUnit
			builders[name(rank)] = role.BU != config.NoUnit
		}
		for _, f := range r.Faults {
			switch {
			case strings.HasSuffix(string(f.Kind), "builder") && !builders[f.Node],
				strings.HasSuffix(string(f.Kind), "readout") && !readouts[f.Node]:
				t.Fatalf("seed %d, run %d: %s: it has no such unit: %v", seed, r.Index, f, r.Settings)
			case strings.HasSuffix(string(f.Kind), "scheduler") && f.Node != cfg.TagnetNode:
				t.Fatalf("seed %d, run %d: %s: the scheduler lives on %s", seed, r.Index, f, cfg.TagnetNode)
			case strings.HasSuffix(string(f.Kind), "decision") && f.Node != cfg.DecisionNode:
				t.Fatalf("seed %d, run %d: %s: the decision unit lives on %s", seed, r.Index, f, cfg.DecisionNode)
			}
		}
	})
}

// TestEveryKindIsPlanned where it can be made, and no other.
func TestEveryKindIsPlanned(t *testing.T) {
	for _, env := range []env{{}, {Mounts: true}, {Network: true}, everything} {
		seen := map[kind]int{}
		drawn(env, func(_ uint64, r plannedRun) {
			for _, f := range r.Faults {
				seen[f.Kind]++
				if f.Node == f.UnreachablePeer && f.Node != "" {
					t.Errorf("%s: from a node to itself", f)
				}
				if f.Kind == diskFull && r.Place != smallDiskFiles {
					t.Errorf("%s: the output is %s", f, r.Place)
				}
			}
		})
		for _, w := range faultWeights {
			possible := (!w.network || env.Network) && (!w.filter || env.Filter) && (!w.mount || env.Mounts)
			if (seen[w.kind] > 0) != possible {
				t.Errorf("%+v: %s is drawn %d times, and is possible: %v", env, w.kind, seen[w.kind], possible)
			}
		}
	}
}

// TestSomeRunsExcuseNothing: enough runs are there in which only a GOOD end will do.
func TestSomeRunsExcuseNothing(t *testing.T) {
	gentle, none, all := 0, 0, 0
	drawn(everything, func(_ uint64, r plannedRun) {
		all++
		if len(r.Faults) == 0 {
			none++
		}
		if r.mustEndGood() {
			gentle++
		}
	})
	if none < all/10 || gentle < none+all/15 {
		t.Errorf("%d runs without a fault, %d with gentle ones or none, of %d", none, gentle, all)
	}
}

func TestTimeline(t *testing.T) {
	cut := fault{
		Kind:     cut,
		Node:     "n1",
		At:       time.Second,
		Duration: 2 * time.Second,
	}
	kill := fault{Kind: killBuilder, Node: "n2", At: 1500 * time.Millisecond}
	stop := fault{Kind: stopControl, At: 0, Duration: time.Second}
	got := withStop(timeline([]fault{stop, cut, kill}), 2*time.Second)
	want := []action{
		{At: 0, Fault: stop},
		{At: time.Second, Fault: stop, Ends: true},
		{At: time.Second, Fault: cut},
		{At: 1500 * time.Millisecond, Fault: kill},
		{At: 2 * time.Second},
		{At: 3 * time.Second, Fault: cut, Ends: true},
	}
	// What happens at the same moment has the order of the faults.
	if !slices.EqualFunc(got, want, func(a, b action) bool { return a == b }) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

func TestNetRules(t *testing.T) {
	for _, c := range []struct {
		fault fault
		want  string
	}{
		{fault{Kind: cut, Node: "n1"}, `iifname "n1" drop; oifname "n1" drop`},
		{fault{Kind: cutIn, Node: "n1"}, `oifname "n1" drop`},
		{fault{Kind: cutOut, Node: "n1"}, `iifname "n1" drop`},
		{fault{Kind: cutPair, Node: "n1", UnreachablePeer: "n3"}, `iifname "n1" oifname "n3" drop`},
		{fault{Kind: cutControl}, `iifname "control" drop; oifname "control" drop`},
		{
			fault{Kind: loss, Node: "n0", Percent: 2},
			`iifname "n0" numgen random mod 100 < 2 drop; oifname "n0" numgen random mod 100 < 2 drop`,
		},
		{
			fault{Kind: reorder, Node: "n0", Percent: 3},
			`iifname "n0" numgen random mod 100 < 3 meta priority set 10:2; ` +
				`oifname "n0" numgen random mod 100 < 3 meta priority set 10:2`,
		},
	} {
		if got := strings.Join(netRules([]fault{c.fault}, "10:2"), "; "); got != c.want {
			t.Errorf("%s: %s, want %s", c.fault.Kind, got, c.want)
		}
	}
	if got := netRules([]fault{{Kind: cutIn, Node: "n1"}, {Kind: cutOut, Node: "n2"}}, "10:2"); len(got) != 2 {
		t.Errorf("two faults at a time: %v", got)
	}
}
