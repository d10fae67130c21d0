package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// twoHosts are two network namespaces joined by a pair of interfaces.
type twoHosts struct {
	t        *testing.T
	name     [2]string // of the namespaces
	link     [2]string // of the interfaces
	addr     [2]string
	ethernet bool // ethtool is installed
}

func newTwoHosts(t *testing.T) *twoHosts {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("SKIPPED: ip is not installed")
	}
	h := &twoHosts{t: t, addr: [2]string{"10.99.7.1", "10.99.7.2"}}
	_, err := exec.LookPath("ethtool")
	h.ethernet = err == nil
	for i := range h.name {
		h.name[i], h.link[i] = fmt.Sprintf("rl%d-%d", os.Getpid(), i), fmt.Sprintf("rl%d", i)
		if out, err := exec.Command("ip", "netns", "add", h.name[i]).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: no network namespaces here: %s", out)
		}
		t.Cleanup(func() { h.ip("netns", "del", h.name[i]) })
	}
	h.ip("link", "add", h.link[0], "netns", h.name[0], "type", "veth", "peer", "name", h.link[1], "netns", h.name[1])
	for i, ns := range h.name {
		h.ip("-n", ns, "addr", "add", h.addr[i]+"/24", "dev", h.link[i])
		h.ip("-n", ns, "link", "set", h.link[i], "up")
		h.ip("-n", ns, "link", "set", "lo", "up")
	}
	return h
}

func (h *twoHosts) ip(args ...string) {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		h.t.Errorf("ip %v: %v: %s", args, err, out)
	}
}

func (h *twoHosts) mtu(n int) {
	for i, ns := range h.name {
		h.ip("-n", ns, "link", "set", h.link[i], "mtu", fmt.Sprint(n))
	}
}

// startIn starts ringlet in one of the namespaces.
func (h *twoHosts) startIn(s *session, i int, args ...string) *program {
	return s.startCommand("ip", append([]string{"netns", "exec", h.name[i], "ringlet"}, args...)...)
}

// TestBenchBetweenHosts: packets are as large as the path bears, and a far end without aggregation is only slower.
func TestBenchBetweenHosts(t *testing.T) {
	t.Parallel()
	h, s := newTwoHosts(t), newSession(t)
	s.start("certs", "keys", "n0", "n1", "--host", h.addr[0], "--host", h.addr[1]).ends(exitGood)
	serve := h.startIn(s, 1, "bench", "serve", "--certs", "keys", "--host", h.addr[1], "--port", "0")
	at := regexp.MustCompile(`listening at (\S+)`)
	eventually(t, "it listens", func() bool { return at.MatchString(serve.err.String()) })
	peer := at.FindStringSubmatch(serve.err.String())[1]
	measure := func() map[string]float64 {
		p := h.startIn(s, 0, "bench", "carriers", "--peer", peer, "--certs", "keys", "--host", h.addr[0], "--carriers",
			"quic,quic-go,stream",
			"--sizes", "64KiB", "--rounds", "1", "--duration", "60ms", "--memory", "4MiB", "--json")
		p.ends(exitGood)
		var report struct {
			Carriers []struct {
				Carrier string
				Each    struct{ Median float64 } `json:"datagram_bytes"`
				Sent    uint64                   `json:"bytes_sent"`
				Placed  uint64                   `json:"bytes_placed"`
			}
		}
		if err := json.NewDecoder(strings.NewReader(p.out.String())).Decode(&report); err != nil {
			t.Fatal(err)
		}
		each := map[string]float64{}
		for _, c := range report.Carriers {
			each[c.Carrier] = c.Each.Median
			if c.Sent == 0 || c.Sent != c.Placed {
				t.Errorf("%+v", c)
			}
		}
		return each
	}
	for _, tc := range []struct{ mtu, least, most float64 }{{1500, 1000, 1472}, {9000, 4000, 8972}} {
		h.mtu(int(tc.mtu))
		each := measure()
		if e := each["quic"]; e < tc.least || e > tc.most {
			t.Errorf("MTU %g: quic takes %g bytes along in a datagram", tc.mtu, e)
		}
		if e := each["quic-go"]; e < 1000 || e > 1452 {
			t.Errorf("MTU %g: quic-go takes %g bytes along in a datagram", tc.mtu, e)
		}
	}
	if !h.ethernet {
		t.Log("ethtool is not installed: aggregation was not switched off")
	} else if out, err := exec.Command("ip", "netns", "exec", h.name[1], "ethtool", "-K", h.link[1], "gro", "off", "gso",
		"off", "tso", "off").CombinedOutput(); err != nil {
		t.Logf("aggregation could not be switched off: %v: %s", err, out)
	} else {
		h.mtu(1500)
		measure()
	}
}
