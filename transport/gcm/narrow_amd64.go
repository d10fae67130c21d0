//go:build !libcipher

package gcm

import (
	"encoding/binary"
	"unsafe"
)

// turn is what the narrow form takes at a time.
const turn = 128

// running is what the narrow form keeps between calls: the next two counter blocks, as numbers, and the sum of GHASH.
type running struct {
	counters [2]element
	sum      element
}

func (r *running) from(j0 *[blockSize]byte, counter uint64) {
	number := element{lo: binary.BigEndian.Uint64(j0[8:]), hi: binary.BigEndian.Uint64(j0[:8])}
	number.lo += counter - 1
	r.counters[0] = number
	number.lo++
	r.counters[1] = number
}

func (r *running) bytes() *byte { return (*byte)(unsafe.Pointer(r)) }

func (a *aead) sealNarrow(j0 *[blockSize]byte, out, in, aad []byte, tag *[blockSize]byte) {
	r := a.authenticated(j0, aad)
	whole := len(in) &^ (turn - 1)
	seal256(&a.rounds[0][0][0], r.bytes(), unsafe.SliceData(out), unsafe.SliceData(in), whole)
	if rest := in[whole:]; len(rest) > 0 {
		var b [turn]byte
		copy(b[:], rest)
		sum := r.sum // what the whole turn adds counts bytes that there are not
		seal256(&a.rounds[0][0][0], r.bytes(), &b[0], &b[0], turn)
		r.sum = sum
		clear(b[len(rest):])
		copy(out[whole:], b[:])
		hash256(&a.rounds[0][0][0], r.bytes(), &b[0], len(rest))
	}
	a.finish(&r, j0, len(in), len(aad), tag)
}

func (a *aead) openNarrow(j0 *[blockSize]byte, out, in, aad []byte, tag *[blockSize]byte) {
	r := a.authenticated(j0, aad)
	whole := len(in) &^ (turn - 1)
	open256(&a.rounds[0][0][0], r.bytes(), unsafe.SliceData(out), unsafe.SliceData(in), whole)
	if rest := in[whole:]; len(rest) > 0 {
		var b [turn]byte
		copy(b[:], rest)
		hash256(&a.rounds[0][0][0], r.bytes(), &b[0], len(rest))
		sum := r.sum
		open256(&a.rounds[0][0][0], r.bytes(), &b[0], &b[0], turn)
		r.sum = sum
		copy(out[whole:], b[:len(rest)])
	}
	a.finish(&r, j0, len(in), len(aad), tag)
}

// authenticated begins with the additional data.
func (a *aead) authenticated(j0 *[blockSize]byte, aad []byte) (r running) {
	r.from(j0, 2)
	for len(aad) > 0 {
		var b [turn]byte
		n := copy(b[:], aad)
		hash256(&a.rounds[0][0][0], r.bytes(), &b[0], n)
		aad = aad[n:]
	}
	return r
}

// finish adds the block of lengths, in bits, and the encrypted first counter block.
func (a *aead) finish(r *running, j0 *[blockSize]byte, n, aad int, tag *[blockSize]byte) {
	var lengths, stream [turn]byte
	binary.BigEndian.PutUint64(lengths[:], uint64(aad)*8)
	binary.BigEndian.PutUint64(lengths[8:], uint64(n)*8)
	hash256(&a.rounds[0][0][0], r.bytes(), &lengths[0], blockSize)
	sum := r.sum
	r.from(j0, 1)
	seal256(&a.rounds[0][0][0], r.bytes(), &stream[0], &stream[0], turn)
	binary.BigEndian.PutUint64(tag[:], sum.hi^binary.BigEndian.Uint64(stream[:]))
	binary.BigEndian.PutUint64(tag[8:], sum.lo^binary.BigEndian.Uint64(stream[8:]))
}
