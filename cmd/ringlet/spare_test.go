package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"ringlet/node/config"
	"ringlet/recording"
)

// A spare that ringlet run has started takes the units of a node that is killed; when it is killed, too, one of the two
// has them again.
func TestSpareOfARun(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.start("run", "--nodes", "2", "--spare-nodes", "1", "--spares", "auto", "--builder-loss", "at-least 1 of 2",
		"--readout-loss", "at-least 1 of 2", "--rate", "20000", "--packing", "400", "--duration", "10m", "--json",
		"--output", "out/", "--run-number", s.run, "--verbose")
	eventually(t, "the run builds", func() bool { return s.indexed() > 4*recording.HeaderBytes })
	for i, victim := range []string{"n1", "n2"} {
		s.more()
		s.signal(s.node(victim), syscall.SIGKILL)
		eventually(t, "n1 is back", func() bool {
			return strings.Count(p.err.String(), `"a node is back in the run" node=n1 process=`) == i+1
		})
	}
	if !strings.Contains(p.err.String(), `node=n1 process=n2`) {
		t.Error("the spare did not substitute")
	}
	s.more()
	s.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.ends(0)
	p.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0", "degraded=true", "events_marked>0")
}

func TestSpareNames(t *testing.T) {
	cfg, err := config.Compose("x", []byte("nodes: 3\nmembers: 'a,n3,b'"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := spareNames(cfg.Roles(), 2, 1); !slices.Equal(got, []string{"n4", "n5"}) {
		t.Errorf("spares of a, n3, b: %v", got)
	}
	if got := spareNames(cfg.Roles(), 3, 2); !slices.Equal(got, []string{"n2", "n2.1", "n4"}) {
		t.Errorf("spares of a, n3, b with two nodes in each process: %v", got)
	}
	for n, fits := range map[int]bool{-1: false, 0: true, maxSpareNodes: true, maxSpareNodes + 1: false} {
		c := runCmd{Spares: n, Units: 1}
		c.Config = config.Default()
		if err := c.Validate(); (err == nil) != fits {
			t.Errorf("%d spares: %v", n, err)
		}
	}
}
