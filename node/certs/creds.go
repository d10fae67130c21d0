package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"ringlet/internal/connlimit"
)

// expiredError ended a connection because the peer's certificate has expired.
type expiredError struct {
	Peer     string
	NotAfter time.Time
}

func (e *expiredError) Error() string {
	const text = "the certificate of %s was good until %s, so the connection was ended: give %s a new one, it is read " +
		"at once"
	return fmt.Sprintf(text, e.Peer, e.NotAfter.Format(time.RFC3339), e.Peer)
}

// ServerCredentials are the credentials to listen for members over gRPC, as in Server: with the present keys at each
// handshake, and no connection outlives the certificate of its peer.
func (id *Identity) ServerCredentials(log *slog.Logger) credentials.TransportCredentials {
	return expiringCredentials{TransportCredentials: credentials.NewTLS(id.Server()), log: log}
}

// ServerCredentialsForUsers are ServerCredentials for clients of the run control.
func (id *Identity) ServerCredentialsForUsers(log *slog.Logger) credentials.TransportCredentials {
	return expiringCredentials{TransportCredentials: credentials.NewTLS(id.ServerForUsers()), log: log}
}

// ClientCredentials are the credentials to dial the node of that name over gRPC, as in Client: with the present keys at
// each handshake, and no connection outlives the certificate of its peer.
func (id *Identity) ClientCredentials(name string, log *slog.Logger) credentials.TransportCredentials {
	return expiringCredentials{
		TransportCredentials: credentials.NewTLS(id.Client(name)),
		clientConfig:         func() *tls.Config { return id.Client(name) },
		log:                  log,
	}
}

// expiringCredentials are credentials for connections that may live longer than keys.
type expiringCredentials struct {
	credentials.TransportCredentials
	clientConfig func() *tls.Config // with the present keys; nil: for listening
	log          *slog.Logger
}

// ClientHandshake is gRPC's.
func (l expiringCredentials) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := credentials.NewTLS(l.clientConfig()).ClientHandshake(ctx, authority, raw)
	return l.wrap(conn, info), info, err
}

// ServerHandshake is gRPC's. Until the handshake is over, other connections may take the peer's place.
func (l expiringCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	connlimit.SetYielding(raw, true)
	conn, info, err := l.TransportCredentials.ServerHandshake(raw)
	if err == nil {
		connlimit.SetYielding(raw, false)
	}
	return l.wrap(conn, info), info, err
}

// Clone is gRPC's.
func (l expiringCredentials) Clone() credentials.TransportCredentials {
	l.TransportCredentials = l.TransportCredentials.Clone()
	return l
}

// wrap makes a connection that ends when the certificate of its peer expires.
func (l expiringCredentials) wrap(conn net.Conn, info credentials.AuthInfo) net.Conn {
	tlsInfo, ok := info.(credentials.TLSInfo)
	if !ok || conn == nil {
		return conn
	}
	m := &expiringConn{Conn: conn}
	m.timer = onExpiry(tlsInfo.State, func(why *expiredError) {
		m.expiry.Store(why)
		l.log.Warn("a connection was ended", "remote", conn.RemoteAddr(), "reason", why)
		_ = conn.Close()
	})
	return m
}

// expiringConn is a connection that ends when a certificate expires.
type expiringConn struct {
	net.Conn
	timer  *time.Timer
	expiry atomic.Pointer[expiredError]
}

// Read is net.Conn's.
func (m *expiringConn) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	return n, m.endError(err)
}

// Write is net.Conn's.
func (m *expiringConn) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	return n, m.endError(err)
}

func (m *expiringConn) endError(err error) error {
	if ended := m.expiry.Load(); ended != nil && err != nil {
		return ended
	}
	return err
}

// Close is net.Conn's.
func (m *expiringConn) Close() error {
	m.timer.Stop()
	return m.Conn.Close()
}

// onExpiry calls f when the certificate of the connection's peer, or of the authority that issued it, expires. The
// caller stops the timer if the connection ends earlier.
func onExpiry(state tls.ConnectionState, f func(*expiredError)) *time.Timer {
	who, end := expiryOf(state)
	return time.AfterFunc(time.Until(end), func() { f(&expiredError{Peer: who, NotAfter: end}) })
}

// expiryOf returns the peer's name and until when its certificates are valid.
func expiryOf(state tls.ConnectionState) (who string, end time.Time) {
	who = "the peer"
	if p, err := PeerIdentity(state); err == nil {
		who = p.Name
	}
	if len(state.PeerCertificates) > 0 {
		end = state.PeerCertificates[0].NotAfter
	}
	var chain time.Time // the latest end of any chain
	for _, c := range state.VerifiedChains {
		if first := earliestExpiry(c); first.After(chain) {
			chain = first
		}
	}
	if !chain.IsZero() {
		end = chain
	}
	return who, end
}

// earliestExpiry is when the first certificate of a chain expires.
func earliestExpiry(chain []*x509.Certificate) (first time.Time) {
	for _, c := range chain {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}
