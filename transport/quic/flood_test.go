package quic

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"ringlet/testkit/logged"
)

// junkInitial is a QUIC Initial by its header, of connection ids that nobody has used, and random in what should be
// sealed.
func junkInitial() []byte {
	p := make([]byte, 1200)
	rand.Read(p)
	p[0] = 0xC3                               // long header, Initial, packet number of 4 bytes
	binary.BigEndian.PutUint32(p[1:], 1)      // version
	p[5], p[14], p[23] = 8, 8, 0              // lengths of both connection ids and of the token
	binary.BigEndian.PutUint16(p[24:], 1<<14) // a varint of two bytes
	binary.BigEndian.PutUint16(p[24:], 1<<14|uint16(len(p)-26))
	return p
}

// floodWithJunk sends junk from that many sockets, no faster than the listener reads, and says the most goroutines that
// were seen.
func floodWithJunk(t *testing.T, victim *Network, packets, ports int) (goroutines int) {
	t.Helper()
	socks := make([]*net.UDPConn, ports)
	for i := range socks {
		s, err := net.DialUDP("udp", nil, victim.Addr().(*net.UDPAddr))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		socks[i] = s
	}
	before := victim.Stats().RecvPackets
	for i := range packets {
		if _, err := socks[i%ports].Write(junkInitial()); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			eventually(t, "the listener to read", func() bool { return victim.Stats().RecvPackets-before >= uint64(i) })
			goroutines = max(goroutines, runtime.NumGoroutine())
		}
	}
	return goroutines
}

func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestJunkInitialsTakeNothingAlong: 5,000 forged Initials, from one port and then from many, leave a listener with a
// bounded number of goroutines, bytes and lines, and a peer comes in meanwhile. Before there was a bound they made
// 20,000 goroutines, 188 MB and 5,000 lines.
func TestJunkInitialsTakeNothingAlong(t *testing.T) {
	log := &logged.Buffer{}
	cfg := configOf(issue(t, "b"))
	cfg.Log, cfg.IdleTimeout = log.Logger(), 2*time.Second
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, cfg)
	idle, mem := runtime.NumGoroutine(), memoryInUse()
	const packets = 5000
	most := floodWithJunk(t, b, packets/2, 1)
	// Beside half-open handshakes that hold every place of those who prove nothing:
	ca, _ := connectPair(t, a, b, "b")
	most = max(most, floodWithJunk(t, b, packets/2, 32))
	grown := int64(memoryInUse()) - int64(mem)
	s := b.Stats()
	t.Logf("%d goroutines, %d kB more; %+v", most-idle, grown>>10, s)
	if most-idle > 5*maxUnverified+100 {
		t.Errorf("%d packets made %d goroutines", packets, most-idle)
	}
	if grown > 24<<20 {
		t.Errorf("%d packets made %d kB", packets, grown>>10)
	}
	if s.RetriesSent < packets/2 {
		t.Errorf("%d were asked to prove their address", s.RetriesSent)
	}
	if s.HandshakesTurnedAway != 0 {
		t.Errorf("%d were turned away, and none had proved its address", s.HandshakesTurnedAway)
	}
	_ = ca.Close("done")
	eventually(t, "the half-open to be given up", func() bool { return b.Stats().HandshakesRefused >= maxUnverified })
	eventually(t, "their places to be free", func() bool { return b.handshakes.unverifiedCount.Load() == 0 })
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	lines := strings.Count(log.String(), "\n")
	if lines > 40 || !strings.Contains(log.String(), "must prove its address") {
		t.Errorf("%d lines:\n%s", lines, log)
	}
}

// TestOneHostTakesNotAllPlaces: those who proved their address are bounded by host and in all; who is turned away is
// counted and told seldom.
func TestOneHostTakesNotAllPlaces(t *testing.T) {
	log := &logged.Buffer{}
	d := newHandshakeLimiter(log.Logger())
	enter := func(host byte, port int) (func(), error) {
		return d.admit(&net.UDPAddr{IP: net.IPv4(10, 0, 0, host), Port: port}, true)
	}
	var leave func()
	for i := range maxHalfOpenPerHost {
		out, err := enter(1, i)
		if err != nil {
			t.Fatal(err)
		}
		leave = out
	}
	for range 1000 {
		if _, err := enter(1, 1); err == nil {
			t.Fatal("one host holds more than its share")
		}
	}
	if _, err := enter(2, 1); err != nil {
		t.Errorf("another host is kept out: %v", err)
	}
	leave()
	if _, err := enter(1, 1); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	d.close()
	n := strings.Count(log.String(), "\n")
	if d.stats.HandshakesTurnedAway != 1000 || n > 12 || !strings.Contains(log.String(), "more_such=992") {
		t.Errorf("%d turned away, %d lines:\n%s", d.stats.HandshakesTurnedAway, n, log)
	}
}

// TestSilenceHidesNoRefusal: a flood of handshakes that stand still does not keep the log from naming a node with a
// wrong certificate.
func TestSilenceHidesNoRefusal(t *testing.T) {
	log := &logged.Buffer{}
	cfg := configOf(issue(t, "b"))
	cfg.Log = log.Logger()
	b, a := listen(t, cfg), listen(t, configOf(issue(t, "a")))
	floodWithJunk(t, b, 500, 4)
	began := time.Now()
	if _, _, err := a.Dial(within(t), "c", b.Addr().String(), []byte("hello of a")); err == nil {
		t.Fatal("b was taken for c")
	}
	t.Logf("refused after %v", time.Since(began).Round(time.Millisecond))
	eventually(t, "the line that names the refused", func() bool {
		return strings.Contains(log.String(), "remote="+a.Addr().String())
	})
}
