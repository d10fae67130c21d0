package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"ringlet/testkit/cases"
)

// A link breaks between two runs, since the process of a node stood still for too long: the nodes tell it, and the
// next start makes the links anew by itself, whether a run would tolerate the loss of the node or not.
func TestALinkBreaksBetweenRuns(t *testing.T) {
	unlessShort(t)
	for name, args := range cases.Select(t, map[string][]string{
		"essential": {"--nodes", "3"},
		"tolerated": {"--rus", "1", "--bus", "2", "--builder-loss", "at-least 1 of 2"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			names := []string{"n0", "n1", "n2"}
			s.certs("keys", names...)
			port := s.port()
			c := s.serve(port, append(args, "--packing", "500", "--rate", "20000")...)
			var nodes []*program
			for _, n := range names {
				nodes = append(nodes, s.startNode(n, "keys", port))
			}
			for _, n := range nodes {
				eventually(t, "the node is there",
					func() bool { return strings.Contains(n.err.String(), "waiting for the control") })
			}
			c.must("load", "configure")
			victim := nodes[2].cmd.Process.Pid
			s.signal(victim, syscall.SIGSTOP)
			eventually(t, "the broken link is told", func() bool { return strings.Contains(c.tree(), "link to n2") })
			s.signal(victim, syscall.SIGCONT)
			eventually(t, "the node answers again", func() bool { return !strings.Contains(c.tree(), "does not answer") })
			c.must("start")
			eventually(t, "events are built", func() bool { return c.built() > 0 })
			c.must("stop")
			if runs := c.runs(); len(runs) != 1 || runs[0] != "1 GOOD stopped" {
				t.Errorf("the runs are %q", runs)
			}
			if tree := c.tree(); strings.Contains(tree, "link to") {
				t.Errorf("after a run over new links: %s", tree)
			}
			for _, p := range append(nodes, c.program) {
				s.signal(p.cmd.Process.Pid, syscall.SIGTERM)
				p.ends(0)
			}
			s.nothingLeft("keys", "state")
		})
	}
}

// tree is what the partition tells of its components.
func (c *served) tree() string {
	c.t.Helper()
	var st struct{ Root json.RawMessage }
	c.call("GET", "/v1/status", nil, &st)
	return string(st.Root)
}
