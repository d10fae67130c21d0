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

// auditedCreds writes refused TLS handshakes of gRPC to the audit log, and tracks the other connections in conns.
type auditedCreds struct {
	credentials.TransportCredentials
	audit *auditor
	conns *openConns
}

// openConns are the open gRPC connections by the address of their peer. A gRPC stream keeps data that its peer does not
// read, even after the end of the stream; only closing the connection frees them.
type openConns struct{ byAddress sync.Map }

// closeConn closes the connection of a peer, if there is one.
func (d *openConns) closeConn(address string) {
	if conn, ok := d.byAddress.Load(address); ok {
		_ = conn.(net.Conn).Close() // the peer does not read
	}
}

// trackedConn is a connection in conns until it is closed.
type trackedConn struct {
	net.Conn
	conns *openConns
}

// NetConn returns the wrapped connection, for package connlimit.
func (d *trackedConn) NetConn() net.Conn { return d.Conn }

func (d *trackedConn) Close() error {
	d.conns.byAddress.CompareAndDelete(d.RemoteAddr().String(), d)
	return d.Conn.Close()
}

// ServerHandshake implements credentials.TransportCredentials.
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

// Clone implements credentials.TransportCredentials.
func (c *auditedCreds) Clone() credentials.TransportCredentials {
	return &auditedCreds{c.TransportCredentials.Clone(), c.audit, c.conns}
}

// auditedLog is the log handler of the HTTP server: net/http reports refused TLS handshakes only in its log.
type auditedLog struct {
	slog.Handler
	audit *auditor
}

const handshakeWords = "http: TLS handshake error from "

// Handle writes refused handshakes to the audit log, and passes on all other records.
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

// writeHandshake writes an audit entry for a refused peer. A peer that connects and sends nothing, as port probes do,
// is not refused, and gets none.
func (a *auditor) writeHandshake(address string, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) {
		a.log.Debug("a connection without a handshake", "address", address, "err", err)
		return
	}
	_ = a.writeRefusal(caller{Name: unknownName, Address: address}, "connect", "",
		&identityError{certs.Explain(err).Error()})
}
