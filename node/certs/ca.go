package certs

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Role is the role of a certificate's holder in the cluster.
type Role string

// The roles. Members build events; users command and watch, and connect to the run control alone.
const (
	RoleControl  Role = "control"  // member: the process that is the run control
	RoleNode     Role = "node"     // member: a process that holds a readout unit, a builder unit or both
	RoleViewer   Role = "viewer"   // user: watches
	RoleOperator Role = "operator" // user: watches and commands
	RoleAdmin    Role = "admin"    // user: also takes control from other users, and reads the audit log
)

var roles = []Role{RoleControl, RoleNode, RoleViewer, RoleOperator, RoleAdmin}

// valid tells whether r is one of the roles.
func (r Role) valid() bool { return slices.Contains(roles, r) }

// IsUser tells whether r is the role of a user.
func (r Role) IsUser() bool { return r == RoleViewer || r == RoleOperator || r == RoleAdmin }

// TokenUserName is the run control's name for users that connect with a token instead of a certificate; no certificate
// has it.
const TokenUserName = "local"

const (
	// defaultCALife of a development authority.
	defaultCALife = 365 * 24 * time.Hour
	// defaultLife of a node's certificate.
	defaultLife = 90 * 24 * time.Hour
	// clockSkew is subtracted from the beginning of each life: hosts whose clocks differ by less accept each other at
	// once.
	clockSkew = 5 * time.Minute
)

// namePattern is what RFC 1123 allows as one label of a host name, so that a node's name is also a DNS name.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckName refuses names that cannot be host names in a certificate.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("name %q is not made of 1 to 63 letters a-z, digits and inner dashes", name)
	}
	return nil
}

// CA is a certificate authority with its key. It is immutable and may be used by several goroutines.
type CA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// NewCA makes an authority in memory that is valid for life from now; 0 means defaultCALife.
func NewCA(life time.Duration) (*CA, error) {
	serial := newSerial()
	cert, key, err := certify(&x509.Certificate{
		SerialNumber: serial,
		// Each authority has a name of its own, so that a chain to another one fails by name before it fails by signature.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("ringlet development authority %x", serial.Bytes()[:4])},
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, cmp.Or(life, defaultCALife), nil)
	if err != nil {
		return nil, err
	}
	return &CA{cert: cert, key: key}, nil
}

// Issue makes a certificate for the member or user of that name, valid for life from now but not longer than the
// authority; 0 means defaultLife. hosts are the node's host names and addresses beside its name.
func (ca *CA) Issue(name string, hosts []string, role Role, life time.Duration) (*Identity, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if !role.valid() {
		return nil, fmt.Errorf("role %q of %s is not one of %s", role, name, strings.Trim(fmt.Sprint(roles), "[]"))
	}
	if name == TokenUserName && role.IsUser() {
		return nil, fmt.Errorf("a user cannot be called %q: this name is that of users with the token of a control", name)
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: name, OrganizationalUnit: []string{string(role)}},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		// A member listens and dials, a user only dials.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name},
		URIs:        []*url.URL{identityURI(name, role)},
	}
	if !role.IsUser() {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range hosts {
		switch ip := net.ParseIP(h); {
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		case strings.Trim(h, ".") == "":
			return nil, fmt.Errorf("certificate of %s: %q is neither a host name nor an address", name, h)
		case h != name:
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	cert, key, err := certify(template, cmp.Or(life, defaultLife), ca)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", name, err)
	}
	return newIdentity(cert, key, ca.cert)
}

func newSerial() *big.Int {
	raw := make([]byte, 16)
	rand.Read(raw) // never fails (crypto/rand)
	raw[0] = raw[0]&0x7f | 0x40
	return new(big.Int).SetBytes(raw)
}

// certify makes a key and its certificate, valid for life from now: signed by an authority, and not valid longer than
// it, or self-signed.
func certify(template *x509.Certificate, life time.Duration, ca *CA) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-clockSkew), now.Add(life)
	if ca == nil {
		ca = &CA{template, key}
	} else if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// newIdentity combines the node's own certificate and key with the authorities that it trusts: the issuer and others.
func newIdentity(
	cert *x509.Certificate, key crypto.Signer, issuer *x509.Certificate, others ...*x509.Certificate,
) (*Identity, error) {
	peer, err := identityOf(cert)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, ca := range append(others, issuer) {
		pool.AddCert(ca)
	}
	id := &Identity{Peer: peer}
	id.current.Store(&keyMaterial{
		ca:   issuer,
		pool: pool,
		pair: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert},
	})
	return id, nil
}
