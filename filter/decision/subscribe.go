package decision

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"ringlet/internal/secret"
)

// The proof of a secret at an outlet of decisions (docs/format/decision.md).
const (
	challengeMark = "RLDN" // the server's nonce follows
	proofMark     = "RLDP" // the subscriber's nonce and proof follow
	acceptMark    = "RLDS" // the server's proof follows, and then decisions
	challengeSize = len(challengeMark) + secret.NonceSize
	proofSize     = len(proofMark) + secret.NonceSize + secret.ProofSize
	proofTimeout  = 5 * time.Second
)

// errProof says that the other end does not have the secret.
var errProof = errors.New("the other end of the outlet of decisions does not prove that it has the secret")

// authenticate asks a subscriber for a proof, and sends the server's.
func (s *Server) authenticate(conn net.Conn) error {
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(proofTimeout)); err != nil {
		return err
	}
	nonce := secret.NewNonce()
	if _, err := conn.Write(append([]byte(challengeMark), nonce...)); err != nil {
		return err
	}
	var got [proofSize]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return err
	}
	peerNonce := got[len(proofMark) : len(proofMark)+secret.NonceSize]
	want := append(append([]byte(proofMark), peerNonce...), secret.Proof(s.secret, proofMark, nonce, peerNonce)...)
	if !secret.Equal(got[:], want) {
		return errProof
	}
	if _, err := conn.Write(append([]byte(acceptMark), secret.Proof(s.secret, acceptMark, nonce,
		peerNonce)...)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}
