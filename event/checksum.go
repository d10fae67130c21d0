package event

import "encoding/binary"

// MDFChecksum is the checksum of MDF records: Jenkins' one-at-a-time hash with
// each byte taken as a signed char (formats.md, "MDF record"). It covers the
// bytes of a record from offset MDFChecksumFrom to the end: the caller gives
// those.
//
// Each byte waits for the one before it. With the byte's own part, c·1025,
// computed aside, four dependent operations a byte remain (shift, add, shift,
// exclusive or), which is what bounds the speed. Where there are several
// records, mdfChecksums is more than twice as fast.
func MDFChecksum(b []byte) uint32 { return avalanche(absorb(0, b)) }

// absorb takes bytes into a state.
func absorb(h uint32, b []byte) uint32 {
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		h = mix(h, uint8(w))
		h = mix(h, uint8(w>>8))
		h = mix(h, uint8(w>>16))
		h = mix(h, uint8(w>>24))
		h = mix(h, uint8(w>>32))
		h = mix(h, uint8(w>>40))
		h = mix(h, uint8(w>>48))
		h = mix(h, uint8(w>>56))
		b = b[8:]
	}
	for _, c := range b {
		h = mix(h, c)
	}
	return h
}

// avalanche makes the checksum of a state that has all bytes.
func avalanche(h uint32) uint32 {
	h += h << 3
	h ^= h >> 11
	return h + h<<15
}

// mix takes in one byte: h += c; h += h<<10; h ^= h>>6, the first two lines
// rewritten as h·1 + c·1025 + h<<10 so that two additions run side by side.
func mix(h uint32, c uint8) uint32 {
	scaled := uint32(int32(int8(c)) * 1025)
	h = (h + scaled) + h<<10
	return h ^ h>>6
}
