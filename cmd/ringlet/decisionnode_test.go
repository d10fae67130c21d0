package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ringlet/recording"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// A decision unit that was killed in a run, and whose process somebody starts again, decides on what is triggered from
// then on. Nothing else notices, but for a readout unit of the same node.
func TestKilledDecisionUnitComesBack(t *testing.T) {
	for name, args := range cases.Select(t, map[string][]string{
		"by itself": {"--nodes", "5", "--rus", "2", "--transport", "auto"},
		"while regions are judged": {"--nodes", "5", "--rus", "2", "--transport", "auto", "--discipline", "pull",
			"--roi", "0:0.3"},
		"with a readout unit": {"--rus", "3", "--readout-loss", "at-least 2 of 3"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			const victim = "n2"
			names := []string{"n0", "n1", victim, "n3", "n4"}
			s.certs("keys", names...)
			port := s.port()
			there := map[string]*program{}
			for _, n := range names {
				there[n] = s.startNode(n, "keys", port)
			}
			c := s.start(append([]string{"control", "--once", "--certs", "keys", "--port", port, "--bus", "2",
				"--decision-node", victim, "--json", "--run-number", s.run, "--duration", "10m", "--output", "out/",
				"--rate", "20000", "--packing", "400", "--decision-timeout", "10s"}, args...)...)
			eventually(t, "the run builds", func() bool { return s.indexed() > 4*recording.HeaderBytes })
			s.more()
			s.signal(there[victim].cmd.Process.Pid, syscall.SIGKILL)
			eventually(t, "the loss is told", func() bool { return strings.Contains(c.err.String(), "goes on without n") })
			s.more()
			there[victim] = s.startNode(victim, "keys", port)
			eventually(t, "the return is told", func() bool { return strings.Contains(c.err.String(), "is back in the run") })
			s.more()
			s.signal(c.cmd.Process.Pid, syscall.SIGINT)
			c.ends(0)
			c.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0",
				"degraded=true", "decisions.first>0", "decisions.accepted>0")
			for _, n := range there {
				_ = n.cmd.Process.Signal(syscall.SIGTERM)
				patiently.Receive(t, n.ended)
			}
			s.nothingLeft("keys", "out")
		})
	}
}

// A readout unit that stands still for a while holds up no decision but those that its own data are missing for, and
// hears the rest when it goes on. Parts of rejected MEPs are given up meanwhile by the others, and nothing is missed.
func TestSuspendedReadoutUnitReceivesDecisions(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.startRun("out/", "--nodes", "5", "--rus", "2", "--bus", "2", "--decision-node", "n2", "--decision-timeout",
		"30s", "--discipline", "pull", "--roi", "0:0.3")
	victim := s.node("n1")
	s.signal(victim, syscall.SIGSTOP)
	eventually(t, "it stands still", func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(victim) + "/stat")
		return err == nil && strings.Contains(string(b), ") T ")
	})
	s.signal(victim, syscall.SIGCONT)
	s.more()
	s.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.ends(0)
	p.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0",
		"decisions.readout.told>0", "decisions.readout.unheard=0")
	s.nothingLeft("out")
	p.found("out/")
}
