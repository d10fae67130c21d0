//go:build !libcipher

package gcm

import (
	"encoding/binary"
	"unsafe"
)

// narrowBlock is the number of bytes that the narrow form handles per step.
const narrowBlock = 128

// narrowState is the narrow form's state between calls: the next two counter blocks, as numbers, and GHASH's sum.
type narrowState struct {
	counters [2]element
	sum      element
}

func (r *narrowState) setCounter(j0 *[blockSize]byte, counter uint64) {
	number := element{lo: binary.BigEndian.Uint64(j0[8:]), hi: binary.BigEndian.Uint64(j0[:8])}
	number.lo += counter - 1
	r.counters[0] = number
	number.lo++
	r.counters[1] = number
}

func (r *narrowState) bytes() *byte { return (*byte)(unsafe.Pointer(r)) }

func (a *aead) sealNarrow(j0 *[blockSize]byte, out []byte, apart *[FirstSize]byte, in, aad []byte,
	tag *[blockSize]byte) {
	r, n := a.hashAAD(j0, aad), len(out)
	if apart != nil {
		a.peekNarrow(j0, (*[FirstSize]byte)(out), apart[:])
		a.hashFirst(&r, j0, out)
		out = out[FirstSize:]
	}
	full := len(in) &^ (narrowBlock - 1)
	seal256(&a.rounds[0][0][0], r.bytes(), unsafe.SliceData(out), unsafe.SliceData(in), full)
	if rest := in[full:]; len(rest) > 0 {
		var b [narrowBlock]byte
		copy(b[:], rest)
		sum := r.sum // the sum after the whole step includes bytes behind the message
		seal256(&a.rounds[0][0][0], r.bytes(), &b[0], &b[0], narrowBlock)
		r.sum = sum
		clear(b[len(rest):])
		copy(out[full:], b[:])
		hash256(&a.rounds[0][0][0], r.bytes(), &b[0], len(rest))
	}
	a.finish(&r, j0, n, len(aad), tag)
}

func (a *aead) openNarrow(j0 *[blockSize]byte, out, in []byte, apart bool, aad []byte, tag *[blockSize]byte) {
	r, n := a.hashAAD(j0, aad), len(in)
	if apart {
		a.hashFirst(&r, j0, in)
		in = in[FirstSize:]
	}
	full := len(in) &^ (narrowBlock - 1)
	open256(&a.rounds[0][0][0], r.bytes(), unsafe.SliceData(out), unsafe.SliceData(in), full)
	if rest := in[full:]; len(rest) > 0 {
		var b [narrowBlock]byte
		copy(b[:], rest)
		hash256(&a.rounds[0][0][0], r.bytes(), &b[0], len(rest))
		sum := r.sum
		open256(&a.rounds[0][0][0], r.bytes(), &b[0], &b[0], narrowBlock)
		r.sum = sum
		copy(out[full:], b[:len(rest)])
	}
	a.finish(&r, j0, n, len(aad), tag)
}

// peekNarrow seals or opens the first bytes of a message, without authentication.
func (a *aead) peekNarrow(j0 *[blockSize]byte, to *[FirstSize]byte, from []byte) {
	var r narrowState
	var b [narrowBlock]byte
	r.setCounter(j0, 2)
	copy(b[:], from[:FirstSize])
	seal256(&a.rounds[0][0][0], r.bytes(), &b[0], &b[0], narrowBlock)
	copy(to[:], b[:])
}

// hashFirst adds the first sealed bytes to GHASH's sum, and moves the counter behind them.
func (a *aead) hashFirst(r *narrowState, j0 *[blockSize]byte, sealed []byte) {
	var b [narrowBlock]byte
	copy(b[:], sealed[:FirstSize])
	hash256(&a.rounds[0][0][0], r.bytes(), &b[0], FirstSize)
	r.setCounter(j0, 2+FirstSize/blockSize)
}

// hashAAD begins GHASH's sum with the additional data.
func (a *aead) hashAAD(j0 *[blockSize]byte, aad []byte) (r narrowState) {
	r.setCounter(j0, 2)
	for len(aad) > 0 {
		var b [narrowBlock]byte
		n := copy(b[:], aad)
		hash256(&a.rounds[0][0][0], r.bytes(), &b[0], n)
		aad = aad[n:]
	}
	return r
}

// finish adds the block of the lengths in bits, and encrypts the sum with the first counter block to the tag.
func (a *aead) finish(r *narrowState, j0 *[blockSize]byte, n, aad int, tag *[blockSize]byte) {
	var lengths, stream [narrowBlock]byte
	binary.BigEndian.PutUint64(lengths[:], uint64(aad)*8)
	binary.BigEndian.PutUint64(lengths[8:], uint64(n)*8)
	hash256(&a.rounds[0][0][0], r.bytes(), &lengths[0], blockSize)
	sum := r.sum
	r.setCounter(j0, 1)
	seal256(&a.rounds[0][0][0], r.bytes(), &stream[0], &stream[0], narrowBlock)
	binary.BigEndian.PutUint64(tag[:], sum.hi^binary.BigEndian.Uint64(stream[:]))
	binary.BigEndian.PutUint64(tag[8:], sum.lo^binary.BigEndian.Uint64(stream[8:]))
}
