package main

import (
	"slices"
	"testing"

	"ringlet/ecs/partition/nodes"
	"ringlet/testkit/cases"
)

// Every epoch has one holder, and every readout unit keeps its last phases, under each barrier, with windows for each
// MEP and with pre-granted ones.
func TestReportListsThePhases(t *testing.T) {
	const units = 3
	for name, args := range cases.Select(t, map[string][]string{
		"central":       {"--phase-end", "central", "--packing", "500", "--phase-slack", "0"},
		"tournament":    {"--phase-end", "tournament", "--packing", "500", "--phase-slack", "0"},
		"dissemination": {"--phase-end", "dissemination", "--packing", "500", "--phase-slack", "0"},
		"slack":         {"--packing", "50"},
		"small MEPs":    {"--packing", "1", "--slots", "300", "--phase-slack", "0"},
		"small, slack":  {"--packing", "1", "--slots", "300"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.start(append([]string{"run", "--nodes", "3", "--events", "6000", "--json", "--run-number", s.run},
				args...)...)
			p.ends(0)
			p.holds("accounting_ok=true", "phase_skew_us.max>0", "barrier_us.max>0", "barrier_share<1")
			if slices.Contains(args, "--phase-slack") { // with slack nobody may have had to wait
				p.holds("barrier_share>0")
			}
			object := p.report()
			epochs := 0.0
			for _, h := range object["holders"].([]any) {
				epochs += h.(map[string]any)["epochs"].(float64)
			}
			phases := object["counters"].([]any)[0].(map[string]any)["counters"].(map[string]any)["ru.phases"]
			if epochs != phases {
				t.Errorf("%v epochs had a holder, of %v", epochs, phases)
			}
			kept, steps := object["timeline"].([]any), int(min(phases.(float64), 24))
			if len(kept) != units*steps {
				t.Fatalf("%d steps are kept", len(kept))
			}
			for i, k := range kept {
				k := k.(map[string]any)
				times := []float64{0, k["begin_us"].(float64), k["sent_us"].(float64), k["released_us"].(float64)}
				if times[0] > times[1] || times[1] > times[2] || times[2] > times[3] ||
					k["epoch"] != phases.(float64)-float64(steps-i%steps) {
					t.Errorf("of %v phases: %v", phases, k)
				}
			}
			s.nothingLeft()
		})
	}
	t.Run("nobody waits", func(t *testing.T) {
		t.Parallel()
		s := newSession(t)
		p := s.start("run", "--nodes", "2", "--phase-end", "none", "--events", "4000", "--packing", "500", "--json",
			"--run-number", s.run)
		p.ends(0)
		p.holds("phase_skew_us.max=0", "barrier_us.max=0", "barrier_share=0")
		object := p.report()
		if h := object["holders"].([]any); len(h) != 0 {
			t.Errorf("held by %v", h)
		}
		s.nothingLeft()
	})
}

func TestHoldersAsWords(t *testing.T) {
	of := func(node string, epochs, by int64) nodes.BarrierHolder {
		return nodes.BarrierHolder{Node: node, Epochs: epochs, ByUs: nodes.Quantiles3{P50: by}}
	}
	for want, all := range map[string][]nodes.BarrierHolder{
		"n3 100 % by 1.2ms": {of("n3", 7, 1200)},
		"n3 50 % by 1.2ms, n0 30 % by 80µs, n1 15 % by 0s, 1 more": {of("n3", 10, 1200), of("n0", 6, 80), of("n1", 3, 0),
			of("n2", 1, 5)},
	} {
		if got := topHolders(all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
