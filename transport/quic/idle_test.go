package quic

import (
	"net"
	"testing"
	"time"
)

// TestReaderSaysDryOnceAndWaits holds that a reader which has taken packets says once that nothing is at hand, and that
// a packet which comes while it says so wakes it.
func TestReaderSaysDryOnceAndWaits(t *testing.T) {
	for name, spin := range map[string]time.Duration{"sleeps": 0, "spins": 50 * time.Microsecond} {
		t.Run(name, func(t *testing.T) {
			c := udp(t)
			var s *socket
			said := 0
			s = newSocket(c, false, spin, nil, func() {
				said++
				if _, err := c.WriteTo([]byte("x"), c.LocalAddr()); err != nil {
					t.Error(err)
				}
			})
			for round := 1; round <= 200; round++ {
				s.idleDue = true
				if err := s.fill(); err != nil || s.n != 1 || said != round || s.idleDue {
					t.Fatalf("round %d: %v, %d bytes, said %d times, fed %v", round, err, s.n, said, s.idleDue)
				}
			}
		})
	}
}

// udp is a socket on loopback that nobody waits at for ever.
func udp(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return c
}
