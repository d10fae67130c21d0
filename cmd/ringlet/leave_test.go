package main

import (
	"strings"
	"syscall"
	"testing"

	"ringlet/testkit/cases"
)

// SIGTERM to the node of a healthy builder unit does what its exclusion does: its output is whole, nobody counts a
// loss, and the run goes on.
func TestBuilderEndsOnSigterm(t *testing.T) {
	for name, shape := range cases.Select(t, map[string]struct {
		args   []string
		output string
		files  []string
	}{
		"a directory":   {[]string{"--transport", "quic"}, "out/", []string{"out"}},
		"tags, quic-go": {[]string{"--transport", "quic-go", "--discipline", "tagring"}, "out/", []string{"out"}},
		"one file":      {nil, "x.mep", merged("x.mep")},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.startRun(shape.output, append([]string{"--rus", "2", "--bus", "3", "--builder-loss", "at-least 2 of 3"},
				shape.args...)...)
			victim := s.node("n3")
			s.signal(victim, syscall.SIGTERM)
			eventually(t, "it has left",
				func() bool { return strings.Contains(p.err.String(), "has left the run in good order") })
			eventually(t, "its process has ended", func() bool { return syscall.Kill(victim, 0) != nil })
			s.signal(p.cmd.Process.Pid, syscall.SIGINT)
			p.ends(0)
			p.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0", "degraded=true")
			r := p.report()
			if r["first_loss"] != nil || strings.Contains(p.err.String(), "goes on without n") {
				t.Errorf("who left in good order is told as lost: %v", r["first_loss"])
			}
			counters := map[string]map[string]any{}
			for _, n := range r["counters"].([]any) {
				one := n.(map[string]any)
				counters[one["node"].(string)] = one["counters"].(map[string]any)
			}
			if n := counters["n3"]["bu.output_events"]; n == nil || n == 0. {
				t.Errorf("%v events are in the output of n3", n)
			}
			var written float64
			for _, c := range counters {
				if n, ok := c["bu.output_events"].(float64); ok {
					written += n
				}
			}
			if built := r["events_built"].(float64); written < built {
				t.Errorf("%v events are built, and %v written", built, written)
			}
			s.nothingLeft(shape.files...)
		})
	}
}

// A node that also holds a readout unit cannot leave a run without ending it: the run ends in good order, says for
// whom, and its output is whole.
func TestReadoutEndsOnSigterm(t *testing.T) {
	for name, args := range cases.Select(t,
		map[string][]string{"folded": {"--nodes", "3"}, "unfolded": {"--rus", "2", "--bus", "2"}}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.startRun("x.mep", args...)
			s.signal(s.node("n1"), syscall.SIGTERM)
			p.ends(0)
			p.holds("end_cause=node_leaving", "accounting_ok=true", "events_abandoned=0",
				"events_built>0")
			p.checkStderr("node=n1")
			r := p.report()
			if who, _ := r["leavers"].([]any); len(who) != 1 || who[0] != "n1" {
				t.Errorf("told to end: %v", r["leavers"])
			}
			if r["output_events"] != r["events_built"] {
				t.Errorf("%v events built, %v in the output", r["events_built"], r["output_events"])
			}
			s.nothingLeft(merged("x.mep")...)
			p.found("x.mep")
		})
	}
}
