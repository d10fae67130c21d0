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

// watchedCreds writes refused handshakes of gRPC to the audit log, and keeps the connections of the others.
type watchedCreds struct {
	credentials.TransportCredentials
	audit *auditor
	doors *doors
}

// doors are open connections by the address of their peer. A stream of gRPC keeps what its peer does not read, even
// after its end; only with the connection does that go.
type doors struct{ open sync.Map }

// shut closes the connection of a peer, if it has one here.
func (d *doors) shut(address string) {
	if conn, ok := d.open.Load(address); ok {
		_ = conn.(net.Conn).Close() // it is not used any more
	}
}

// door is a connection that is listed until it is closed.
type door struct {
	net.Conn
	of *doors
}

// NetConn is what it wraps, for package connlimit.
func (d *door) NetConn() net.Conn { return d.Conn }

func (d *door) Close() error {
	d.of.open.CompareAndDelete(d.RemoteAddr().String(), d)
	return d.Conn.Close()
}

// ServerHandshake lets the peer in or tells why not.
func (c *watchedCreds) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	d := &door{conn, c.doors}
	c.doors.open.Store(conn.RemoteAddr().String(), d)
	sealed, info, err := c.TransportCredentials.ServerHandshake(d)
	if err != nil {
		c.doors.open.CompareAndDelete(conn.RemoteAddr().String(), d)
		c.audit.handshake(conn.RemoteAddr().String(), err)
	}
	return sealed, info, err
}

// Clone copies it.
func (c *watchedCreds) Clone() credentials.TransportCredentials {
	return &watchedCreds{c.TransportCredentials.Clone(), c.audit, c.doors}
}

// watchedLog is the log of the HTTP server, which says there, and nowhere else, whom a handshake refused.
type watchedLog struct {
	slog.Handler
	audit *auditor
}

const handshakeWords = "http: TLS handshake error from "

// Handle takes refused handshakes to the audit log; everything else is the log's.
func (h *watchedLog) Handle(ctx context.Context, r slog.Record) error {
	if rest, ok := strings.CutPrefix(r.Message, handshakeWords); ok {
		address, why, _ := strings.Cut(rest, ": ")
		err := errors.New(why)
		if why == io.EOF.Error() {
			err = io.EOF
		}
		h.audit.handshake(address, err)
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// handshake writes of a peer that was refused. Somebody who connects and says nothing, as probes of ports do, was not
// refused.
func (a *auditor) handshake(address string, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) {
		a.log.Debug("a connection without a handshake", "address", address, "err", err)
		return
	}
	_ = a.refusal(caller{Name: unknown, Address: address}, "connect", "", &identityError{certs.Explain(err).Error()})
}
