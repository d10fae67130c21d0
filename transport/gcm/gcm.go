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
	Overhead  = 16 // length of the tag
	blockSize = 16
)

// maxLength is the most bytes for one nonce: 2^32 - 2 blocks (SP 800-38D, section 5.2.1.1).
const maxLength = (1<<32 - 2) * blockSize

// FirstSize is the size of the first part of a message in two parts, bytes.
const FirstSize = 64

// AEAD is the cipher with a key. Beside crypto/cipher's methods it has some for a message in two places: its first
// FirstSize bytes, and the rest, which is sealed from its source and opened into its destination.
type AEAD interface {
	cipher.AEAD
	// SealApart seals first and rest into dst, which must have Overhead bytes more than both, and overlap neither.
	SealApart(dst, nonce []byte, first *[FirstSize]byte, rest, aad []byte)
	// Peek decrypts the first FirstSize bytes of a sealed message without authentication. One goroutine at a time calls
	// it.
	Peek(first *[FirstSize]byte, nonce, sealed []byte)
	// OpenApart opens all bytes behind the first FirstSize ones into rest, which must have exactly their length and not
	// overlap sealed. It authenticates the first bytes, too. If the message is not authentic, it clears rest. Afterwards
	// sealed holds undefined bytes.
	OpenApart(rest, nonce, sealed, aad []byte) error
}

var errOpen = errors.New("gcm: the message is not authentic")

// form is an implementation of the cipher. All forms give the same bytes.
type form int

// Forms, the fastest first.
const (
	wideForm    form = iota // VAES and VPCLMULQDQ with registers of 512 bits
	narrowForm              // the same with registers of 256 bits
	libraryForm             // crypto/cipher
)

func (f form) String() string {
	return [...]string{"vaes-512", "vaes-256", "crypto/cipher"}[f]
}

// isSupported reports whether this processor can run the form.
func (f form) isSupported() bool {
	switch f {
	case wideForm:
		return hasWide
	case narrowForm:
		return hasNarrow
	}
	return f == libraryForm
}

// bestForm is the fastest form that this processor can run.
func bestForm() form {
	f := wideForm
	for !f.isSupported() {
		f++
	}
	return f
}

// New makes an AEAD with the key, in the fastest form.
func New(key []byte) (AEAD, error) { return newForm(key, bestForm()) }

// newForm makes an AEAD in the given form, for comparisons. Errors: a key that has not KeySize bytes, or a form that
// this processor cannot run.
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

// libraryAEAD is the form of crypto/cipher. It copies a message in two places into one.
type libraryAEAD struct {
	cipher.AEAD
	block         cipher.Block
	peekKeyStream [FirstSize]byte // the key stream for Peek
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

// initialCounter returns the first counter block (SP 800-38D, section 7.1, step 2).
func initialCounter(nonce []byte) (j0 [blockSize]byte) {
	copy(j0[:], nonce)
	j0[blockSize-1] = 1
	return j0
}
