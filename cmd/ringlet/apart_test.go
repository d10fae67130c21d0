package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/testkit/patiently"
	"ringlet/testkit/ports"
)

func (s *session) certs(dir string, names ...string) {
	s.t.Helper()
	p := s.start(append([]string{"certs", dir}, names...)...)
	p.ends(0)
}

// port is one for the gossip of the session's control.
func (s *session) port() string { return strconv.Itoa(ports.Reserve(s.t)) }

func (s *session) startNode(name, dir, port string) *program {
	s.t.Helper()
	return s.start("node", "--name", name, "--certs", dir, "--join", net.JoinHostPort("127.0.0.1", port))
}

func TestControlAndNodesApart(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "west", "east")
	port := s.port()
	west := s.startNode("west", "keys", port) // before the control is there
	control := func(events int, output string) *program {
		return s.start("control", "--once", "--certs", "keys", "--port", port, "--nodes", "2", "--events", fmt.Sprint(events),
			"--packing", "500",
			"--output", output, "--json", "--run-number", s.run)
	}
	c := control(5000, "one.mep")
	east := s.startNode("east", "keys", port)
	c.ends(0)
	c.holds("events_built=5000", "output_events=5000", "accounting_ok=true", "nodes=2")
	for _, n := range []*program{west, east} {
		n.checkStderr("waiting for the control")
		s.signal(n.cmd.Process.Pid, syscall.SIGTERM)
		n.ends(0)
	}

	// The same port, a new control, new nodes: a directory that is not there yet.
	west, east = s.startNode("west", "keys", port), s.startNode("east", "keys", port)
	c = control(3000, "two/")
	c.ends(0)
	c.holds("events_built=3000", "output_events=3000", "accounting_ok=true")
	for _, n := range []*program{west, east} {
		s.signal(n.cmd.Process.Pid, syscall.SIGTERM)
		n.ends(0)
	}
	s.nothingLeft(append(append([]string{"keys"}, merged("one.mep")...), "two")...)
}

// Nodes of another authority are refused: the gossip lets them in if they know its key, the handshake does not.
func TestNodeOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "a", "b")
	s.certs("others", "a", "b")
	gossip := filepath.Join(s.dir, "keys", "gossip.key")
	copyFile(t, gossip, filepath.Join(s.dir, "others", "gossip.key"))
	port := s.port()
	c := s.start("control", "--once", "--certs", "keys", "--port", port, "--nodes", "2", "--events", "100", "--patience",
		patiently.Scaled(30*time.Second).String(), "--json", "--run-number", s.run)
	a, b := s.startNode("a", "keys", port), s.startNode("b", "others", port)
	c.ends(1)
	c.holds("end_cause=fault", "events_triggered=0", "accounting_ok=false")
	c.checkStderr("b")
	if text := c.err.String(); !strings.Contains(text, "authority") {
		t.Errorf("it does not say why: %s", text)
	}
	for _, n := range []*program{a, b} {
		s.signal(n.cmd.Process.Pid, syscall.SIGTERM)
		n.ends(0)
	}
	s.nothingLeft("keys", "others")
}

func TestNodeWithAnotherGossipKey(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "a")
	s.certs("others", "b") // its own authority and gossip key
	port := s.port()
	c := s.start("control", "--once", "--certs", "keys", "--port", port, "--nodes", "2", "--events", "100", "--patience",
		patiently.Scaled(12*time.Second).String(), "--json", "--run-number", s.run)
	a := s.startNode("a", "keys", port)
	eventually(t, "the control is there",
		func() bool { return strings.Contains(a.err.String(), "waiting for the control") })
	b := s.startNode("b", "others", port)
	b.ends(1)
	b.checkStderr("b cannot join the cluster")
	b.checkStderr("its gossip key is not this node's")
	c.ends(1)
	c.holds("end_cause=fault")
	c.checkStderr("2 nodes are wanted, and only 1 have joined")
	c.checkStderr("level=WARN")
	s.signal(a.cmd.Process.Pid, syscall.SIGTERM)
	a.ends(0)
	s.nothingLeft("keys", "others")
}
