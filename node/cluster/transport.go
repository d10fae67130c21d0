package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"ringlet/internal/connlimit"
)

// Bounds on the connections of gossip, by which members join and exchange all state. A peer is a stranger until the key
// opens its first message.
const (
	maxStreams        = 256
	maxStreamsPerHost = 128
	// maxStateBytes is more than the state of 4096 members, the most that a view has: 400 bytes each.
	maxStateBytes = 2 << 20
)

// boundedTransport is memberlist's transport with bounds: on the time to open a connection, on the number of
// connections, and on the bytes of each.
type boundedTransport struct {
	*memberlist.NetTransport
	dialTimeout time.Duration // until a connection is open, even if memberlist allows more for the exchange
	dial        func(addr string, timeout time.Duration) (net.Conn, error)
	gate        connlimit.Gate
	counters    *Counters
	log         *slog.Logger
	logLimiter  *connlimit.LogLimiter

	encrypted bool // messages are encrypted
	streams   chan net.Conn
	packets   chan *memberlist.Packet
	stop      chan struct{}
	wg        sync.WaitGroup
}

// A sealed message begins with the version of the encryption, which the key does not protect: memberlist writes 1. It
// also accepts 0, and then removes a padding that was not authenticated: a recorded message with a changed first byte
// ended the process. On a stream, a kind and a length of 4 bytes come before the version.
const (
	sealVersion       = 1
	sealedStreamKind  = 10
	sealVersionOffset = 5
)

// bindTries is how often to look for a port that is free for TCP and UDP.
const bindTries = 10

// bind makes the transport of a cluster.
func (c *Cluster) bind(gossip *memberlist.Config) (*boundedTransport, error) {
	config := &memberlist.NetTransportConfig{
		BindAddrs: []string{c.cfg.BindAddr}, BindPort: c.cfg.BindPort, Logger: gossip.Logger,
	}
	tries := bindTries
	if c.cfg.BindPort != 0 {
		tries = 1
	}
	var err error
	for range tries {
		var under *memberlist.NetTransport
		if under, err = memberlist.NewNetTransport(config); err == nil {
			return c.boundTransport(under), nil
		}
		// memberlist keeps the text of the error and loses its type.
		if !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			break
		}
	}
	return nil, err
}

// boundTransport adds the bounds to memberlist's transport.
func (c *Cluster) boundTransport(under *memberlist.NetTransport) *boundedTransport {
	r := &boundedTransport{
		NetTransport: under,
		dialTimeout:  c.cfg.Timing.DialTimeout,
		dial:         c.cfg.dial,
		gate:         connlimit.Gate{MaxTotal: maxStreams, MaxPerHost: maxStreamsPerHost},
		counters:     &c.counters,
		log:          c.log,
		logLimiter:   &c.logLimiter,
		encrypted:    len(c.cfg.Key) > 0,
		streams:      make(chan net.Conn),
		packets:      make(chan *memberlist.Packet),
		stop:         make(chan struct{}),
	}
	if r.dial == nil {
		r.dial = func(addr string, timeout time.Duration) (net.Conn, error) {
			return net.DialTimeout("tcp", addr, timeout)
		}
	}
	r.wg.Go(r.admitStreams)
	r.wg.Go(r.filterPackets)
	return r
}

// DialTimeout is memberlist's Transport.
func (r *boundedTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return r.dial(addr, min(timeout, r.dialTimeout))
}

// DialAddressTimeout is memberlist's NodeAwareTransport.
func (r *boundedTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return r.DialTimeout(a.Addr, timeout)
}

// StreamCh is memberlist's Transport.
func (r *boundedTransport) StreamCh() <-chan net.Conn { return r.streams }

// PacketCh is memberlist's Transport.
func (r *boundedTransport) PacketCh() <-chan *memberlist.Packet { return r.packets }

// Shutdown is memberlist's Transport.
func (r *boundedTransport) Shutdown() error {
	err := r.NetTransport.Shutdown()
	close(r.stop)
	r.wg.Wait()
	return err
}

// filterPackets passes packets on, except those that no member can have written.
func (r *boundedTransport) filterPackets() {
	for {
		select {
		case p := <-r.NetTransport.PacketCh():
			if r.encrypted && (len(p.Buf) == 0 || p.Buf[0] != sealVersion) {
				r.counters.WrongKey.Add(1)
				continue
			}
			select {
			case r.packets <- p:
			case <-r.stop:
				return
			}
		case <-r.stop:
			return
		}
	}
}

// admitStreams passes connections on while there is space.
func (r *boundedTransport) admitStreams() {
	for {
		select {
		case conn := <-r.NetTransport.StreamCh():
			host := connlimit.HostOf(conn.RemoteAddr())
			place, err := r.gate.Enter(host, func() { r.reject(conn, host, errEvicted) })
			if err != nil {
				r.reject(conn, host, err)
				continue
			}
			place.SetYielding(true) // an exchange is short: of many connections, the oldest is a stranger's
			s := &boundedStream{
				Conn:      conn,
				bytesLeft: maxStateBytes,
				encrypted: r.encrypted,
				release:   place.Leave,
			}
			select {
			case r.streams <- s:
			case <-r.stop:
				_ = s.Close()
				return
			}
		case <-r.stop:
			return
		}
	}
}

// errEvicted is the reason to close an admitted connection of gossip.
var errEvicted = errors.New("it was the oldest connection, and newer ones needed its place")

// reject closes a connection that exceeds the bounds.
func (r *boundedTransport) reject(conn net.Conn, host netip.Addr, why error) {
	_ = conn.Close()
	r.counters.StreamsRefused.Add(1)
	if unreported, yes := r.logLimiter.Allow("stream", time.Now()); yes {
		r.log.Warn("a connection of gossip was closed: too many are open", "remote", host, "err", why, "unreported",
			unreported)
	}
}

// boundedStream is a connection that accepts no more bytes than the state of a cluster has.
type boundedStream struct {
	net.Conn
	bytesLeft int
	encrypted bool
	firstByte byte // first byte received
	release   func()
}

// Read is net.Conn's. memberlist reads a stream in one goroutine.
func (s *boundedStream) Read(p []byte) (int, error) {
	if s.bytesLeft <= 0 {
		return 0, fmt.Errorf("%s sends more than %d bytes of state: %w", s.RemoteAddr(), maxStateBytes, io.ErrShortBuffer)
	}
	n, err := s.Conn.Read(p[:min(len(p), s.bytesLeft)])
	had := maxStateBytes - s.bytesLeft
	s.bytesLeft -= n
	if n > 0 && had == 0 {
		s.firstByte = p[0]
	}
	if at := sealVersionOffset - had; s.encrypted && s.firstByte == sealedStreamKind && 0 <= at && at < n &&
		p[at] != sealVersion {
		return 0, fmt.Errorf("%s sends a state of encryption version %d, which no member writes", s.RemoteAddr(), p[at])
	}
	return n, err
}

// Close is net.Conn's.
func (s *boundedStream) Close() error {
	defer s.release()
	return s.Conn.Close()
}
