//go:build !libcipher

package gcm

import (
	"crypto/cipher"
	"encoding/binary"
	"unsafe"
)

// schedule is the key data that the assembly reads. Its layout is that of gen: round keys, powers of H, zeros.
type schedule struct {
	rounds [11][2][blockSize]byte // each twice, for registers of 256 bits
	// powers are H^32 to H, H being the hash key: as numbers, least byte first, each divided by x, since the product of
	// two numbers with reversed bits comes out one bit too low. Short messages are multiplied with the last powers; the
	// blocks behind their end with the zeros.
	powers [32]element
	zeros  [16]element //nolint:unused // the assembly multiplies with them
}

// element is a number of GF(2^128) as in GHASH: the bits of a block in order, reversed as a whole.
type element struct{ lo, hi uint64 }

// expand makes the schedule. It runs once per key, so it is written to be read. The time for the powers depends on the
// key, but a peer cannot measure it.
func (s *schedule) expand(key []byte, block cipher.Block) {
	expandKey(unsafe.SliceData(key), &s.rounds[0][0][0])
	var h [blockSize]byte
	block.Encrypt(h[:], h[:])
	hash := element{lo: binary.BigEndian.Uint64(h[8:]), hi: binary.BigEndian.Uint64(h[:8])}
	power := hash.overX()
	for i := len(s.powers) - 1; i >= 0; i-- {
		s.powers[i] = power
		power = power.times(hash)
	}
}

// timesX returns e·x modulo x^128 + x^7 + x^2 + x + 1.
func (e element) timesX() element {
	carry := -(e.lo & 1)
	return element{lo: e.lo>>1 | e.hi<<63, hi: e.hi>>1 ^ carry&(0xe1<<56)}
}

// overX returns e/x: 1/x is x^127 + x^6 + x + 1.
func (e element) overX() element {
	carry := -(e.hi >> 63)
	return element{lo: e.lo<<1 ^ carry&1, hi: (e.hi<<1 | e.lo>>63) ^ carry&(0xc2<<56)}
}

// times returns e·f: the sum of f·x^i over all i for which e has x^i. The coefficient of x^0 is the highest bit of hi.
func (e element) times(f element) element {
	var sum element
	for i := range 128 {
		word := e.hi
		if i >= 64 {
			word = e.lo
		}
		mask := -(word >> (63 - i%64) & 1)
		sum.lo ^= f.lo & mask
		sum.hi ^= f.hi & mask
		f = f.timesX()
	}
	return sum
}
