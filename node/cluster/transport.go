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

// Bounds on the connections of gossip, by which members join and exchange all state. Whoever connects is known only
// when its first message opens with the key.
const (
	maxStreams        = 256
	maxStreamsPerHost = 128
	// maxStateBytes is more than the state of 4096 members, the most that a view has: 400 bytes each.
	maxStateBytes = 2 << 20
)

// boundedTransport is memberlist's transport with bounds: how long a connection may take to come about, how many there
// are, and how much each brings.
type boundedTransport struct {
	*memberlist.NetTransport
	dialTimeout time.Duration // for a connection to come about, whatever memberlist grants the exchange
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

// What is sealed begins with the version of the encryption, which the key does not protect: memberlist writes 1. It
// takes 0 too, and then removes a padding that nobody has proven: a recorded message with another first byte ended the
// process. On a stream a kind and a length of 4 bytes stand before the version.
const (
	sealVersion       = 1
	sealedStreamKind  = 10
	sealVersionOffset = 5
)

// bindTries is how often a port is looked for that is free for TCP and UDP.
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

// boundTransport puts the bounds over memberlist's transport.
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

// filterPackets hands packets on, but those that no member can have written.
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

// admitStreams hands connections on as long as there is room.
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
			place.SetYielding(true) // an exchange is short: the oldest is a stranger's, where there are many
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

// errEvicted says why a connection of gossip was closed that had been let in.
var errEvicted = errors.New("it was the oldest, and others came")

// reject closes a connection that there is no room for.
func (r *boundedTransport) reject(conn net.Conn, host netip.Addr, why error) {
	_ = conn.Close()
	r.counters.StreamsRefused.Add(1)
	if unreported, yes := r.logLimiter.Allow("stream", time.Now()); yes {
		r.log.Warn("a connection of gossip was closed: too many are open", "remote", host, "err", why, "unreported",
			unreported)
	}
}

// boundedStream is a connection that brings no more than the state of a cluster.
type boundedStream struct {
	net.Conn
	bytesLeft int
	encrypted bool
	firstByte byte // that came
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
