package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"errors"
	"fmt"
)

// Sizes in bytes.
const (
	KeySize   = 16
	NonceSize = 12
	Overhead  = 16 // of the tag
	blockSize = 16
)

// maxLength is how much one nonce may seal: 2^32 - 2 blocks (SP 800-38D, section 5.2.1.1).
const maxLength = (1<<32 - 2) * blockSize

// FirstSize is how much of a message may lie elsewhere than the rest, bytes.
const FirstSize = 64

// AEAD is the cipher with a key. Beside what crypto/cipher knows it takes messages that lie in two places: FirstSize
// bytes, and the rest, which is sealed from where it lies and opened to where it belongs.
type AEAD interface {
	cipher.AEAD
	// SealApart is Seal of first and rest, to dst, which has room for both and Overhead more, and overlaps neither.
	SealApart(dst, nonce []byte, first *[FirstSize]byte, rest, aad []byte)
	// Peek opens the first FirstSize bytes of a sealed message, and authenticates nothing. One goroutine at a time calls
	// it.
	Peek(first *[FirstSize]byte, nonce, sealed []byte)
	// OpenApart is Open of all that is behind the first bytes, to rest, which has the length of that and does not overlap
	// sealed. It authenticates the first bytes, too. Where the message is not authentic, rest is cleared. What sealed
	// holds afterwards is undefined.
	OpenApart(rest, nonce, sealed, aad []byte) error
}

var errOpen = errors.New("gcm: the message is not authentic")

// form is a way to compute the cipher. All forms give the same bytes.
type form int

// The forms, the best first.
const (
	wideForm    form = iota // VAES and VPCLMULQDQ on registers of 512 bits
	narrowForm              // the same on registers of 256 bits
	libraryForm             // crypto/cipher
)

func (f form) String() string {
	return [...]string{"vaes-512", "vaes-256", "crypto/cipher"}[f]
}

// isSupported says whether this processor can compute the form.
func (f form) isSupported() bool {
	switch f {
	case wideForm:
		return hasWide
	case narrowForm:
		return hasNarrow
	}
	return f == libraryForm
}

// bestForm is the first form that this processor can compute.
func bestForm() form {
	f := wideForm
	for !f.isSupported() {
		f++
	}
	return f
}

// New is an AEAD with the key in the best form.
func New(key []byte) (AEAD, error) { return newForm(key, bestForm()) }

// newForm is an AEAD in one form, for comparisons. Errors: a key that has not KeySize bytes, a form that this processor
// lacks.
func newForm(key []byte, f form) (AEAD, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("gcm: a key of %d bytes; it must have %d", len(key), KeySize)
	}
	if !f.isSupported() {
		return nil, fmt.Errorf("gcm: this processor cannot compute form %d of the cipher", f)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if f == libraryForm {
		std, err := cipher.NewGCM(block)
		return &libraryAEAD{AEAD: std, block: block}, err
	}
	return assembled(key, block, f), nil
}

// libraryAEAD is the form of crypto/cipher. What lies apart it seals and opens in one place, and copies.
type libraryAEAD struct {
	cipher.AEAD
	block         cipher.Block
	peekKeyStream [FirstSize]byte // the key stream of Peek
}

func (l *libraryAEAD) SealApart(dst, nonce []byte, first *[FirstSize]byte, rest, aad []byte) {
	n := copy(dst, first[:])
	n += copy(dst[n:], rest)
	l.Seal(dst[:0], nonce, dst[:n], aad)
}

func (l *libraryAEAD) Peek(to *[FirstSize]byte, nonce, sealed []byte) {
	j0 := initialCounter(nonce)
	for i := 0; i < FirstSize; i += blockSize {
		j0[blockSize-1]++
		copy(l.peekKeyStream[i:], j0[:])
		l.block.Encrypt(l.peekKeyStream[i:], l.peekKeyStream[i:])
	}
	subtle.XORBytes(to[:], l.peekKeyStream[:], sealed[:FirstSize])
}

func (l *libraryAEAD) OpenApart(rest, nonce, sealed, aad []byte) error {
	plain, err := l.Open(sealed[:0], nonce, sealed, aad)
	if err != nil {
		clear(rest)
		return errOpen
	}
	copy(rest, plain[FirstSize:])
	return nil
}

// initialCounter is the first counter block (SP 800-38D, section 7.1, step 2).
func initialCounter(nonce []byte) (j0 [blockSize]byte) {
	copy(j0[:], nonce)
	j0[blockSize-1] = 1
	return j0
}
