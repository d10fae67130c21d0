package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/internal/netns"
	"ringlet/testkit/patiently"
)

// hosts are network namespaces whose interfaces end at the ports of one switch. The run control sits at the switch.
type hosts struct {
	*session
	hub   *netns.Namespace
	ends  []*netns.Namespace
	nodes []*program
}

const hubAddr, hostAddr = "10.99.8.254", "10.99.8.%d"

func newHosts(t *testing.T, n int) *hosts {
	t.Helper()
	if err := netns.CheckSupported(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	h := &hosts{session: newSession(t)}
	namespace := func() *netns.Namespace {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ns.Close() })
		return ns
	}
	h.hub = namespace()
	h.ip("link", "add", "name", "switch", "type", "bridge")
	h.ip("addr", "add", hubAddr+"/24", "dev", "switch")
	h.ip("link", "set", "dev", "switch", "up")
	for i := range n {
		h.ends = append(h.ends, namespace())
		a := netns.Interface{Namespace: h.ends[i], Name: "eth", Addr: fmt.Sprintf(hostAddr, i+1) + "/24"}
		if err := netns.Connect(a, netns.Interface{Namespace: h.hub, Name: port(i)}); err != nil {
			t.Fatal(err)
		}
		h.ip("link", "set", "dev", port(i), "master", "switch")
	}
	return h
}

func port(host int) string { return fmt.Sprintf("port%d", host) }

// ip changes something at the switch.
func (h *hosts) ip(args ...string) {
	h.t.Helper()
	if err := h.hub.IP(args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hosts) cut(host int)  { h.t.Helper(); h.ip("link", "set", "dev", port(host), "down") }
func (h *hosts) heal(host int) { h.t.Helper(); h.ip("link", "set", "dev", port(host), "up") }

// startIn starts ringlet at a host.
func (h *hosts) startIn(ns *netns.Namespace, args ...string) *program {
	return h.startCommand("nsenter", append([]string{"--net=" + ns.Path(), "ringlet"}, args...)...)
}

// dial connects from the switch.
func (h *hosts) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = h.hub.Do(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// up starts a node at every host, n0 and so on, and the run control.
func (h *hosts) up(args ...string) *served {
	h.t.Helper()
	names, addrs := []string{"certs", "keys"}, []string{"--host", hubAddr}
	for i := range h.ends {
		names, addrs = append(names, fmt.Sprintf("n%d", i)), append(addrs, "--host", fmt.Sprintf(hostAddr, i+1))
	}
	h.start(append(names, addrs...)...).ends(0)
	for i, ns := range h.ends {
		h.nodes = append(h.nodes, h.startIn(ns, "node", "--name", fmt.Sprintf("n%d", i), "--certs", "keys", "--host",
			fmt.Sprintf(hostAddr, i+1), "--join", hubAddr+":7946"))
	}
	c := h.enter(h.startIn(h.hub, append([]string{
		"control", "--certs", "keys", "--host", hubAddr, "--port", "7946", "--state", "state", "--api", hubAddr + ":0",
		"--page", "127.0.0.1:0", "--patience", patiently.LongTimeout.String(),
	}, args...)...), dials(h.dial))
	for _, n := range h.nodes {
		eventually(h.t, "the node is there",
			func() bool { return strings.Contains(n.err.String(), "waiting for the control") })
	}
	return c
}

// down ends everybody in good order.
func (h *hosts) down(c *served) {
	h.t.Helper()
	for _, p := range append(h.nodes, c.program) {
		h.signal(p.cmd.Process.Pid, syscall.SIGTERM)
		p.ends(0)
	}
	h.nothingLeft("keys", "state")
}

// kept is what is asked of the record of a run.
type kept struct {
	Verdict, End string
	Nodes        []string
	Cause        struct{ Component, What, Evidence string }
}

func (c *served) record(run int) (r kept) {
	c.t.Helper()
	c.call("GET", fmt.Sprintf("/v1/runs/%d", run), nil, &r)
	return r
}

// A host whose network is cut: a builder unit is lost as if it were dead, and the run goes on; a readout unit ends it.
// Either time it is the host that was cut which is named, though it and its neighbours all lose links. Once the network
// is back it takes part in the next run.
func TestLinkIsCutAndHealed(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	const builder, readout = 3, 1
	h := newHosts(t, 4)
	c := h.up("--rus", "2", "--bus", "2", "--builder-loss", "at-least 1 of 2", "--packing", "500", "--rate", "20000")
	c.must("load", "configure", "start")
	eventually(t, "events are built", func() bool { return c.built() > 0 })

	h.cut(builder)
	eventually(t, "the loss is known", func() bool { return c.degraded() })
	before := c.built()
	eventually(t, "the run goes on", func() bool { return c.built() > before+20_000 })
	h.heal(builder)
	time.Sleep(time.Second) // what comes back now is too late for this run, and no harm to it
	c.must("stop")
	if r := c.record(1); r.Verdict != "VERDICT_DEGRADED" || r.Cause.Component != "n3" {
		t.Errorf("%+v", r)
	}

	c.must("reset")
	c.rejoined("n3")
	c.must("load", "configure", "start")
	eventually(t, "the second run builds", func() bool { _, run := c.state(); return run == 2 && c.built() > 0 })
	if c.degraded() {
		t.Error("n3 is back, and the run degraded")
	}
	h.cut(readout)
	eventually(t, "the run has ended", func() bool { st, _ := c.state(); return st == "Error" })
	eventually(t, "it is on record", func() bool { return c.record(2).Verdict != "VERDICT_UNSPECIFIED" })
	if r := c.record(2); r.Verdict != "VERDICT_ABORTED" || r.Cause.Component != "n1" || len(r.Nodes) != 4 {
		t.Errorf("%+v", r)
	}
	h.heal(readout)
	c.must("recover")
	c.rejoined("n1")
	c.must("load", "configure", "start")
	eventually(t, "the third run builds", func() bool { _, run := c.state(); return run == 3 && c.built() > 0 })
	c.must("stop")
	if r := c.record(3); r.Verdict != "VERDICT_GOOD" || len(r.Nodes) != 4 {
		t.Errorf("%+v", r)
	}
	c.must("reset", "unload")
	h.down(c)
}

// degraded says whether a unit is missing.
func (c *served) degraded() bool {
	c.t.Helper()
	var st struct{ Root struct{ Degraded bool } }
	c.call("GET", "/v1/status", nil, &st)
	return st.Root.Degraded
}

// rejoined forgets the configuration and waits until a node is in the cluster.
func (c *served) rejoined(name string) {
	c.t.Helper()
	c.must("unload")
	eventually(c.t, name+" is in the cluster", func() bool {
		var st struct {
			Root struct{ Children []struct{ Name string } }
		}
		c.call("GET", "/v1/status", nil, &st)
		here := func(name string) bool {
			return slices.ContainsFunc(st.Root.Children, func(n struct{ Name string }) bool { return n.Name == name })
		}
		// the gossip doubts the others, too, while one is cut off
		return here(name) && here("n0") && here("n1") && here("n2") && here("n3")
	})
}

// A pause that is longer than links believe a silent peer to live is none to them: the run goes on as if nothing had
// been.
func TestLongPause(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "n0", "n1", "n2")
	port := s.port()
	c := s.serve(port, "--nodes", "3", "--packing", "500", "--rate", "20000", "--transport", "quic")
	var nodes []*program
	for _, name := range []string{"n0", "n1", "n2"} {
		nodes = append(nodes, s.startNode(name, "keys", port))
	}
	for _, n := range nodes {
		eventually(t, "the node is there", func() bool { return strings.Contains(n.err.String(), "waiting for the control") })
	}
	c.must("load", "configure", "start")
	eventually(t, "events are built", func() bool { return c.built() > 0 })
	c.must("pause")
	time.Sleep(12 * time.Second) // the links' time is 5 s, that of a stall 10 s
	if st, _ := c.state(); st != "Paused" {
		t.Errorf("after the pause it is %s", st)
	}
	before := c.built()
	c.must("resume")
	eventually(t, "the run goes on", func() bool { return c.built() > before+10_000 })
	c.must("stop")
	if r := c.record(1); r.Verdict != "VERDICT_GOOD" {
		t.Errorf("%+v", r)
	}
	c.must("reset", "unload")
	for _, n := range append(nodes, c.program) {
		s.signal(n.cmd.Process.Pid, syscall.SIGTERM)
		n.ends(0)
	}
	s.nothingLeft("keys", "state")
}
