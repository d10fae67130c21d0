package guard

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
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
	gate   *Gate
	log    *slog.Logger
	seldom Log

	turnedAway atomic.Uint64
}

// Listen puts a gate before a TCP service of that name.
func Listen(lis net.Listener, service string, log *slog.Logger) *Listener {
	return ListenWith(lis, &Gate{Total: maxConns, PerHost: maxConnsPerHost}, log.With("service", service))
}

// ListenWith is Listen with a gate of the caller's.
func ListenWith(lis net.Listener, gate *Gate, log *slog.Logger) *Listener {
	return &Listener{Listener: lis, gate: gate, log: log}
}

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
		full := l.gate.Enter(host)
		if full == nil {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.gate.Leave(host) })}, nil
		}
		_ = c.Close()
		l.turnedAway.Add(1)
		l.tell(host, full)
	}
}

func (l *Listener) tell(host netip.Addr, why error) {
	if untold, yes := l.seldom.Tell(host.String(), time.Now()); yes {
		l.log.Warn("a connection was closed at once: too many are open", "remote", host, "err", why, "untold", untold)
	}
}

// counted is a connection that leaves the gate when it is closed.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
