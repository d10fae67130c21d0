package cluster

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"ringlet/internal/netns"
	"ringlet/testkit/patiently"
)

// quiet is how long after a failure gossip of it has been told as often as it is told.
const quiet = 2 * time.Second

// lan is a switch with a host on each port.
type lan struct {
	sw    *netns.Namespace
	hosts []*netns.Namespace
}

func newLAN(t *testing.T, hosts int) *lan {
	t.Helper()
	if why := netns.CheckSupported(); why != nil {
		t.Skipf("SKIPPED: no network namespaces here: %v", why)
	}
	make1 := func() *netns.Namespace {
		n, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	l := &lan{sw: make1()}
	l.ip(t, "link", "add", "br0", "type", "bridge")
	l.ip(t, "link", "set", "dev", "br0", "up")
	for i := range hosts {
		h := make1()
		l.hosts = append(l.hosts, h)
		port := fmt.Sprintf("p%d", i)
		eth := netns.Interface{Namespace: h, Name: "eth0", Addr: hostAddr(i) + "/24"}
		if err := netns.Connect(netns.Interface{Namespace: l.sw, Name: port}, eth); err != nil {
			t.Fatal(err)
		}
		l.ip(t, "link", "set", "dev", port, "master", "br0")
		if err := h.IP("link", "set", "dev", "eth0", "address", hardware(i)); err != nil {
			t.Fatal(err)
		}
	}
	// As behind a router: nobody notices that a host is not there, and what is sent to it is gone.
	for i := range l.hosts {
		l.unmute(t, i)
	}
	return l
}

func hardware(i int) string { return fmt.Sprintf("02:00:00:00:00:%02x", i+1) }

func hostAddr(i int) string { return fmt.Sprintf("10.9.0.%d", i+1) }

func (l *lan) ip(t *testing.T, args ...string) {
	t.Helper()
	if err := l.sw.IP(args...); err != nil {
		t.Fatal(err)
	}
}

// cut takes a host off the switch; its interface stays up.
func (l *lan) cut(t *testing.T, host int) {
	l.ip(t, "link", "set", "dev", fmt.Sprintf("p%d", host), "nomaster")
}
func (l *lan) heal(t *testing.T, host int) {
	l.ip(t, "link", "set", "dev", fmt.Sprintf("p%d", host), "master", "br0")
}

// mute loses everything that a host sends; what is sent to it arrives.
func (l *lan) mute(t *testing.T, host int) { l.aim(t, host, func(int) string { return hardware(99) }) }

func (l *lan) unmute(t *testing.T, host int) { l.aim(t, host, hardware) }

func (l *lan) aim(t *testing.T, host int, at func(int) string) {
	t.Helper()
	for j := range l.hosts {
		if j == host {
			continue
		}
		neighbour := []string{"neigh", "replace", hostAddr(j), "lladdr", at(j), "dev", "eth0", "nud", "permanent"}
		if err := l.hosts[host].IP(neighbour...); err != nil {
			t.Fatal(err)
		}
	}
}

// open opens a member on a host.
func (l *lan) open(t *testing.T, host int, cfg Config) *Cluster {
	t.Helper()
	if cfg.Timing == relaxedTiming() {
		cfg.Timing = lanTiming()
		cfg.Timing.ExchangeInterval = time.Hour
	}
	cfg.BindAddr = hostAddr(host)
	cfg.dial = func(addr string, timeout time.Duration) (c net.Conn, err error) {
		err = l.hosts[host].Do(func() error {
			c, err = net.DialTimeout("tcp", addr, timeout)
			return err
		})
		return c, err
	}
	var c *Cluster
	if err := l.hosts[host].Do(func() (err error) {
		c, err = Open(limit(t), cfg)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// probing says whether memberlist waits for the answer to a probe.
func probing() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("Memberlist).probeNode"))
}

// TestNodesOfAHealedHostComeBack: the others have given the nodes of a host up when its link is healed, in both ways or
// in the one of what it sends, and those nodes have missed few or none. They come back without the exchange of all
// state that chance brings.
func TestNodesOfAHealedHostComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it waits for time-outs, and tests shall be short")
	}
	t.Parallel()
	// A probe that is under way at Close ends with its own time-out, longer after answers that did not come.
	t.Cleanup(func() {
		for until := time.Now().Add(patiently.LongTimeout); probing() && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
		}
	})
	for name, fault := range map[string]struct{ cut, heal func(*lan, *testing.T, int) }{
		"both ways": {(*lan).cut, (*lan).heal}, "one way": {(*lan).mute, (*lan).unmute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3)
			control := l.open(t, 0, config("control", nil))
			all := []*Cluster{control}
			for i := range 4 {
				all = append(all, l.open(t, 1+i/2, config(fmt.Sprintf("n%d", i), control)))
			}
			together(t, all)
			fault.cut(l, t, 1)
			control.WaitUntil(limit(t), func(m map[string]Member) bool { return len(m) == 3 })
			t.Logf("cut: control misses n0 and n1; n0 sees %d", len(all[1].Members()))
			time.Sleep(quiet) // nobody has anything to tell any more
			fault.heal(l, t, 1)
			together(t, all)
		})
	}
}

// together waits until all see all.
func together(t *testing.T, all []*Cluster) {
	t.Helper()
	began := time.Now()
	for _, c := range all {
		if err := c.WaitForMembers(limit(t), "control", "n0", "n1", "n2", "n3"); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
	}
	t.Logf("all see all after %v", time.Since(began).Round(time.Millisecond))
}

// TestObjectionIsReceivedAtOnce: a node that was given up and does not know it learns that by joining again, and is
// back when joinUntilListed returns. One exchange, which is what rejoin was before, tells the node and nobody else:
// without gossip it stays missing.
func TestObjectionIsReceivedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	still := lanTiming()
	still.GossipInterval, still.ExchangeInterval = time.Hour, time.Hour // nobody tells anything by chance
	looking := still
	looking.ProbeInterval, looking.ProbeTimeout = 200*time.Millisecond, 50*time.Millisecond
	still.ProbeInterval = time.Hour
	cfg := config("control", nil)
	cfg.Timing = looking
	control := l.open(t, 0, cfg)
	cfg = config("n0", control)
	cfg.Timing = still
	n0 := l.open(t, 1, cfg)
	has := func(m map[string]Member) bool { _, ok := m["n0"]; return ok }
	control.WaitUntil(limit(t), has)
	l.cut(t, 1)
	control.WaitUntil(limit(t), func(m map[string]Member) bool { return !has(m) })
	if len(n0.Members()) != 2 {
		t.Fatal("n0 has missed the control, so this shows nothing")
	}
	l.heal(t, 1)
	if _, err := n0.list.Join(n0.cfg.Join); err != nil {
		t.Fatal(err)
	}
	if has(control.ByName()) {
		t.Fatal("one exchange was enough, so this shows nothing")
	}
	if !n0.joinUntilListed() || !has(control.ByName()) {
		t.Errorf("n0 is not back: the control has %v", control.Members())
	}
}
