package secret

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"ringlet/internal/safeopen"
)

// Sizes in bytes. An attacker could find a shorter secret from a proof by trying.
const (
	MinSize   = 16
	MaxSize   = 256
	ProofSize = sha256.Size
	NonceSize = 24
)

// SplitAddress splits HOST:PORT?secret=FILE into the address and the file of its secret; file is empty if there is
// none.
func SplitAddress(text string) (at, file string, err error) {
	at, query, found := strings.Cut(text, "?")
	if !found {
		return at, "", nil
	}
	file, ok := strings.CutPrefix(query, "secret=")
	if !ok || file == "" {
		return at, "", fmt.Errorf("%q asks for something unknown: give HOST:PORT, or HOST:PORT?secret=FILE", text)
	}
	return at, file, nil
}

// SplitAndRead splits an address as SplitAddress does, and reads its secret; key is nil if the address names none.
func SplitAndRead(text string) (at string, key []byte, err error) {
	at, file, err := SplitAddress(text)
	if err != nil || file == "" {
		return at, nil, err
	}
	key, err = Read(file)
	return at, key, err
}

// Read reads a secret of MinSize to MaxSize bytes from a regular file, which must not be readable for all users of the
// host. It ignores line ends behind the secret.
func Read(name string) ([]byte, error) {
	f, err := safeopen.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if st.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s can be read or written by every user of this host, and is no secret: give chmod o= %s",
			name, name)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxSize+3))
	if err != nil {
		return nil, err
	}
	if b = bytes.TrimRight(b, "\r\n"); len(b) < MinSize || len(b) > MaxSize {
		return nil, fmt.Errorf("%s holds no secret of %d to %d bytes: make one with openssl rand -hex 32", name, MinSize,
			MaxSize)
	}
	return b, nil
}

// NewNonce is NonceSize random bytes.
func NewNonce() []byte {
	b := make([]byte, NonceSize)
	_, _ = rand.Read(b) // never fails
	return b
}

// Proof is the proof of one end: mark names the end, and messages are those of both ends, whose sizes both know.
func Proof(secret []byte, mark string, messages ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, mark)
	for _, p := range messages {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

// Equal compares proofs in a time that does not depend on where they differ.
func Equal(a, b []byte) bool { return hmac.Equal(a, b) }
