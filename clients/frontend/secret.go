package frontend

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// The proof of a secret (docs/format/frames.md).
const (
	codeProve  = 10
	helloNonce = 24
	minSecret  = 16
	maxSecret  = 256
)

// secretEnv is the environment variable with the file of the secret, if the settings name none.
const secretEnv = "RINGLET_SECRET_FILE"

// readSecret reads the secret of a stream over TCP, if it has one.
func (s *Stream) readSecret() error {
	name := s.settings.SecretFile
	if name == "" {
		name = os.Getenv(secretEnv)
	}
	if name == "" || s.network != "tcp" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("the secret cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+3))
	if err != nil {
		return fmt.Errorf("the secret cannot be read: %w", err)
	}
	if s.secret = bytes.TrimRight(b, "\r\n"); len(s.secret) < minSecret || len(s.secret) > maxSecret {
		return fmt.Errorf("%s holds no secret of %d to %d bytes: give the file that the input has", name, minSecret,
			maxSecret)
	}
	return nil
}

// appendNonce appends the option by which a hello says that there is a secret.
func (s *Stream) appendNonce(options []byte) []byte {
	if s.secret == nil {
		return options
	}
	var b [helloNonce]byte
	_, _ = rand.Read(b[:]) // never fails
	return append(append(options, 3, 0, helloNonce, 0), b[:]...)
}

// prove checks the readout unit's proof that it has the secret, sends this front-end's proof, and returns the next
// answer. hello is the hello that was sent, a the answer to it, which has the readout unit's proof.
func (s *Stream) prove(c io.ReadWriter, hello []byte, a answer) (answer, error) {
	switch {
	case s.secret == nil:
		return a, nil
	case a.code != codeProve:
		return a, &StreamError{Code: codeProve, Sentence: "the readout unit asks for no secret, and this front-end has " +
			"one, which proves who that is: put ?secret=FILE behind the address of the input, or leave it out here"}
	}
	nonce := binary.LittleEndian.AppendUint64(nil, a.a)
	nonce = binary.LittleEndian.AppendUint64(nonce, a.b)
	nonce = binary.LittleEndian.AppendUint32(nonce, a.c)
	nonce = binary.LittleEndian.AppendUint32(nonce, a.d)
	sign := func(mark string) []byte {
		h := hmac.New(sha256.New, s.secret)
		_, _ = h.Write(append(append([]byte(mark), nonce...), hello...))
		return h.Sum(nil)
	}
	if got, err := hex.DecodeString(a.text); err != nil || !hmac.Equal(got, sign("RLFS")) {
		return a, &StreamError{Code: codeProve, Sentence: "the readout unit does not prove that it has the secret of this " +
			"front-end: give both the same file, and look who listens at the address"}
	}
	if _, err := c.Write(append([]byte("RLFP"), sign("RLFP")...)); err != nil {
		return a, err
	}
	return readAnswer(c)
}
