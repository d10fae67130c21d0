package quic

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"ringlet/testkit/cases"
	"ringlet/transport"
	"ringlet/transport/express"
)

// relay passes UDP packets between one peer that sends to it and another, as far as the path that it stands for
// carries them. It needs no rights and no namespaces.
type relay struct {
	front, back *net.UDPConn
	limit       [2]atomic.Int64 // bytes of a packet that passes: to the back, to the front
	every       atomic.Uint64   // one of so many packets of each direction is lost; 0: none
	bulk        atomic.Bool     // and all that are quic-go's own
	dialler     atomic.Pointer[netip.AddrPort]
}

// newRelay stands before the node at an address.
func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	r := &relay{}
	for _, c := range []**net.UDPConn{&r.front, &r.back} {
		var err error
		if *c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			t.Fatal(err)
		}
		_ = (*c).SetReadBuffer(socketBuf)
		t.Cleanup(func() { _ = (*c).Close() })
	}
	node, err := netip.ParseAddrPort(to)
	if err != nil {
		t.Fatal(err)
	}
	r.setLimit(1 << 16)
	go r.forward(r.front, &r.limit[0], func(from netip.AddrPort) (*net.UDPConn, netip.AddrPort) {
		r.dialler.Store(&from)
		return r.back, node
	})
	go r.forward(r.back, &r.limit[1], func(netip.AddrPort) (*net.UDPConn, netip.AddrPort) {
		return r.front, *r.dialler.Load() // who has spoken first
	})
	return r
}

// setLimit sets what passes in both directions.
func (r *relay) setLimit(most int64) {
	for i := range r.limit {
		r.limit[i].Store(most)
	}
}

func (r *relay) forward(in *net.UDPConn, most *atomic.Int64,
	route func(netip.AddrPort) (*net.UDPConn, netip.AddrPort)) {
	b := make([]byte, 1<<16)
	for count := uint64(1); ; count++ {
		n, from, err := in.ReadFromUDPAddrPort(b)
		if err != nil {
			return // closed
		}
		out, to := route(from)
		if every := r.every.Load(); int64(n) <= most.Load() && (every == 0 || count%every != 0) &&
			(!r.bulk.Load() || express.IsSession(b[:n])) {
			_, _ = out.WriteToUDPAddrPort(b[:n], to) // what does not pass is lost
		}
	}
}

// behindRelay are two nodes, of which the first sees the second behind a relay. The one of lower rank dials.
func behindRelay(t *testing.T, carrier transport.Carrier, every uint64, change func(*Config)) ([2]*end, *relay) {
	t.Helper()
	var r *relay
	ends := endpointsWith(t, change, func(c *transport.Config) {
		if r == nil {
			r = newRelay(t, c.View.Members[1].Addr)
			r.every.Store(every)
		}
		c.View.Members[1].Addr = r.front.LocalAddr().String()
		c.Carrier = carrier
	})
	return ends, r
}

// TestTheRelayedPathShrinks while the link is full, in both directions at once, and grows again.
func TestTheRelayedPathShrinks(t *testing.T) {
	t.Parallel()
	const rounds = 4 // of which two may be on their way already
	for name, c := range cases.Select(t, map[string]struct {
		carrier transport.Carrier
		every   uint64 // one of so many is lost
	}{
		"quic":              {transport.CarrierQUIC, 0},
		"quic, losses":      {transport.CarrierQUIC, 50},
		"a library":         {transport.CarrierQUICGo, 0},
		"a library, losses": {transport.CarrierQUICGo, 50},
		"a stream":          {transport.CarrierStream, 0},
		"a stream, losses":  {transport.CarrierStream, 50},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ends, r := behindRelay(t, c.carrier, c.every, nil)
			run := flood(t, ends)
			run.awaitRounds(t, rounds)
			r.setLimit(1272) // of UDP payload, as an MTU of 1300 has
			run.awaitRounds(t, rounds)
			for _, e := range ends {
				w, l := e.net.Stats().Path, e.ep.Stats()
				if w.MTUShrunk+l.PathMTUShrunk == 0 || w.HalvesSent+l.DatagramFragmentsSent == 0 ||
					w.HalvesReceived+l.DatagramFragmentsReceived == 0 {
					t.Errorf("the path was not found narrow: %+v, %+v", w, l)
				}
			}
			r.setLimit(1 << 16)
			for _, e := range ends {
				eventually(t, "full packets to arrive again", func() bool {
					return e.net.Stats().Path.MTUGrown+e.ep.Stats().PathMTUGrown > 0
				})
			}
			run.awaitRounds(t, rounds)
			run.finish(t)
			for i, e := range ends {
				if want := pattern(lastSeed); !bytes.Equal(e.mem, want) {
					t.Errorf("what end %d has differs from what was written", i)
				}
				if s := e.net.Stats().Path; s.HalvesMalformed != 0 || s.HalvesUnknownLink > 4 {
					t.Errorf("end %d: %+v", i, s)
				}
			}
		})
	}
}

// lastSeed is of the pattern that is written last.
const lastSeed = 251

// flooding is both ends of a link writing all of each other's memory again and again.
type flooding struct {
	ends    [2]*end
	done    [2]atomic.Int64 // rounds
	stop    atomic.Bool
	results [2]chan error
}

func flood(t *testing.T, ends [2]*end) *flooding {
	f := &flooding{ends: ends}
	for i, e := range ends {
		f.results[i] = make(chan error, 1)
		go func() { f.results[i] <- f.write(e, &f.done[i]) }()
		quit := make(chan struct{})
		t.Cleanup(func() { close(quit) })
		go func() {
			for {
				select {
				case <-e.placed:
				case <-quit:
					return
				}
			}
		}()
	}
	return f
}

// write keeps two rounds in hand, and writes the last pattern last.
func (f *flooding) write(e *end, done *atomic.Int64) error {
	open := 0
	await := func(remaining int) error {
		for ; open > remaining; open-- {
			select {
			case err := <-e.completed:
				if err != nil {
					return err
				}
			case err := <-e.down:
				return err
			case <-time.After(testTimeout):
				return errors.New("no write completed for so long")
			}
		}
		return nil
	}
	round := func(seed byte) error {
		open += 8
		return e.write(seed)
	}
	for !f.stop.Load() {
		if err := round(byte(done.Load())); err != nil {
			return err
		}
		if err := await(8); err != nil {
			return err
		}
		done.Add(1)
	}
	if err := await(0); err != nil {
		return err
	}
	if err := round(lastSeed); err != nil {
		return err
	}
	return await(0)
}

// awaitRounds waits until both ends have written so many rounds more.
func (f *flooding) awaitRounds(t *testing.T, rounds int64) {
	t.Helper()
	begin := time.Now()
	was := [2]int64{f.done[0].Load(), f.done[1].Load()}
	for i := range f.done {
		for end := time.Now().Add(2 * testTimeout); f.done[i].Load() < was[i]+rounds; time.Sleep(time.Millisecond) {
			select {
			case err := <-f.results[i]:
				t.Fatalf("end %d: %v", i, err)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("end %d has written %d rounds: %+v", i, f.done[i].Load()-was[i], f.ends[i].ep.Stats())
			}
		}
	}
	t.Logf("%d rounds each way in %v", rounds, time.Since(begin).Round(time.Millisecond))
}

// finish has the last round written, and each end hear that it is.
func (f *flooding) finish(t *testing.T) {
	t.Helper()
	f.stop.Store(true)
	for i := range f.results {
		select {
		case err := <-f.results[i]:
			if err != nil {
				t.Fatalf("end %d: %v", i, err)
			}
		case <-time.After(2 * testTimeout):
			t.Fatalf("end %d does not come to an end: %+v", i, f.ends[i].ep.Stats())
		}
		if err := f.ends[i].ep.Signal(1-i, []byte("all")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-f.ends[1-i].signals: // comes from the goroutine that has placed the rest
		case <-time.After(testTimeout):
			t.Fatalf("end %d does not hear that all is written", 1-i)
		}
	}
}

// TestHalvesOfStrangersAreRefused, and counted one by one; a path ends with its connection.
func TestHalvesOfStrangersAreRefused(t *testing.T) {
	ends := endpointsWith(t, nil, func(c *transport.Config) { c.Carrier = transport.CarrierStream })
	ws := &ends[0].net.sock.paths
	known := func() (tokens []uint64) {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		for token := range ws.byToken {
			tokens = append(tokens, token)
		}
		return tokens
	}
	if len(known()) != 1 {
		t.Fatalf("%d paths", len(known()))
	}
	c, err := net.Dial("udp", ends[0].net.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	key, err := newPathKey(make([]byte, pathKeyMaterial))
	if err != nil {
		t.Fatal(err)
	}
	strange := splitPacket(&key, 1, make([]byte, maxPacketSize))[0]
	key.token = known()[0]
	for _, b := range [][]byte{strange, splitPacket(&key, 1, make([]byte, maxPacketSize))[0], {kindProbe}} {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three packets to be refused", func() bool {
		s := ends[0].net.Stats().Path
		return s.HalvesUnknownLink == 1 && s.HalvesForged == 1 && s.HalvesMalformed == 1
	})
	if s := ends[0].net.Stats(); s.Path.HalvesReceived != 0 || s.Bulk.Packets != 0 {
		t.Errorf("%+v", s)
	}
	if err := ends[1].ep.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the path to end", func() bool { return len(known()) == 0 })
}
