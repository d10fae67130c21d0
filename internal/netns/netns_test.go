package netns

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPair(t *testing.T) [2]*Namespace {
	t.Helper()
	if err := CheckSupported(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	var ns [2]*Namespace
	for i := range ns {
		var err error
		if ns[i], err = New(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ns[i].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return ns
}

// interfaces of the namespace of the test itself.
func interfaces(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-o", "link").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTwoHostsExchangePackets(t *testing.T) {
	ns := newPair(t)
	before := interfaces(t)
	if err := Connect(NewInterface(ns[0], "a", "10.0.0.1/24", 9000),
		NewInterface(ns[1], "b", "10.0.0.2/24", 9000)); err != nil {
		t.Fatal(err)
	}
	var socks [2]*net.UDPConn
	for i, addr := range [...]string{"10.0.0.1:1", "10.0.0.2:1"} {
		if err := ns[i].Do(func() error {
			to, err := net.ResolveUDPAddr("udp", addr)
			if err == nil {
				socks[i], err = net.ListenUDP("udp", to)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer socks[i].Close()
	}
	if _, err := socks[0].WriteTo(make([]byte, 8900), socks[1].LocalAddr()); err != nil {
		t.Fatal(err)
	}
	_ = socks[1].SetReadDeadline(time.Now().Add(patiently.LongTimeout))
	if n, from, err := socks[1].ReadFrom(make([]byte, 9000)); n != 8900 || err != nil || from.String() != "10.0.0.1:1" {
		t.Errorf("%d bytes from %v, %v", n, from, err)
	}
	if after := interfaces(t); after != before {
		t.Errorf("the machine's own interfaces changed from\n%s\nto\n%s", before, after)
	}
}

// TestErrorsSayWhat: and a process started inside lives there.
func TestErrorsSayWhat(t *testing.T) {
	ns := newPair(t)
	if err := ns[0].IP("link", "set", "nowhere", "up"); err == nil ||
		!strings.Contains(err.Error(), "ip link set nowhere up") {
		t.Errorf("%v", err)
	}
	if err := Connect(Interface{Namespace: ns[0], Name: "a", Addr: "no address"},
		Interface{Namespace: ns[1], Name: "b"}); err == nil {
		t.Error("joined by a wrong address")
	}
	if err := ns[0].EnableForwarding(); err != nil {
		t.Error(err)
	}
	var out []byte
	if err := ns[1].Do(func() (err error) {
		out, err = exec.Command("ip", "-o", "link").Output()
		return err
	}); err != nil || string(out) == interfaces(t) {
		t.Errorf("%q, %v", out, err)
	}
}

// TestMainThreadRemains: whatever thread a namespace is made or entered on, /proc/self, which is the main thread, shows
// the process's own.
func TestMainThreadRemains(t *testing.T) {
	if err := CheckSupported(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	mainNamespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if err := n.Do(func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	patiently.Wait(t, wg.Wait)
	if now, err := os.Readlink("/proc/self/ns/net"); now != mainNamespace || err != nil {
		t.Errorf("the process was in %s and is in %s, %v", mainNamespace, now, err)
	}
}

// TestHandedOver: a namespace is the same by a copy of its file, and programs in it read what they are given.
func TestHandedOver(t *testing.T) {
	ns := newPair(t)
	fd, err := unix.FcntlInt(uintptr(ns[0].FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	same := FromFile(os.NewFile(uintptr(fd), "copy"))
	defer same.Close()
	if _, err := same.Run("link add name y type bridge\nlink set dev y up\n", "ip", "-batch", "-"); err != nil {
		t.Fatal(err)
	}
	out, err := ns[0].Run("", "ip", "-o", "link")
	if err != nil || !strings.Contains(string(out), "y:") {
		t.Errorf("%s, %v", out, err)
	}
}
