//go:build !libcipher

package gcm

import (
	"crypto/cipher"
	"encoding/binary"
	"unsafe"
)

// schedule is what the assembly reads of a key. Its layout is that of gen: round keys, powers of H, zeros.
type schedule struct {
	rounds [11][2][blockSize]byte // each twice, as registers of 256 bits take them
	// powers are H^32 to H, H being the hash key: as numbers, least byte first, each divided by x, since the product of
	// two numbers with reversed bits comes out one bit too low. What is short is multiplied by the last powers; blocks
	// behind it meet the zeros.
	powers [32]element
	zeros  [16]element //nolint:unused // the assembly multiplies with them
}

// element is one of GF(2^128) as GHASH has them: the bits of a block in order, reversed as a whole.
type element struct{ lo, hi uint64 }

// expand makes the schedule. It runs once a key, so it is made to be read; the powers' time depends on the key, but is
// nothing that a peer can measure.
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

// timesX is e·x modulo x^128 + x^7 + x^2 + x + 1.
func (e element) timesX() element {
	carry := -(e.lo & 1)
	return element{lo: e.lo>>1 | e.hi<<63, hi: e.hi>>1 ^ carry&(0xe1<<56)}
}

// overX is e/x: 1/x is x^127 + x^6 + x + 1.
func (e element) overX() element {
	carry := -(e.hi >> 63)
	return element{lo: e.lo<<1 ^ carry&1, hi: (e.hi<<1 | e.lo>>63) ^ carry&(0xc2<<56)}
}

// times is e·f: a sum of f·x^i, where e has x^i. The coefficient of x^0 is the highest bit of hi.
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
