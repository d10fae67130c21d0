package quic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ringlet/internal/netns"
	"ringlet/node/certs"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
)

// hostEnv is set in a process that is a node on a host of a test: a hostRole as JSON.
const hostEnv = "RINGLET_TEST_HOST"

// hostRole is what such a process is to do: write, or look at what is written.
type hostRole struct {
	Rank  int
	Dir   string // of its certificate, and of the report
	Addrs [2]string
	NoGRO bool
	MiB   int

	Carrier transport.Carrier // zero: quic
	Narrows bool              // the path becomes narrow when half is written
	Back    bool              // rank 1 writes, not 0
}

// writes reports whether this process is the one that writes.
func (r hostRole) writes() bool { return r.Back == (r.Rank == 1) }

// Files by which a writing node says that half is written, and hears that the path is narrow.
const (
	halfWrittenFile = "half"
	narrowFile      = "narrow"
)

// hostReport is what it has seen.
type hostReport struct {
	Packet, Frame int // bytes of a full packet of a link, and of quic-go
	Stats         Stats
	Written       uint64 // bytes
	Placed        uint64
	Link          link.Stats
}

func (r hostRole) report() string { return filepath.Join(r.Dir, fmt.Sprintf("report%d", r.Rank)) }

// beHost plays the role in a process of its own: the interfaces that a process sees are those of its namespace.
func beHost(t *testing.T, text string) {
	var role hostRole
	if err := json.Unmarshal([]byte(text), &role); err != nil {
		t.Fatal(err)
	}
	id, err := certs.Load(role.Dir, fmt.Sprintf("n%d", role.Rank))
	if err != nil {
		t.Fatal(err)
	}
	cfg := configOf(id)
	cfg.Addr, cfg.NoGRO = role.Addrs[role.Rank], role.NoGRO
	e, peer := newEnd(t, cfg, role.Rank), 1-role.Rank
	e.open(t, role.Addrs, func(c *transport.Config) {
		c.Carrier = cmp.Or(role.Carrier, transport.CarrierQUIC)
	})
	if e.connect(t); t.Failed() {
		return
	}
	r := hostReport{Written: uint64(role.MiB * bulk)}
	if role.writes() {
		for i := range role.MiB {
			if role.Narrows && i == role.MiB/2 {
				role.awaitNarrow(t)
			}
			if err := e.write(byte(i)); err != nil {
				t.Fatal(err)
			}
			e.outcomes(t, 8)
		}
	} else {
		for range 8 * role.MiB {
			e.wait(t, e.placed)
		}
		if !bytes.Equal(e.mem, pattern(byte(role.MiB-1))) {
			t.Error("what was placed differs from what was written")
		}
	}
	r.Frame, r.Stats, r.Link = e.net.packetSize, e.net.Stats(), e.ep.Stats().Stats
	r.Placed = r.Link.BytesPlaced
	for i := range e.net.sessions.byNumber {
		if c := e.net.sessions.byNumber[i].Load(); c != nil {
			r.Packet = c.packetSize
		}
	}
	if err := e.ep.Signal(peer, []byte("done")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.signals:
	case err := <-e.down: // the peer has heard us, and is gone
		t.Log(err)
	case <-time.After(testTimeout):
		t.Error("the peer does not come to an end")
	}
	out, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(role.report(), out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitNarrow says that half is written, and waits until the path is narrow.
func (r hostRole) awaitNarrow(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.Dir, halfWrittenFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.await(t, narrowFile)
}

// await waits for a file of the other processes of the test.
func (r hostRole) await(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(testTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(r.Dir, name)); err == nil {
			return
		}
	}
	t.Fatalf("there is no file %s", name)
}

func (e *end) wait(t *testing.T, c <-chan uint32) {
	t.Helper()
	select {
	case <-c:
	case err := <-e.down:
		t.Fatal(err)
	case <-time.After(testTimeout):
		t.Fatalf("waited in vain: %+v, %+v", e.ep.Stats(), e.net.Stats())
	}
}

// hosts are network namespaces; the first and the last have a node.
func hosts(t *testing.T, n int) []*netns.Namespace {
	t.Helper()
	out := make([]*netns.Namespace, n)
	for i := range out {
		var err error
		if out[i], err = netns.New(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = out[i].Close() })
	}
	return out
}

// runHosts has both ends write and look, and returns what they saw.
func runHosts(t *testing.T, a, b *netns.Namespace, role hostRole, meanwhile ...func(hostRole)) (reports [2]hostReport) {
	t.Helper()
	ca, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	role.Dir, role.MiB = t.TempDir(), 8
	var done [2]chan error
	var out [2]bytes.Buffer
	for i, ns := range [...]*netns.Namespace{a, b} {
		id, err := ca.Issue(fmt.Sprintf("n%d", i), []string{"10.0.0.1", "10.0.0.2", "10.0.1.2"}, certs.RoleNode, time.Hour)
		if err == nil {
			err = id.Save(role.Dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		role.Rank = i
		text, err := json.Marshal(role)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestBetweenHosts$", "-test.v")
		cmd.Env = append(os.Environ(), hostEnv+"="+string(text))
		cmd.Stdout, cmd.Stderr = &out[i], &out[i]
		if err := ns.Do(cmd.Start); err != nil {
			t.Fatal(err)
		}
		done[i] = make(chan error, 1)
		go func() { done[i] <- cmd.Wait() }()
	}
	for _, f := range meanwhile {
		f(role)
	}
	for i := range done {
		if err := patiently.Receive(t, done[i]); err != nil {
			t.Errorf("node %d: %v\n%s", i, err, out[i].String())
		}
	}
	for i := range reports {
		role.Rank = i
		text, err := os.ReadFile(role.report())
		if err == nil {
			err = json.Unmarshal(text, &reports[i])
		}
		if err != nil {
			t.Fatal(err)
		}
		if s := reports[i].Stats.Bulk; refused(s) != s.LinkNotUp { // the first may come before the link is up
			t.Errorf("node %d refused packets: %+v", i, s)
		}
	}
	from, to := 0, 1
	if role.Back {
		from, to = 1, 0
	}
	if n := reports[to].Placed; n != reports[from].Written {
		t.Errorf("%d bytes were placed, %d written", n, reports[from].Written)
	}
	return reports
}

// TestBetweenHosts: links between processes in network namespaces. Packets are as large as the whole path bears, which
// is found out by probes; a path without aggregation is only slower.
func TestBetweenHosts(t *testing.T) {
	if role := os.Getenv(hostEnv); role != "" {
		beHost(t, role)
		return
	}
	if err := netns.CheckSupported(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	pair := func(mtu int) func(*testing.T) []*netns.Namespace {
		return func(t *testing.T) []*netns.Namespace {
			h := hosts(t, 2)
			connectHosts(t, netns.NewInterface(h[0], "eth0", "10.0.0.1/24", mtu),
				netns.NewInterface(h[1], "eth0", "10.0.0.2/24", mtu))
			return h
		}
	}
	near := [2]string{"10.0.0.1:7000", "10.0.0.2:7000"}
	for name, tc := range map[string]struct {
		build  func(*testing.T) []*netns.Namespace
		role   hostRole
		packet int
		single bool // no read can bring more than one packet
	}{
		"MTU 1500":           {build: pair(1500), role: hostRole{Addrs: near}, packet: 1472},
		"MTU 9000":           {build: pair(9000), role: hostRole{Addrs: near}, packet: 8972},
		"no GRO asked for":   {build: pair(1500), role: hostRole{Addrs: near, NoGRO: true}, packet: 1472, single: true},
		"no GRO on the path": {build: segmented, role: hostRole{Addrs: near}, packet: 1472, single: true},
		"a narrow router": {build: routed, role: hostRole{Addrs: [2]string{"10.0.0.1:7000", "10.0.1.2:7000"}},
			packet: 1472},
		"a narrow bridge":    {build: bridged, role: hostRole{Addrs: near}, packet: 1472},
		"one narrow end":     {build: oneNarrow, role: hostRole{Addrs: near}, packet: 1472},
		"a little over 1500": {build: pair(1600), role: hostRole{Addrs: near}, packet: 1572},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := tc.build(t)
			for i, r := range runHosts(t, h[0], h[len(h)-1], tc.role) {
				t.Logf("node %d: packets of %d bytes; %d sent in %d calls, %d received in %d", i, r.Packet, r.Stats.SentPackets,
					r.Stats.SendCalls,
					r.Stats.RecvPackets, r.Stats.RecvCalls)
				if r.Packet != tc.packet || r.Frame > maxPacketSize {
					t.Errorf("node %d: packets of %d bytes, want %d; QUIC has %d", i, r.Packet, tc.packet, r.Frame)
				}
				if tc.single && r.Stats.RecvCalls < r.Stats.RecvPackets {
					t.Errorf("node %d: %d packets in %d reads", i, r.Stats.RecvPackets, r.Stats.RecvCalls)
				}
			}
		})
	}
}

// TestThePathShrinks: a router in the middle of a path takes no full packets any more, while a link is up. The link
// goes on with smaller ones, whoever has dialled. The sender's own interface becomes narrow in the same
// way. The link is idle at that moment; TestTheRelayedPathShrinks has one that is full.
func TestThePathShrinks(t *testing.T) {
	t.Parallel()
	if err := netns.CheckSupported(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	for _, carrier := range []transport.Carrier{transport.CarrierQUIC, transport.CarrierQUICGo, transport.CarrierStream} {
		for _, tc := range []struct {
			of   string
			back bool
		}{{of: "router"}, {of: "router", back: true}, {of: "sender"}, {of: "sender", back: true}} {
			t.Run(fmt.Sprintf("%v, %s, back %v", carrier, tc.of, tc.back), func(t *testing.T) {
				t.Parallel()
				pathShrinks(t, hostRole{Carrier: carrier, Back: tc.back}, tc.of)
			})
		}
	}
}

func pathShrinks(t *testing.T, role hostRole, of string) {
	h := routed(t)
	runIP(t, h[1], "link", "set", "dev", "eth1", "mtu", "9000")
	role.Addrs, role.Narrows = [2]string{"10.0.0.1:7000", "10.0.1.2:7000"}, true
	from, to, near, far := 0, 1, "eth0", "eth1"
	if role.Back {
		from, to, near, far = 1, 0, "eth1", "eth0"
	}
	reports := runHosts(t, h[0], h[2], role, func(role hostRole) {
		role.await(t, halfWrittenFile)
		if of == "sender" {
			runIP(t, h[2*from], "link", "set", "dev", "eth0", "mtu", "1300")
		} else {
			runIP(t, h[1], "link", "set", "dev", near, "mtu", "1300")
			runIP(t, h[1], "link", "set", "dev", far, "mtu", "1300")
		}
		if err := os.WriteFile(filepath.Join(role.Dir, narrowFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if role.Carrier == transport.CarrierQUIC {
		if s := reports[from].Link; s.PathMTUShrunk == 0 || s.DatagramFragmentsSent == 0 ||
			reports[to].Link.DatagramFragmentsReceived == 0 {
			t.Errorf("the path was not found narrow: %+v", s)
		}
	} else if s := reports[from].Stats.Path; s.MTUShrunk == 0 || s.HalvesSent == 0 ||
		reports[to].Stats.Path.HalvesReceived == 0 {
		t.Errorf("the path was not found narrow: %+v, %+v", s, reports[to].Stats.Path)
	}
	r := reports[from]
	t.Logf("packets of %d bytes, %d MiB in %d datagrams, %d of parts; %+v", r.Packet, r.Written>>20, r.Link.DatagramsSent,
		r.Link.DatagramFragmentsSent, r.Stats.Path)
}

func connectHosts(t *testing.T, a, b netns.Interface) {
	t.Helper()
	if err := netns.Connect(a, b); err != nil {
		t.Fatal(err)
	}
}

func runIP(t *testing.T, ns *netns.Namespace, args ...string) {
	t.Helper()
	if err := ns.IP(args...); err != nil {
		t.Fatal(err)
	}
}

// segmented is a pair whose packets travel one by one: the sender's kernel cuts each batch, and a veth pair's other end
// puts none together.
func segmented(t *testing.T) []*netns.Namespace {
	h := hosts(t, 2)
	connectHosts(t, netns.Interface{Namespace: h[0], Name: "eth0", Addr: "10.0.0.1/24"},
		netns.Interface{Namespace: h[1], Name: "eth0", Addr: "10.0.0.2/24"})
	for _, ns := range h {
		runIP(t, ns, "link", "set", "dev", "eth0", "gso_max_segs", "1")
	}
	return h
}

// routed has a router between two networks of jumbo frames, whose path to the second is narrow.
func routed(t *testing.T) []*netns.Namespace {
	h := hosts(t, 3)
	connectHosts(t, netns.NewInterface(h[0], "eth0", "10.0.0.1/24", 9000),
		netns.NewInterface(h[1], "eth0", "10.0.0.254/24", 9000))
	connectHosts(t, netns.NewInterface(h[1], "eth1", "10.0.1.254/24", 1500),
		netns.NewInterface(h[2], "eth0", "10.0.1.2/24", 9000))
	if err := h[1].EnableForwarding(); err != nil {
		t.Fatal(err)
	}
	runIP(t, h[0], "route", "add", "default", "via", "10.0.0.254")
	runIP(t, h[2], "route", "add", "default", "via", "10.0.1.254")
	return h
}

// bridged has a switch between two jumbo interfaces that drops what is larger than 1500 bytes, and says nothing.
func bridged(t *testing.T) []*netns.Namespace {
	h := hosts(t, 3)
	runIP(t, h[1], "link", "add", "name", "br0", "type", "bridge")
	connectHosts(t, netns.NewInterface(h[0], "eth0", "10.0.0.1/24", 9000),
		netns.Interface{Namespace: h[1], Name: "eth0", MTU: 9000})
	connectHosts(t, netns.Interface{Namespace: h[1], Name: "eth1", MTU: 1500},
		netns.NewInterface(h[2], "eth0", "10.0.0.2/24", 9000))
	for _, port := range [...]string{"eth0", "eth1"} {
		runIP(t, h[1], "link", "set", "dev", port, "master", "br0")
	}
	runIP(t, h[1], "link", "set", "dev", "br0", "up")
	return h
}

// oneNarrow has an interface of jumbo frames at one end only.
func oneNarrow(t *testing.T) []*netns.Namespace {
	h := hosts(t, 2)
	connectHosts(t, netns.NewInterface(h[0], "eth0", "10.0.0.1/24", 9000),
		netns.NewInterface(h[1], "eth0", "10.0.0.2/24", 1500))
	return h
}
