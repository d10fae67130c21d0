package gcm

import (
	"crypto/aes"
	"crypto/cipher"
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

// possible says whether this processor can compute the form.
func (f form) possible() bool {
	switch f {
	case wideForm:
		return hasWide
	case narrowForm:
		return hasNarrow
	}
	return f == libraryForm
}

// best is the first form that this processor can compute.
func best() form {
	f := wideForm
	for !f.possible() {
		f++
	}
	return f
}

// New is an AEAD with the key in the best form.
func New(key []byte) (cipher.AEAD, error) { return newForm(key, best()) }

// newForm is an AEAD in one form, for comparisons. Errors: a key that has not KeySize bytes, a form that this processor
// lacks.
func newForm(key []byte, f form) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("gcm: a key of %d bytes; it must have %d", len(key), KeySize)
	}
	if !f.possible() {
		return nil, fmt.Errorf("gcm: this processor cannot compute form %d of the cipher", f)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if f == libraryForm {
		return cipher.NewGCM(block)
	}
	return assembled(key, block, f), nil
}
