package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"ringlet/node/certs"
)

// handshakeTimeout is how long two processes may take to authenticate each other; the tests stretch it.
var handshakeTimeout = 10 * time.Second

// Dial connects to the process of that name.
func Dial(ctx context.Context, id *certs.Identity, name, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: id.Client(name)}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("bench: %s at %s: %w", name, addr, certs.Explain(err))
	}
	// TLS 1.3 lets the dialler finish first: only an answer shows that the other side accepted its certificate.
	return conn, nil
}

// Accept waits for a peer that proves its name. A peer that cannot is turned away, and refused, which may be nil, is
// called with the reason. The listener stays open.
func Accept(ctx context.Context, l net.Listener, id *certs.Identity, refused func(error)) (net.Conn, string, error) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		raw, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, "", err
		}
		conn := tls.Server(raw, id.Server())
		peer, err := handshake(ctx, conn)
		if err == nil {
			return conn, peer, nil
		}
		_ = raw.Close()
		if refused != nil {
			refused(fmt.Errorf("bench: turned %s away: %w", raw.RemoteAddr(), certs.Explain(err)))
		}
		if ctx.Err() != nil {
			return nil, "", errors.Join(ctx.Err(), err)
		}
	}
}

func handshake(ctx context.Context, conn *tls.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return "", err
	}
	p, err := certs.PeerIdentity(conn.ConnectionState())
	return p.Name, err
}

// peerName reads a peer's name from its verified certificate, for the data network.
func peerName(cs tls.ConnectionState) (string, error) {
	p, err := certs.PeerIdentity(cs)
	return p.Name, err
}
