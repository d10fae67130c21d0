package decision

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"ringlet/internal/secret"
)

// The proof of a secret behind an outlet of decisions (docs/format/decision.md).
const (
	asksMark  = "RLDN" // the server's nonce follows
	joinsMark = "RLDP" // the subscriber's nonce and proof follow
	handsMark = "RLDS" // the server's proof follows, and then decisions
	askSize   = len(asksMark) + secret.NonceSize
	joinSize  = len(joinsMark) + secret.NonceSize + secret.ProofSize
	proofTime = 5 * time.Second
)

// errProof says that the other end has not the secret.
var errProof = errors.New("the other end of the outlet of decisions does not prove that it has the secret")

// authentic asks a subscriber for a proof, and gives the server's.
func (s *Server) authentic(conn net.Conn) error {
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(proofTime)); err != nil {
		return err
	}
	nonce := secret.Nonce()
	if _, err := conn.Write(append([]byte(asksMark), nonce...)); err != nil {
		return err
	}
	var got [joinSize]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return err
	}
	own := got[len(joinsMark) : len(joinsMark)+secret.NonceSize]
	want := append(append([]byte(joinsMark), own...), secret.Proof(s.secret, joinsMark, nonce, own)...)
	if !secret.Equal(got[:], want) {
		return errProof
	}
	if _, err := conn.Write(append([]byte(handsMark), secret.Proof(s.secret, handsMark, nonce, own)...)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}
