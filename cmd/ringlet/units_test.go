package main

import (
	"strings"
	"syscall"
	"testing"

	"ringlet/recording"
)

// A process with two nodes that is killed is lost in one sentence, and both nodes come back with it.
func TestProcessOfTwoNodesComesBack(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.start("run", "--nodes", "4", "--units", "2", "--builder-loss", "at-least 2 of 4", "--readout-loss",
		"at-least 2 of 4", "--rate", "10000", "--packing", "400", "--duration", "10m", "--json", "--output", "out/",
		"--run-number", s.run, "--verbose")
	eventually(t, "the run builds", func() bool { return s.indexed() > 4*recording.HeaderBytes })
	s.more()
	s.signal(s.node("n1"), syscall.SIGKILL)
	eventually(t, "both are back", func() bool {
		return strings.Contains(p.err.String(), `"a node is back in the run" node=n1 process=n1 `) &&
			strings.Contains(p.err.String(), `"a node is back in the run" node=n1.1 process=n1.1 `)
	})
	if n := strings.Count(p.err.String(), "the run goes on without"); n != 1 ||
		!strings.Contains(p.err.String(), "the run goes on without n1 and n1.1: their process ") {
		t.Errorf("the loss is told %d times", n)
	}
	s.more()
	s.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.ends(0)
	p.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0", "degraded=true", "events_marked>0")
}

func TestPortsOfAProcess(t *testing.T) {
	for name, c := range map[string]struct {
		cmd  nodeCmd
		says string // empty: it is accepted
	}{
		"any":                {nodeCmd{Units: 4}, ""},
		"one behind another": {nodeCmd{Units: 4, DataPort: 7000, ServicePort: 7000, GossipPort: 7004}, ""},
		"data meet gossip":   {nodeCmd{Units: 4, DataPort: 7000, GossipPort: 7003}, "--data-port"},
		"gossip meets data":  {nodeCmd{Units: 4, DataPort: 7003, GossipPort: 7000}, "--data-port"},
		"service and gossip": {nodeCmd{Units: 2, ServicePort: 7000, GossipPort: 7001}, "--service-port"},
		"beyond the last":    {nodeCmd{Units: 2, GossipPort: 65535}, "--gossip-port"},
		"no node":            {nodeCmd{}, "--units"},
		"too many":           {nodeCmd{Units: 17}, "--units"},
	} {
		err := c.cmd.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), c.says+":") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
