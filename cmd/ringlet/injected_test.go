package main

import (
	"strings"
	"testing"

	"ringlet/testkit/cases"
)

// TestDamageIsFoundAndRepaired runs with damage of each kind: everything is built exactly, and what was damaged is what
// was refused.
func TestDamageIsFoundAndRepaired(t *testing.T) {
	for name, run := range cases.Select(t, map[string]struct{ transport, damage string }{
		"headers":             {"quic", "header=1e-3"},
		"bodies":              {"quic", "body=1e-3"},
		"epochs":              {"quic", "epoch=1e-3"},
		"epochs of a library": {"quic-go", "epoch=1e-3"},
		"epochs of a stream":  {"stream", "epoch=1e-3"},
		"tables":              {"quic", "table=1e-2"},
		"tables of a library": {"quic-go", "table=1e-2"},
		"tables of a stream":  {"stream", "table=1e-2"},
		"all":                 {"quic", "header=1e-3,body=1e-3,epoch=1e-3,table=1e-3"},
		"headers and bodies":  {"quic", "header=1e-2,body=1e-2"},
		"a ten thousandth":    {"quic", "header=1e-4,body=1e-4"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.start("run", "--nodes", "3", "--duration", "2s", "--transport", run.transport, "--verify", "full",
				"--debug-damage", run.damage, "--json", "--run-number", s.run)
			p.ends(0)
			p.holds("accounting_ok=true", "end_cause=duration")
			sums := sumsOf(t, p.report())
			packets := sums["link.damaged_headers"] + sums["link.damaged_bodies"]
			refused := sums["socket.quic_forged"] + sums["socket.quic_replayed"] + sums["socket.quic_unknown_key"] +
				sums["socket.quic_malformed"]
			if packets != refused {
				t.Errorf("%v packets damaged, %v refused: %v", packets, refused, sums)
			}
			// A datagram that was sent may be lost where the socket overflows.
			epochs, stale := sums["link.damaged_epochs"], sums["link.datagrams_stale"]
			if stale > epochs || epochs > stale+sums["socket.kernel_drops"] {
				t.Errorf("%v datagrams of another view sent, %v refused: %v", epochs, stale, sums)
			}
			rows, looks := sums["link.damaged_tables"], 0.0
			for name, n := range sums {
				if strings.HasPrefix(name, "table.violations.") {
					looks += n
				}
			}
			if rows != looks {
				t.Errorf("%v rows of tables damaged, %v look-ups refused: %v", rows, looks, sums)
			}
			t.Logf("%v packets damaged, %v epochs, %v rows", packets, epochs, rows)
			s.nothingLeft()
		})
	}
}

// sumsOf adds the counters of all nodes of a report.
func sumsOf(t *testing.T, report map[string]any) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	nodes, _ := report["counters"].([]any)
	for _, n := range nodes {
		node, _ := n.(map[string]any)
		counters, _ := node["counters"].(map[string]any)
		for name, v := range counters {
			f, _ := v.(float64)
			sums[name] += f
		}
	}
	if len(sums) == 0 {
		t.Fatal("the report has no counters")
	}
	return sums
}
