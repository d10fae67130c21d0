package frames

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"ringlet/internal/secret"
)

// Both ends of a connection can prove that they have a secret, and neither sends it (docs/format/frames.md).
const (
	proofMagic        = "RLFP"
	readoutProofMagic = "RLFS" // the signed text of Ringlet's proof begins with it
	minNonce          = 16     // of the front-end, in bytes: its option 3
)

// challengeAnswer returns the answer that asks for a proof, and carries Ringlet's own.
func challengeAnswer(nonce, proof []byte) answer {
	return answer{
		Code:     codeProofWanted,
		A:        binary.LittleEndian.Uint64(nonce),
		B:        binary.LittleEndian.Uint64(nonce[8:]),
		C:        binary.LittleEndian.Uint32(nonce[16:]),
		D:        binary.LittleEndian.Uint32(nonce[20:]),
		Sentence: hex.EncodeToString(proof),
	}
}

// verifyProof asks a front-end whose hello has come for a proof, if the input has a secret. It returns nil if the
// proof is right, or none is needed; otherwise the refusal.
func (s *session) verifyProof(h hello) *answer {
	key := s.feed.secret
	if key == nil || h.Version != currentVersion && h.Version != version1 { // attach refuses the version
		return nil
	}
	refuse := func(why string) *answer {
		return &answer{Code: codeBadSource, Sentence: fmt.Sprintf("input %s asks for a secret, and %s", s.feed.set.Name, why)}
	}
	if !h.HasSecret {
		return refuse("the front-end has none: give it the secret of the input, with a client of this Ringlet")
	}
	nonce := secret.NewNonce() // as many bytes as an answer has besides its code
	_ = s.conn.SetWriteDeadline(time.Now().Add(helloTimeout))
	b := appendAnswer(nil, s.version, challengeAnswer(nonce, secret.Proof(key, readoutProofMagic, nonce, s.helloBytes)))
	if _, err := s.conn.Write(b); err != nil {
		return refuse("the connection ended before the proof: " + err.Error())
	}
	if s.feed.ctx.Err() == nil {
		_ = s.conn.SetWriteDeadline(time.Time{})
	}
	var got [len(proofMagic) + secret.ProofSize]byte
	want := append([]byte(proofMagic), secret.Proof(key, proofMagic, nonce, s.helloBytes)...)
	switch _, err := io.ReadFull(s.conn, got[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse("the front-end left without a proof")
	case err != nil:
		return refuse(fmt.Sprintf("no proof came within %v of the connection", helloTimeout))
	case !secret.Equal(got[:], want):
		return refuse("the front-end has another one: give both the same file")
	}
	return nil
}
