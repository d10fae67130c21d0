package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"ringlet/internal/nodename"
)

// Peer is the holder of a certificate.
type Peer struct {
	Name string
	Role Role
}

// Identity is a node's certificate with its key, and the authorities that the node trusts. Several goroutines may use
// it. An identity from files is read again when they change: each handshake uses the present files.
type Identity struct {
	Peer

	current atomic.Pointer[keyMaterial]
	files   *watchedFiles // nil: not from files, never changes
}

// keyMaterial is the keys of an identity at one time. It is immutable.
type keyMaterial struct {
	ca   *x509.Certificate // issuer of the certificate
	pool *x509.CertPool    // all trusted authorities
	pair tls.Certificate

	revoked revocationList
}

// NotAfter is when the certificate expires.
func (id *Identity) NotAfter() time.Time { return id.material().pair.Leaf.NotAfter }

// material is the present keys.
func (id *Identity) material() *keyMaterial {
	if id.files != nil {
		id.files.reload(id)
	}
	return id.current.Load()
}

// Server returns the TLS configuration with which members listen for each other: every client must show a certificate
// of a trusted authority that names it as a member. Users are refused, since only the control commands members. The
// caller sets NextProtos if its protocol needs them (gRPC's credentials set them).
func (id *Identity) Server() *tls.Config {
	return id.server(func(p Peer) error {
		if p.Role.IsUser() {
			return &RefusedError{Why: NotAMember,
				Detail: fmt.Sprintf("%s has the user role %s, but this link is between members",
					p.Name, p.Role)}
		}
		return nil
	})
}

// ServerForUsers is Server for clients of the run control: every role may connect, and the listener decides what it may
// do.
func (id *Identity) ServerForUsers() *tls.Config {
	return id.server(func(Peer) error { return nil })
}

func (id *Identity) server(admit func(Peer) error) *tls.Config {
	config := func() *tls.Config {
		m := id.material()
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{m.pair},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    m.pool,
			// A resumed session would not check the present certificate; a link is dialled once and lives long.
			SessionTicketsDisabled: true,
			VerifyConnection: func(state tls.ConnectionState) error {
				peer, err := PeerIdentity(state)
				if err != nil {
					return err
				}
				if err := m.revoked.check(peer, state); err != nil {
					return err
				}
				return admit(peer)
			},
		}
	}
	first := config()
	if id.files == nil {
		return first
	}
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return config(), nil }
	return first
}

// WithProtocols makes a listener's configuration offer these protocols (ALPN), also with certificates that are read
// later.
func WithProtocols(c *tls.Config, protocols ...string) *tls.Config {
	c = c.Clone()
	c.NextProtos = protocols
	if of := c.GetConfigForClient; of != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := of(hello)
			if now != nil {
				now.NextProtos = protocols
			}
			return now, err
		}
	}
	return c
}

// Client returns the TLS configuration to dial the node of that name, whose process has the certificate. It refuses a
// listener of another process, even one of the same cluster that has the name as a host. It has the present
// authorities: a caller that dials for a long time calls Client anew for each try.
func (id *Identity) Client(node string) *tls.Config {
	name := nodename.ProcessOf(node)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Shown even to a listener that requests another authority's certificate: it then answers "unknown authority", while
		// a client without a certificate would only learn that one is required.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &id.material().pair, nil },
		RootCAs:              id.material().pool,
		ServerName:           name,
		VerifyConnection: func(state tls.ConnectionState) error {
			peer, err := PeerIdentity(state)
			if err != nil {
				return err
			}
			if peer.Name != name {
				return &RefusedError{Why: WrongName, Detail: fmt.Sprintf("dialled %s, but %s answered", node, peer.Name)}
			}
			return id.material().revoked.check(peer, state)
		},
	}
}

// PeerIdentity returns the peer of a handshake that verified its certificate. The error is a *RefusedError.
func PeerIdentity(state tls.ConnectionState) (Peer, error) {
	if len(state.PeerCertificates) == 0 {
		return Peer{}, &RefusedError{Why: NoCertificate, Detail: "the peer showed no certificate"}
	}
	if len(state.VerifiedChains) == 0 {
		return Peer{}, &RefusedError{Why: AnotherCA, Detail: "the peer's certificate was not verified"}
	}
	return identityOf(state.PeerCertificates[0])
}

const uriScheme = "ringlet"

func identityURI(name string, role Role) *url.URL {
	return &url.URL{Scheme: uriScheme, Host: string(role), Path: "/" + name}
}

// identityOf reads the one ringlet URI of a certificate.
func identityOf(cert *x509.Certificate) (Peer, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == uriScheme {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		return Peer{}, &RefusedError{Why: NoIdentity,
			Detail: fmt.Sprintf("the certificate of %q has %d ringlet:// names and needs one", cert.Subject.CommonName,
				len(found))}
	}
	p := Peer{Name: strings.TrimPrefix(found[0].Path, "/"), Role: Role(found[0].Host)}
	if CheckName(p.Name) != nil || !p.Role.valid() {
		return Peer{}, &RefusedError{Why: NoIdentity, Detail: fmt.Sprintf("%q names no node", found[0])}
	}
	return p, nil
}
