package frames

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ringlet/internal/regular"
)

// Both ends of a connection can prove that they have a secret, and neither sends it (docs/format/frames.md).
const (
	nonceSize   = 24 // Ringlet's: what an answer has besides its code
	proofMagic  = "RLFP"
	readoutMark = "RLFS" // what begins the text of Ringlet's proof
	leastSecret = 16
	leastNonce  = 16 // the front-end's: the bytes of its option 3
)

// cutSecret takes an address and the file of its secret apart: HOST:PORT?secret=FILE.
func cutSecret(text string) (at, file string, err error) {
	at, query, asked := strings.Cut(text, "?")
	if !asked {
		return at, "", nil
	}
	file, ok := strings.CutPrefix(query, "secret=")
	if !ok || file == "" {
		return at, "", fmt.Errorf("%q asks for something unknown: give HOST:PORT, or HOST:PORT?secret=FILE", text)
	}
	return at, file, nil
}

// TCP is the host and the port of a source's address.
func TCP(text string) string {
	at, _, _ := strings.Cut(text, "?")
	return at
}

// ReadSecret reads a secret of 16 to 256 bytes from a regular file that others of the host cannot read. Ends of lines
// behind it do not count.
func ReadSecret(name string) ([]byte, error) {
	f, err := regular.Open(name)
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
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+3))
	if err != nil {
		return nil, err
	}
	if b = bytes.TrimRight(b, "\r\n"); len(b) < leastSecret || len(b) > maxSecret {
		return nil, fmt.Errorf("%s holds no secret of %d to %d bytes: make one with openssl rand -hex 32", name, leastSecret,
			maxSecret)
	}
	return b, nil
}

// proof is what one end says: mark tells which. nonce is Ringlet's; the front-end's is in its hello.
func proof(secret []byte, mark string, nonce, hello []byte) []byte {
	h := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(h, mark)
	_, _ = h.Write(nonce)
	_, _ = h.Write(hello)
	return h.Sum(nil)
}

// challenge is the answer that asks for a proof, and gives Ringlet's own.
func challenge(nonce, own []byte) answer {
	return answer{
		Code:     prove,
		A:        binary.LittleEndian.Uint64(nonce),
		B:        binary.LittleEndian.Uint64(nonce[8:]),
		C:        binary.LittleEndian.Uint32(nonce[16:]),
		D:        binary.LittleEndian.Uint32(nonce[20:]),
		Sentence: hex.EncodeToString(own),
	}
}

// authentic asks the front-end that has said hello for a proof, if the input has a secret. The refusal is nil where it
// is proven.
func (s *session) authentic(h hello) *answer {
	secret := s.feed.secret
	if secret == nil || h.Version != version && h.Version != first { // which is refused for that
		return nil
	}
	refuse := func(why string) *answer {
		return &answer{Code: badSource, Sentence: fmt.Sprintf("input %s asks for a secret, and %s", s.feed.set.Name, why)}
	}
	if !h.Proves {
		return refuse("the front-end has none: give it that of the input, with a client of this Ringlet")
	}
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // which never fails
	_ = s.c.SetWriteDeadline(time.Now().Add(helloMost))
	b := appendAnswer(nil, s.version, challenge(nonce[:], proof(secret, readoutMark, nonce[:], s.said)))
	if _, err := s.c.Write(b); err != nil {
		return refuse("the connection ended before the proof: " + err.Error())
	}
	if s.feed.ctx.Err() == nil {
		_ = s.c.SetWriteDeadline(time.Time{})
	}
	var got [len(proofMagic) + sha256.Size]byte
	want := append([]byte(proofMagic), proof(secret, proofMagic, nonce[:], s.said)...)
	switch _, err := io.ReadFull(s.c, got[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse("the front-end left without a proof")
	case err != nil:
		return refuse(fmt.Sprintf("no proof came within %v of the connection", helloMost))
	case !hmac.Equal(got[:], want):
		return refuse("the one of the front-end is another: give both the same file")
	}
	return nil
}
