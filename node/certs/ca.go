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

// Role says what a certificate's holder is in the cluster.
type Role string

// The roles. Members build; users steer and look, and talk to the run control alone.
const (
	RoleControl  Role = "control"  // member: the process that is the run control
	RoleNode     Role = "node"     // member: a process that holds a readout unit, a builder unit or both
	RoleViewer   Role = "viewer"   // user: sees
	RoleOperator Role = "operator" // user: sees and commands
	RoleAdmin    Role = "admin"    // user: also takes control from others, and reads the audit log
)

var roles = []Role{RoleControl, RoleNode, RoleViewer, RoleOperator, RoleAdmin}

// valid says whether r is one of the roles.
func (r Role) valid() bool { return slices.Contains(roles, r) }

// IsUser says whether r is a person's role.
func (r Role) IsUser() bool { return r == RoleViewer || r == RoleOperator || r == RoleAdmin }

// TokenUserName is what the run control calls whoever came in by a token and not by a certificate; no certificate has
// it.
const TokenUserName = "local"

const (
	// defaultCALife of a development authority.
	defaultCALife = 365 * 24 * time.Hour
	// defaultLife of a node's certificate.
	defaultLife = 90 * 24 * time.Hour
	// clockSkew is taken off the beginning of each life: hosts whose clocks differ by less accept each other at once.
	clockSkew = 5 * time.Minute
)

// namePattern is what RFC 1123 allows as one label of a host name, so that a node's name is also a DNS name.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckName refuses names that cannot stand in a certificate as a host name.
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
// authority; 0 means defaultLife. hosts are host names and addresses under which the node may be dialled besides its
// name.
func (ca *CA) Issue(name string, hosts []string, role Role, life time.Duration) (*Identity, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if !role.valid() {
		return nil, fmt.Errorf("role %q of %s is not one of %s", role, name, strings.Trim(fmt.Sprint(roles), "[]"))
	}
	if name == TokenUserName && role.IsUser() {
		return nil, fmt.Errorf("a user cannot be called %q: that is who comes in by the token of a control", name)
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: name, OrganizationalUnit: []string{string(role)}},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		// A member listens and dials, a user dials.
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

// certify makes a key and a certificate of it, valid for life from now: by an authority, and no longer than it is, or
// by the key itself.
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

// newIdentity puts together what a node needs to prove itself and to judge others, who may be of any of the
// authorities.
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
