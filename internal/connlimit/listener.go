package connlimit

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// Limits of connections to one TCP service. A silent connection costs the process about 10 kB and a file descriptor
// until the service's own time-out ends it. maxConns is a tenth of the descriptors that a process may have by default
// on a server.
const (
	maxConns = 4096
	// maxConnsPerHost suffices for a test with hundreds of nodes on one host, each with a connection or two.
	maxConnsPerHost = 2048
)

// Listener is a TCP listener with a Gate.
type Listener struct {
	net.Listener
	gate       *Gate
	log        *slog.Logger
	logLimiter LogLimiter

	turnedAway atomic.Uint64
}

// Listen puts a gate in front of the TCP service of that name.
func Listen(lis net.Listener, service string, log *slog.Logger) *Listener {
	return ListenWith(lis, &Gate{MaxTotal: maxConns, MaxPerHost: maxConnsPerHost}, log.With("service", service))
}

// ListenWith is Listen with the caller's gate.
func ListenWith(lis net.Listener, gate *Gate, log *slog.Logger) *Listener {
	return &Listener{Listener: lis, gate: gate, log: log}
}

// tooManyMessage is logged for one connection a minute, whatever its host: a flood may come from many hosts.
const tooManyMessage = "a connection was closed: too many are open"

// errEvicted says why an admitted connection was closed.
var errEvicted = errors.New("it had not authenticated itself, or had no request open, and a newcomer needed its place")

// TurnedAway counts the connections that were closed because too many were open. For a nil Listener it is 0.
func (l *Listener) TurnedAway() uint64 {
	if l == nil {
		return 0
	}
	return l.turnedAway.Load()
}

// Accept waits for a connection that the gate admits, and closes those that it does not.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := HostOf(c.RemoteAddr())
		place, full := l.gate.Enter(host, func() { l.turnAway(c, host, errEvicted) })
		if full == nil {
			return &gatedConn{c, place}, nil
		}
		l.turnAway(c, host, full)
	}
}

// turnAway closes a connection that the gate has refused or evicted.
func (l *Listener) turnAway(c net.Conn, host netip.Addr, why error) {
	_ = c.Close()
	l.turnedAway.Add(1)
	if unreported, yes := l.logLimiter.Allow(tooManyMessage, time.Now()); yes {
		l.log.Warn(tooManyMessage, "remote", host, "err", why, "unreported", unreported)
	}
}

// Close ends the listener, and logs how many lines LogLimiter has suppressed.
func (l *Listener) Close() error {
	l.logLimiter.LogUnreported(l.log)
	return l.Listener.Close()
}

// gatedConn is a connection that gives its place in the gate back when it is closed.
type gatedConn struct {
	net.Conn

	place *Place
}

func (c *gatedConn) Close() error {
	defer c.place.Leave()
	return c.Conn.Close()
}

// SetYielding is Place.SetYielding for a connection that a Listener has accepted; c may be the TLS connection over it.
// Other connections never yield.
func SetYielding(c net.Conn, yes bool) (inside bool) {
	for {
		switch in := c.(type) {
		case *gatedConn:
			return in.place.SetYielding(yes)
		case interface{ NetConn() net.Conn }:
			c = in.NetConn()
		default:
			return true
		}
	}
}

// YieldBetweenRequests is the ConnState of an http.Server behind a Listener: a connection yields while it has no
// request under way.
func YieldBetweenRequests(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateIdle:
		SetYielding(c, true)
	case http.StateActive:
		SetYielding(c, false)
	case http.StateHijacked, http.StateClosed: // a hijacked one keeps its state, a closed one has left
	}
}
