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

// Connections to one TCP service. A connection that says nothing costs its process about 10 kB until the service's own
// time-out ends it, and a file descriptor: those that all strangers can hold are a tenth of what a process may have by
// default on a server.
const (
	maxConns = 4096
	// maxConnsPerHost leaves room for the units of a test with hundreds of nodes on one host, each with a connection or
	// two.
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

// Listen puts a gate before a TCP service of that name.
func Listen(lis net.Listener, service string, log *slog.Logger) *Listener {
	return ListenWith(lis, &Gate{MaxTotal: maxConns, MaxPerHost: maxConnsPerHost}, log.With("service", service))
}

// ListenWith is Listen with a gate of the caller's.
func ListenWith(lis net.Listener, gate *Gate, log *slog.Logger) *Listener {
	return &Listener{Listener: lis, gate: gate, log: log}
}

// tooManyMessage is told of one connection a minute, whatever its host: a flood may come from many.
const tooManyMessage = "a connection was closed: too many are open"

// errEvicted says why a connection was closed that had been let in.
var errEvicted = errors.New("it had not said who it is, or asked nothing, and others came")

// TurnedAway counts the connections that were closed because too many were open. A nil Listener has turned nobody away.
func (l *Listener) TurnedAway() uint64 {
	if l == nil {
		return 0
	}
	return l.turnedAway.Load()
}

// Accept waits for a connection that there is room for.
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

// turnAway closes a connection that there is no room for.
func (l *Listener) turnAway(c net.Conn, host netip.Addr, why error) {
	_ = c.Close()
	l.turnedAway.Add(1)
	if unreported, yes := l.logLimiter.Allow(tooManyMessage, time.Now()); yes {
		l.log.Warn(tooManyMessage, "remote", host, "err", why, "unreported", unreported)
	}
}

// Close ends the listener, and logs what is unreported.
func (l *Listener) Close() error {
	l.logLimiter.LogUnreported(l.log)
	return l.Listener.Close()
}

// gatedConn is a connection that leaves the gate when it is closed.
type gatedConn struct {
	net.Conn

	place *Place
}

func (c *gatedConn) Close() error {
	defer c.place.Leave()
	return c.Conn.Close()
}

// SetYielding is Place.SetYielding of a connection that a Listener has accepted, also below TLS. Others never yield.
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

// YieldBetweenRequests is the ConnState of an http.Server behind a Listener: a connection yields while no request of it
// is under way.
func YieldBetweenRequests(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateIdle:
		SetYielding(c, true)
	case http.StateActive:
		SetYielding(c, false)
	case http.StateHijacked, http.StateClosed: // it stays as it is, or has left
	}
}
