package testbed

import (
	"errors"
	"net"
	"testing"
	"time"

	"ringlet/testkit/patiently"

	"golang.org/x/sys/unix"
)

// exchange sends numbered packets from one socket to another until one comes, and returns its number; an old one is
// no answer.
func exchange(t *testing.T, from, to *net.UDPConn, first byte) byte {
	t.Helper()
	packet := make([]byte, 100)
	for n := first; ; n++ {
		packet[0] = n
		if _, err := from.WriteTo(packet, to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		_ = to.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := to.Read(packet); err == nil && packet[0] >= first {
			return packet[0]
		}
		if n > 250 {
			t.Fatal("no packet came")
		}
	}
}

// TestFilter: a rule drops what goes one way and nothing else, until the next filter replaces it.
func TestFilter(t *testing.T) {
	if err := CheckFilter(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	b := newBed(t, Spec{Hosts: 2, Rate: 100e6})
	c := []*net.UDPConn{socket(t, b, 0), socket(t, b, 1)}
	exchange(t, c[0], c[1], 0)
	if err := b.SetFilter([]string{`iifname "n0" oifname "n1" counter drop`}); err != nil {
		t.Skipf("SKIPPED: no filter here: %v", err)
	}
	const sent = 20
	for range sent {
		if _, err := c[0].WriteTo([]byte{1}, c[1].LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	exchange(t, c[1], c[0], 0) // the other way nothing is dropped
	eventually(t, "the rule drops them all", func() bool {
		out, err := b.switchNS.Run("", "sh", "-c", `nft list table bridge testbed | grep -c "packets 20 "`)
		return err == nil && string(out) == "1\n"
	})
	if err := b.SetFilter(nil); err != nil {
		t.Fatal(err)
	}
	if n := exchange(t, c[0], c[1], 100); n < 100 {
		t.Errorf("packet %d came", n)
	}
}

// TestFilterErrors: a rule that nft does not understand changes nothing.
func TestFilterErrors(t *testing.T) {
	if err := CheckFilter(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	b := newBed(t, Spec{Hosts: 2})
	if err := b.SetFilter([]string{"fall over"}); err == nil {
		t.Error("a rule that is none was taken")
	}
}

// TestDetour: what a rule sends by the slow queue is overtaken.
func TestDetour(t *testing.T) {
	if err := CheckFilter(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	b := newBed(t, Spec{Hosts: 2, Rate: 1e9, Queue: 1 << 20})
	if err := b.WithDetours(1e6); err != nil {
		t.Skipf("SKIPPED: no such queues here: %v", err)
	}
	c := []*net.UDPConn{socket(t, b, 0), socket(t, b, 1)}
	// Packets of 1000 bytes take the slow queue, 8 ms each; small ones do not.
	if err := b.SetFilter([]string{`oifname "n1" meta length > 500 meta priority set ` + Detour}); err != nil {
		t.Skipf("SKIPPED: no filter here: %v", err)
	}
	exchange(t, c[0], c[1], 0)
	large := make([]byte, 1000)
	for i := range byte(20) {
		large[0] = i
		if _, err := c[0].WriteTo(large, c[1].LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c[0].WriteTo([]byte{200}, c[1].LocalAddr()); err != nil {
		t.Fatal(err)
	}
	place := 0
	for packet := make([]byte, 2000); ; place++ {
		_ = c[1].SetReadDeadline(time.Now().Add(patiently.LongTimeout))
		n, err := c[1].Read(packet)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			break
		}
	}
	if place == 20 {
		t.Error("nothing was overtaken")
	}
	t.Logf("overtook %d of 20", 20-place)
}

// TestReset: a connection of a host that resets breaks, a new one as soon as it is made, until that is over.
func TestReset(t *testing.T) {
	if err := CheckFilter(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	b := newBed(t, Spec{Hosts: 2, Rate: 100e6})
	var lis net.Listener
	if err := b.hostNS[0].Do(func() (err error) {
		lis, err = net.Listen("tcp", b.Address(0)+":9")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	dial := func() (c net.Conn, err error) {
		err = b.hostNS[1].Do(func() error {
			c, err = net.DialTimeout("tcp", lis.Addr().String(), patiently.LongTimeout)
			return err
		})
		return c, err
	}
	there, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if err := b.SetResets("n1", true); err != nil {
		t.Skipf("SKIPPED: no filter here: %v", err)
	}
	if _, err := here.Write([]byte("data")); err != nil {
		t.Fatal(err)
	}
	_ = here.SetReadDeadline(time.Now().Add(patiently.LongTimeout))
	if _, err := here.Read(make([]byte, 9)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the connection ended with %v", err)
	}
	if c, err := dial(); err == nil { // it may hear of the reset at once, too
		_ = c.SetReadDeadline(time.Now().Add(patiently.LongTimeout))
		if _, err := c.Read(make([]byte, 9)); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("a new connection ended with %v", err)
		}
		c.Close()
	} else if errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("it hears that nobody listens: %v", err)
	}
	if err := b.SetResets("n1", false); err != nil {
		t.Fatal(err)
	}
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := b.SetResets("n7", true); err == nil {
		t.Error("a host that does not exist refuses")
	}
}
