//go:build !libcipher

package gcm

import (
	"crypto/cipher"
	"crypto/subtle"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Bits of CPUID leaf 7.
const vectorBits = 1<<9 | 1<<10 // VAES and VPCLMULQDQ

// x/sys/cpu also checks that the operating system saves the registers.
var (
	hasNarrow = cpu.X86.HasAVX2 && cpu.X86.HasAES && leaf7()&vectorBits == vectorBits
	hasWide   = hasNarrow && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasBMI2
)

// aead is either form in assembly.
type aead struct {
	schedule
	wide bool
}

func assembled(key []byte, block cipher.Block, f form) AEAD {
	a := &aead{wide: f == wideForm}
	a.expand(key, block)
	return a
}

func (a *aead) NonceSize() int { return NonceSize }

func (a *aead) Overhead() int { return Overhead }

// Seal is cipher.AEAD's. It panics as crypto/cipher does: if nonce has not NonceSize bytes, the plaintext is too long,
// or dst overlaps it other than exactly.
func (a *aead) Seal(dst, nonce, plaintext, aad []byte) []byte {
	checkSizes(nonce, len(plaintext))
	ret, out := sliceForAppend(dst, len(plaintext)+Overhead)
	if inexactOverlap(out, plaintext) {
		panic("gcm: the output overlaps the plaintext, and begins elsewhere")
	}
	if anyOverlap(out, aad) {
		panic("gcm: the output overlaps the additional data")
	}
	a.seal(out, nonce, nil, plaintext, aad)
	return ret
}

// Open is cipher.AEAD's. If the message is not authentic, it clears the bytes that it has written.
func (a *aead) Open(dst, nonce, sealed, aad []byte) ([]byte, error) {
	n := len(sealed) - Overhead
	checkSizes(nonce, n)
	if n < 0 {
		return nil, errOpen
	}
	ret, out := sliceForAppend(dst, n)
	if inexactOverlap(out, sealed) {
		panic("gcm: the output overlaps the message, and begins elsewhere")
	}
	if anyOverlap(out, aad) {
		panic("gcm: the output overlaps the additional data")
	}
	if !a.open(out, nonce, sealed, false, aad) {
		clear(out)
		return nil, errOpen
	}
	return ret, nil
}

// SealApart is AEAD's.
func (a *aead) SealApart(dst, nonce []byte, first *[FirstSize]byte, rest, aad []byte) {
	checkSizes(nonce, FirstSize+len(rest))
	dst = dst[:FirstSize+len(rest)+Overhead]
	if anyOverlap(dst, rest) || anyOverlap(dst, aad) {
		panic("gcm: the output overlaps the plaintext or the additional data")
	}
	a.seal(dst, nonce, first, rest, aad)
}

// OpenApart is AEAD's.
func (a *aead) OpenApart(rest, nonce, sealed, aad []byte) error {
	checkSizes(nonce, len(sealed))
	if len(sealed) != FirstSize+len(rest)+Overhead {
		return errOpen
	}
	if anyOverlap(rest, sealed) || anyOverlap(rest, aad) {
		panic("gcm: the output overlaps the message or the additional data")
	}
	if !a.open(rest, nonce, sealed, true, aad) {
		clear(rest)
		return errOpen
	}
	return nil
}

// Peek is AEAD's.
func (a *aead) Peek(to *[FirstSize]byte, nonce, sealed []byte) {
	checkSizes(nonce, FirstSize)
	sealed = sealed[:FirstSize]
	j0 := initialCounter(nonce)
	if a.wide {
		peek512(&a.rounds[0][0][0], &j0[0], &to[0], unsafe.SliceData(sealed))
	} else {
		a.peekNarrow(&j0, to, sealed)
	}
}

// seal seals the first bytes, unless apart is nil, and then the rest.
func (a *aead) seal(out, nonce []byte, apart *[FirstSize]byte, rest, aad []byte) {
	j0 := initialCounter(nonce)
	var tag [blockSize]byte
	n := len(out) - Overhead
	if a.wide {
		seal512(&a.rounds[0][0][0], &j0[0], (*byte)(unsafe.Pointer(apart)), unsafe.SliceData(out), unsafe.SliceData(rest),
			len(rest), unsafe.SliceData(aad), len(aad), &tag[0])
	} else {
		a.sealNarrow(&j0, out[:n], apart, rest, aad, &tag)
	}
	copy(out[n:], tag[:])
}

// open opens a sealed message, or the part behind its first bytes, and reports whether it is authentic.
func (a *aead) open(out, nonce, sealed []byte, apart bool, aad []byte) bool {
	j0 := initialCounter(nonce)
	var tag, want [blockSize]byte
	n := len(sealed) - Overhead
	copy(want[:], sealed[n:])
	if a.wide {
		var behind *byte
		if apart {
			behind = unsafe.SliceData(sealed)
		}
		open512(&a.rounds[0][0][0], &j0[0], behind, unsafe.SliceData(out), unsafe.SliceData(sealed), len(out),
			unsafe.SliceData(aad), len(aad), &tag[0])
	} else {
		a.openNarrow(&j0, out, sealed[:n], apart, aad, &tag)
	}
	return subtle.ConstantTimeCompare(tag[:], want[:]) == 1
}

func checkSizes(nonce []byte, n int) {
	if len(nonce) != NonceSize {
		panic("gcm: the nonce must have 12 bytes")
	}
	if n > maxLength {
		panic("gcm: the message is too long for one nonce")
	}
}
