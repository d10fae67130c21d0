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

// Sizes, bytes. A secret that is shorter could be guessed from a proof.
const (
	MinSize   = 16
	MaxSize   = 256
	ProofSize = sha256.Size
	NonceSize = 24
)

// SplitAddress takes an address and the file of its secret apart: HOST:PORT?secret=FILE. Without one the file is empty.
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

// SplitAndRead takes an address apart as SplitAddress does, and reads its secret; nil if it asks for none.
func SplitAndRead(text string) (at string, key []byte, err error) {
	at, file, err := SplitAddress(text)
	if err != nil || file == "" {
		return at, nil, err
	}
	key, err = Read(file)
	return at, key, err
}

// Read reads a secret of MinSize to MaxSize bytes from a regular file that others of the host cannot read. Ends of
// lines behind it do not count.
func Read(name string) ([]byte, error) {
	f, err := safeopen.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
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

// NewNonce is NonceSize bytes that nobody can foretell.
func NewNonce() []byte {
	b := make([]byte, NonceSize)
	_, _ = rand.Read(b) // which never fails
	return b
}

// Proof is what one end says: mark tells which, and the parts are what both have said, of sizes that both know.
func Proof(secret []byte, mark string, messages ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, mark)
	for _, p := range messages {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

// Equal compares proofs in a time that tells nothing of where they differ.
func Equal(a, b []byte) bool { return hmac.Equal(a, b) }
