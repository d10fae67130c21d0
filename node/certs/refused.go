package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// Reason says why a peer was refused. Each has a text that serves as the name of a counter.
type Reason string

// The reasons.
const (
	AnotherCA     Reason = "another_ca"
	Expired       Reason = "expired"
	WrongName     Reason = "wrong_name"
	NoCertificate Reason = "no_certificate"
	NoIdentity    Reason = "no_identity"
	OldTLS        Reason = "old_tls"
	NotAMember    Reason = "no_member" // a user's certificate on a link between members
	Revoked       Reason = "revoked"
	RefusedByPeer Reason = "by_peer" // the peer refused this side, and its alert does not say why
)

// RefusedError says that a handshake failed because one side refused the other.
type RefusedError struct {
	Why    Reason
	Detail string // a sentence
	Cause  error  // the error of TLS; may be nil
}

func (e *RefusedError) Error() string {
	s := "peer refused: " + e.Detail
	if e.Cause != nil {
		s += " (" + e.Cause.Error() + ")"
	}
	return s
}

// Unwrap returns the error of TLS.
func (e *RefusedError) Unwrap() error { return e.Cause }

// tlsAlerts are the alerts of a peer that refuses this side. TLS sends only a number, and carriers (QUIC, gRPC) keep
// its text but not its type, so Explain looks for the text.
var tlsAlerts = []struct {
	text   string
	why    Reason
	detail string
}{
	{"unknown certificate authority", AnotherCA,
		"the other side does not know the authority of this node's certificate: both need certificates of one cluster"},
	{"expired certificate", Expired, "the other side finds this node's certificate expired or not yet valid"},
	{"certificate required", NoCertificate, "the other side asks for a certificate and got none"},
	{"protocol version not supported", OldTLS, "the other side does not speak TLS 1.3"},
	{"bad certificate", RefusedByPeer, "the other side refuses this node's certificate; its own log says why"},
}

// Explain turns the error of a failed handshake into a *RefusedError, if either side has refused the other. It returns
// any other error, also nil, unchanged.
func Explain(err error) error {
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return &RefusedError{Why: AnotherCA,
			Detail: "the peer's certificate is of another authority: both need certificates of one cluster", Cause: err}
	}
	var host x509.HostnameError
	if errors.As(err, &host) {
		return &RefusedError{Why: WrongName, Detail: "the peer is not the node that was dialled", Cause: err}
	}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return &RefusedError{Why: Expired, Detail: "the peer's certificate has expired or is not yet valid", Cause: err}
	}
	text := err.Error()
	var alert tls.AlertError
	if !errors.As(err, &alert) && !strings.Contains(text, "tls: ") {
		return err
	}
	// gRPC keeps the text of this side's own refusal, but not its type.
	if strings.Contains(text, "x509: certificate signed by unknown authority") {
		return &RefusedError{Why: AnotherCA,
			Detail: "the peer's certificate is of another authority: both need certificates of one cluster", Cause: err}
	}
	if strings.Contains(text, "didn't provide a certificate") {
		return &RefusedError{Why: NoCertificate, Detail: "the peer showed no certificate", Cause: err}
	}
	for _, a := range tlsAlerts {
		if strings.Contains(text, "tls: "+a.text) {
			return &RefusedError{Why: a.why, Detail: a.detail, Cause: err}
		}
	}
	return err
}

// ExplainUnanswered gives advice if words are the error of a handshake that began and got no answer in time: then the
// first packets of full size did not come through. It is empty for other words. gRPC has no type for this error.
func ExplainUnanswered(words string) string {
	if !strings.Contains(words, "handshake failed") || !strings.Contains(words, "deadline exceeded") &&
		!strings.Contains(words, "i/o timeout") {
		return ""
	}
	return "the connection is made, and its handshake gets no answer: either the process there stands still, or large " +
		"packets do not pass between the two hosts while small ones do; ringlet doctor --peer says which pass: have the " +
		"switches and routers on the way pass packets as large as the MTU of the interfaces, or set that MTU lower"
}
