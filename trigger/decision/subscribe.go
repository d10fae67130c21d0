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
	handsSize = len(handsMark) + secret.ProofSize
	proofTime = 5 * time.Second
)

// errProof says that the other end has not the secret.
var errProof = errors.New("the other end of the outlet of decisions does not prove that it has the secret")

// authentic asks a subscriber for a proof, and gives the server's.
func (s *Server) authentic(conn net.Conn) error {
	if s.secret == nil {
		return nil
	}
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
	if !secret.Same(got[:], want) {
		return errProof
	}
	if _, err := conn.Write(append([]byte(handsMark), secret.Proof(s.secret, handsMark, nonce, own)...)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// Subscribe proves to an outlet of decisions that this end has the secret, when the outlet asks for one; decisions
// follow on the connection. The caller bounds the wait with a deadline of the connection.
func Subscribe(conn io.ReadWriter, key []byte) error {
	var asked [askSize]byte
	if _, err := io.ReadFull(conn, asked[:]); err != nil {
		return err
	}
	if string(asked[:len(asksMark)]) != asksMark {
		return errProof
	}
	nonce, own := asked[len(asksMark):], secret.Nonce()
	say := append(append([]byte(joinsMark), own...), secret.Proof(key, joinsMark, nonce, own)...)
	if _, err := conn.Write(say); err != nil {
		return err
	}
	var got [handsSize]byte
	if _, err := io.ReadFull(conn, got[:]); err != nil {
		return err
	}
	if !secret.Same(got[:], append([]byte(handsMark), secret.Proof(key, handsMark, nonce, own)...)) {
		return errProof
	}
	return nil
}
