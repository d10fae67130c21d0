//go:build !libcipher

package gcm

import (
	"crypto/cipher"
	"crypto/subtle"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Of CPUID, leaf 7.
const hasVectors = 1<<9 | 1<<10 // VAES and VPCLMULQDQ

// x/sys/cpu looks as well at whether the operating system saves the registers.
var (
	hasNarrow = cpu.X86.HasAVX2 && cpu.X86.HasAES && leaf7()&hasVectors == hasVectors
	hasWide   = hasNarrow && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasBMI2
)

// aead is either form in assembly.
type aead struct {
	schedule
	wide bool
}

func assembled(key []byte, block cipher.Block, f form) cipher.AEAD {
	a := &aead{wide: f == wideForm}
	a.expand(key, block)
	return a
}

func (a *aead) NonceSize() int { return NonceSize }

func (a *aead) Overhead() int { return Overhead }

// Seal is that of cipher.AEAD. It panics as crypto/cipher does: where nonce has not NonceSize bytes, the plaintext is
// too long, or dst overlaps it other than exactly.
func (a *aead) Seal(dst, nonce, plaintext, aad []byte) []byte {
	check(nonce, len(plaintext))
	whole, out := grow(dst, len(plaintext)+Overhead)
	if overlaps(out, plaintext) {
		panic("gcm: the output overlaps the plaintext, and begins elsewhere")
	}
	if overlapsAtAll(out, aad) {
		panic("gcm: the output overlaps the additional data")
	}
	j0 := first(nonce)
	var tag [blockSize]byte
	if a.wide {
		seal512(&a.rounds[0][0][0], &j0[0], unsafe.SliceData(out), unsafe.SliceData(plaintext), len(plaintext),
			unsafe.SliceData(aad), len(aad), &tag[0])
	} else {
		a.sealNarrow(&j0, out[:len(plaintext)], plaintext, aad, &tag)
	}
	copy(out[len(plaintext):], tag[:])
	return whole
}

// Open is that of cipher.AEAD. Where the message is not authentic, what was written of it is cleared.
func (a *aead) Open(dst, nonce, sealed, aad []byte) ([]byte, error) {
	n := len(sealed) - Overhead
	check(nonce, n)
	if n < 0 {
		return nil, errOpen
	}
	whole, out := grow(dst, n)
	if overlaps(out, sealed) {
		panic("gcm: the output overlaps the message, and begins elsewhere")
	}
	if overlapsAtAll(out, aad) {
		panic("gcm: the output overlaps the additional data")
	}
	j0 := first(nonce)
	var tag, want [blockSize]byte
	copy(want[:], sealed[n:])
	if a.wide {
		open512(&a.rounds[0][0][0], &j0[0], unsafe.SliceData(out), unsafe.SliceData(sealed), n, unsafe.SliceData(aad),
			len(aad), &tag[0])
	} else {
		a.openNarrow(&j0, out, sealed[:n], aad, &tag)
	}
	if subtle.ConstantTimeCompare(tag[:], want[:]) != 1 {
		clear(out)
		return nil, errOpen
	}
	return whole, nil
}

func check(nonce []byte, n int) {
	if len(nonce) != NonceSize {
		panic("gcm: the nonce must have 12 bytes")
	}
	if n > maxLength {
		panic("gcm: the message is too long for one nonce")
	}
}

// first is the first counter block (SP 800-38D, section 7.1, step 2).
func first(nonce []byte) (j0 [blockSize]byte) {
	copy(j0[:], nonce)
	j0[blockSize-1] = 1
	return j0
}
