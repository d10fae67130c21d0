package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/netns"
	"ringlet/testkit/patiently"
)

func TestSearch(t *testing.T) {
	for name, tc := range map[string]struct {
		local, carries, reportsFrom int // tells: from which size on the network says that it is too big
		silent                      bool
		want                        Path
	}{
		"all as wide":         {1500, 1500, 1e6, false, Path{InterfaceMTU: 1500, LargestArrived: 1500, Answered: true}},
		"loopback":            {65536, 65536, 1e6, false, Path{InterfaceMTU: 9000, LargestArrived: 9000, Answered: true}},
		"jumbo into Ethernet": {9000, 1500, 1e6, false, Path{InterfaceMTU: 9000, LargestArrived: 1500, Answered: true}},
		"and the router says": {9000, 1500, 1501, false, Path{InterfaceMTU: 9000, LargestArrived: 1500, Answered: true,
			NetworkReported: true}},
		"a tunnel":              {1500, 1420, 1e6, false, Path{InterfaceMTU: 1500, LargestArrived: 1420, Answered: true}},
		"between two steps":     {1500, 1440, 1e6, false, Path{InterfaceMTU: 1500, LargestArrived: 1420, Answered: true}},
		"less than all of them": {1500, 700, 1e6, false, Path{InterfaceMTU: 1500, LargestArrived: 600, Answered: true}},
		"nobody answers":        {1500, 1500, 1e6, true, Path{InterfaceMTU: 1500}},
	} {
		arrived := 0
		got, err := searchPathMTU(tc.local, func(size int) (probeResult, error) {
			switch {
			case tc.silent, size > tc.carries && size < tc.reportsFrom:
				return probeResult{}, nil
			case size >= tc.reportsFrom:
				return probeResult{reportedMTU: tc.carries}, nil
			}
			arrived++
			return probeResult{arrived: true}, nil
		})
		if got != tc.want || err != nil || arrived > 6 {
			t.Errorf("%s: %+v, %v, %d arrived; want %+v", name, got, err, arrived, tc.want)
		}
	}
	if _, err := searchPathMTU(1500, func(int) (probeResult, error) {
		return probeResult{},
			errors.New("no route")
	}); err == nil {
		t.Error("an error of a probe is not told")
	}
}

func TestPathOnLoopback(t *testing.T) {
	if p := probePath(t.Context(), "127.0.0.1"); !p.Answered || p.LargestArrived != jumboMTU || p.Err != "" {
		t.Errorf("%+v", p)
	}
	if p := probePath(t.Context(), "no.such.host.invalid"); p.Err == "" {
		t.Errorf("%+v", p)
	}
}

// threeHosts are a near one, a router and a far one, not connected yet; run fails the test for an error.
func threeHosts(t *testing.T) (ns [3]*netns.Namespace, run func(error)) {
	if err := netns.CheckSupported(); err != nil {
		t.Skip("no networks can be made here: ", err)
	}
	for i := range ns {
		var err error
		if ns[i], err = netns.New(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns[i].Close() })
	}
	return ns, func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPathThroughNetworks: two hosts and a router between them, whose second link is narrower than the first.
func TestPathThroughNetworks(t *testing.T) {
	ns, run := threeHosts(t)
	run(netns.Connect(netns.NewInterface(ns[0], "a", "10.0.0.1/24", 9000),
		netns.NewInterface(ns[1], "b", "10.0.0.2/24", 9000)))
	run(netns.Connect(netns.NewInterface(ns[1], "c", "10.0.1.2/24", 1420),
		netns.NewInterface(ns[2], "d", "10.0.1.1/24", 1420)))
	run(netns.Connect(netns.NewInterface(ns[0], "e", "10.0.2.1/24", 9000),
		netns.NewInterface(ns[2], "f", "10.0.2.2/24", 1500)))
	run(ns[1].EnableForwarding())
	run(ns[0].IP("route", "add", "10.0.1.0/24", "via", "10.0.0.2"))
	run(ns[2].IP("route", "add", "10.0.0.0/24", "via", "10.0.1.2"))
	for peer, want := range map[string]Path{
		"10.0.0.2": {InterfaceMTU: 9000, LargestArrived: 9000, Answered: true},
		"10.0.1.1": {Routed: true, InterfaceMTU: 9000, LargestArrived: 1420, Answered: true, NetworkReported: true},
		"10.0.2.2": {InterfaceMTU: 9000, LargestArrived: 1500, Answered: true}, // its port drops what is larger
	} {
		want.Peer, want.Address = peer, peer
		eventually(t, func() error {
			return ns[0].Do(func() error {
				if got := probePath(t.Context(), peer); *got != want {
					return fmt.Errorf("%+v, want %+v", *got, want)
				}
				return nil
			})
		})
	}
}

// eventually asks again for a minute: kernels bound the ICMP answers of all their hosts together, and a busy machine
// may be late with one.
func eventually(t *testing.T, right func() error) {
	t.Helper()
	for end := time.Now().Add(patiently.LongTimeout); ; time.Sleep(200 * time.Millisecond) {
		err := right()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestWhoRefuses: what the far host refuses has arrived there, and what the router refuses in its place has not.
func TestWhoRefuses(t *testing.T) {
	ns, run := threeHosts(t)
	run(netns.Connect(netns.NewInterface(ns[0], "a", "10.0.0.1/24", 1500),
		netns.NewInterface(ns[1], "b", "10.0.0.2/24", 1500)))
	run(netns.Connect(netns.NewInterface(ns[1], "c", "10.0.1.2/24", 1500),
		netns.NewInterface(ns[2], "d", "10.0.1.1/24", 1500)))
	run(ns[1].EnableForwarding())
	run(ns[0].IP("route", "add", "default", "via", "10.0.0.2"))
	run(ns[2].IP("route", "add", "default", "via", "10.0.1.2"))
	run(ns[1].IP("route", "add", "prohibit", "10.0.9.0/24"))
	probePeer := func(peer, what string, right func(p *Path) bool) {
		t.Helper()
		eventually(t, func() error {
			return ns[0].Do(func() error {
				if p := probePath(t.Context(), peer); !right(p) {
					return fmt.Errorf("%s: %+v", what, *p)
				}
				return nil
			})
		})
	}
	probePeer("10.0.1.1", "the host itself", func(p *Path) bool { return p.Answered && p.RefusedBy == "" })
	probePeer("10.0.9.1", "a way that the router has not", func(p *Path) bool {
		return !p.Answered && strings.Contains(p.Err, "10.0.0.2 says of a packet")
	})
	wall := func(in *netns.Namespace, chain, with string) {
		t.Helper()
		args := []string{"-A", chain, "-p", "udp", "-j", "REJECT", "--reject-with", with}
		if _, err := in.Run("", "iptables", args...); err != nil {
			t.Skip("no firewall can be made here, so what one refuses is not tried: ", err)
		}
	}
	wall(ns[2], "INPUT", "icmp-admin-prohibited")
	probePeer("10.0.1.1", "the host's own firewall", func(p *Path) bool {
		return p.Answered && p.RefusedBy == "" && p.Err == ""
	})
	wall(ns[1], "FORWARD", "icmp-port-unreachable")
	probePeer("10.0.1.1", "a firewall between", func(p *Path) bool {
		return !p.Answered && p.RefusedBy == "10.0.0.2" && p.Err == ""
	})
}

func TestOffender(t *testing.T) {
	control := func(level, kind int32, data ...byte) []byte {
		b := binary.NativeEndian.AppendUint64(nil, uint64(unix.CmsgLen(len(data))))
		b = binary.NativeEndian.AppendUint32(b, uint32(level))
		b = binary.NativeEndian.AppendUint32(b, uint32(kind))
		return append(append(b, data...), make([]byte, unix.CmsgSpace(len(data))-unix.CmsgLen(len(data)))...)
	}
	icmpError := func(origin byte, sender ...byte) []byte {
		return append([]byte{0, 0, 0, 0, origin, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}, sender...)
	}
	four, six := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")
	in4 := append([]byte{2, 0, 0, 0}, four.AsSlice()...)
	in6 := append([]byte{10, 0, 0, 0, 0, 0, 0, 0}, six.AsSlice()...)
	for name, tc := range map[string]struct {
		control []byte
		want    netip.Addr
	}{
		"nothing":   {nil, netip.Addr{}},
		"rubbish":   {[]byte{1, 2, 3}, netip.Addr{}},
		"by ICMP":   {control(unix.IPPROTO_IP, unix.IP_RECVERR, icmpError(unix.SO_EE_ORIGIN_ICMP, in4...)...), four},
		"by ICMPv6": {control(unix.IPPROTO_IPV6, unix.IPV6_RECVERR, icmpError(unix.SO_EE_ORIGIN_ICMP6, in6...)...), six},
		"by this host": {control(unix.IPPROTO_IP, unix.IP_RECVERR, icmpError(unix.SO_EE_ORIGIN_LOCAL, in4...)...),
			netip.Addr{}},
		"without sender": {control(unix.IPPROTO_IP, unix.IP_RECVERR, icmpError(unix.SO_EE_ORIGIN_ICMP)...), netip.Addr{}},
	} {
		if got := icmpSender(tc.control); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestOffset(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	ahead, by, ok := clockOffset(clockReading{time.Unix(1007, 0), at(400), at(402)},
		clockReading{time.Unix(1008, 0), at(408), at(410)})
	if !ok || ahead != 7595*time.Millisecond || by != 5*time.Millisecond {
		t.Errorf("%v, give or take %v, %v", ahead, by, ok)
	}
	if _, _, ok := clockOffset(clockReading{remoteTime: time.Unix(7, 0)}, clockReading{remoteTime: time.Unix(7, 0)}); ok {
		t.Error("the second did not change")
	}
	if _, _, ok := clockOffset(clockReading{remoteTime: time.Unix(7, 0)}, clockReading{remoteTime: time.Unix(9, 0)}); ok {
		t.Error("a change was missed")
	}
}

func TestRemoteClock(t *testing.T) {
	const ahead = 1234 * time.Second
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
	}))
	defer s.Close()
	r := readRemoteClock(t.Context(), s.URL)
	offset, by := time.Duration(r.OffsetUS)*time.Microsecond, time.Duration(r.UncertaintyUS)*time.Microsecond
	if r.Err != "" || (offset-ahead).Abs() > by+time.Millisecond {
		t.Errorf("%v ahead, give or take %v: %s; want %v", offset, by, r.Err, ahead)
	}

	still := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.Header().Set("Date", "yesterday")
	}))
	defer still.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.Header().Set("Via", "1.1 proxy")
	}))
	defer proxy.Close()
	if r := readRemoteClock(t.Context(), proxy.URL); !strings.Contains(r.Err, "a proxy answers") {
		t.Errorf("a proxy: %+v", r)
	}
	for _, url := range []string{still.URL, "http://127.0.0.1:1/", "::"} {
		if r := readRemoteClock(t.Context(), url); r.Err == "" {
			t.Errorf("%s: %+v", url, r)
		}
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if p, err := tryPort(t.Context(), "127.0.0.1", port); err != nil || !p.InUse || p.Name != port+"/tcp" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := tryPort(t.Context(), "192.0.2.77", port+"/udp"); err != nil || p.Err == "" {
		t.Errorf("an address of another host: %+v, %v", p, err)
	}
	l.Close()
	if p, err := tryPort(t.Context(), "127.0.0.1", port); err != nil || p.InUse || p.Err != "" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, wrong := range []string{"", "0", "65536", "x", "80/sctp", "80/"} {
		if _, err := tryPort(t.Context(), "127.0.0.1", wrong); err == nil {
			t.Errorf("%q is taken for a port", wrong)
		}
	}
}

func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "not", "yet")} {
		if p := inspectDirectory(useState, path); p.Err != "" || !p.Writable || p.Free == 0 || p.Path != path {
			t.Errorf("%+v", p)
		}
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if p := inspectDirectory(useState, path); p.Err == "" {
			t.Errorf("%+v", p)
		}
	}
	for output, want := range map[string]string{"x.mdf": ".", "/data/x.mdf": "/data", "/data/": "/data/", dir: dir} {
		if got := outputDir(output); got != want {
			t.Errorf("%s is written into %s, want %s", output, got, want)
		}
	}
}

func TestReadFindsThisHost(t *testing.T) {
	f, err := Read(t.Context(), Options{Host: "127.0.0.1", State: t.TempDir(), Outputs: []string{"x.mdf"}})
	if err != nil || f.UsableMemory == 0 || f.AvailableMemory == 0 || f.MaxOpenFiles == 0 || len(f.Interfaces) == 0 ||
		len(f.Directories) != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Read(t.Context(), Options{Ports: []string{"x"}}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("a port that is none: %v", err)
	}
	if n := availableMemory(filepath.Join(t.TempDir(), "none")); n != 0 {
		t.Errorf("%d bytes of nothing", n)
	}
}
