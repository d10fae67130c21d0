package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc/credentials"

	"ringlet/node/certs"
)

// auditedCreds writes refused handshakes of gRPC to the audit log, and keeps the connections of the others.
type auditedCreds struct {
	credentials.TransportCredentials
	audit *auditor
	conns *openConns
}

// openConns are open connections by the address of their peer. A stream of gRPC keeps what its peer does not read, even
// after its end; only with the connection does that go.
type openConns struct{ byAddress sync.Map }

// closeConn closes the connection of a peer, if it has one here.
func (d *openConns) closeConn(address string) {
	if conn, ok := d.byAddress.Load(address); ok {
		_ = conn.(net.Conn).Close() // it is not used any more
	}
}

// trackedConn is a connection that is listed until it is closed.
type trackedConn struct {
	net.Conn
	conns *openConns
}

// NetConn is what it wraps, for package connlimit.
func (d *trackedConn) NetConn() net.Conn { return d.Conn }

func (d *trackedConn) Close() error {
	d.conns.byAddress.CompareAndDelete(d.RemoteAddr().String(), d)
	return d.Conn.Close()
}

// ServerHandshake lets the peer in or tells why not.
func (c *auditedCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	d := &trackedConn{conn, c.conns}
	c.conns.byAddress.Store(conn.RemoteAddr().String(), d)
	sealed, info, err := c.TransportCredentials.ServerHandshake(d)
	if err != nil {
		c.conns.byAddress.CompareAndDelete(conn.RemoteAddr().String(), d)
		c.audit.writeHandshake(conn.RemoteAddr().String(), err)
	}
	return sealed, info, err
}

// Clone copies it.
func (c *auditedCreds) Clone() credentials.TransportCredentials {
	return &auditedCreds{c.TransportCredentials.Clone(), c.audit, c.conns}
}

// auditedLog is the log of the HTTP server, which says there, and nowhere else, whom a handshake refused.
type auditedLog struct {
	slog.Handler
	audit *auditor
}

const handshakeWords = "http: TLS handshake error from "

// Handle takes refused handshakes to the audit log; everything else is the log's.
func (h *auditedLog) Handle(ctx context.Context, r slog.Record) error {
	if rest, ok := strings.CutPrefix(r.Message, handshakeWords); ok {
		address, why, _ := strings.Cut(rest, ": ")
		err := errors.New(why)
		if why == io.EOF.Error() {
			err = io.EOF
		}
		h.audit.writeHandshake(address, err)
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// writeHandshake writes of a peer that was refused. Somebody who connects and says nothing, as probes of ports do, was
// not refused.
func (a *auditor) writeHandshake(address string, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) {
		a.log.Debug("a connection without a handshake", "address", address, "err", err)
		return
	}
	_ = a.writeRefusal(caller{Name: unknownName, Address: address}, "connect", "",
		&identityError{certs.Explain(err).Error()})
}
