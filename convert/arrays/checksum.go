package arrays

import "math/bits"

// withChecksum appends the checksum of bytes.
func withChecksum(b []byte) []byte { return le.AppendUint32(b, lookup3(b)) }

// lookup3 is the checksum of HDF5's metadata: Bob Jenkins' hash of 2006 (hashlittle of lookup3.c, public domain), begun
// with 0.
func lookup3(p []byte) uint32 {
	a := 0xDEADBEEF + uint32(len(p))
	b, c := a, a
	if len(p) == 0 {
		return c
	}
	for ; len(p) > 12; p = p[12:] {
		a, b, c = a+le.Uint32(p), b+le.Uint32(p[4:]), c+le.Uint32(p[8:])
		a, c = mixed(a, c, 4), c+b
		b, a = mixed(b, a, 6), a+c
		c, b = mixed(c, b, 8), b+a
		a, c = mixed(a, c, 16), c+b
		b, a = mixed(b, a, 19), a+c
		c, b = mixed(c, b, 4), b+a
	}
	var last [12]byte
	copy(last[:], p)
	a, b, c = a+le.Uint32(last[:]), b+le.Uint32(last[4:]), c+le.Uint32(last[8:])
	c = c ^ b - bits.RotateLeft32(b, 14)
	a = a ^ c - bits.RotateLeft32(c, 11)
	b = b ^ a - bits.RotateLeft32(a, 25)
	c = c ^ b - bits.RotateLeft32(b, 16)
	a = a ^ c - bits.RotateLeft32(c, 4)
	b = b ^ a - bits.RotateLeft32(a, 14)
	return c ^ b - bits.RotateLeft32(b, 24)
}

func mixed(a, c uint32, by int) uint32 { return a - c ^ bits.RotateLeft32(c, by) }
