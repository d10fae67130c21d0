package event

import "encoding/binary"

// MDFChecksum is the checksum of MDF records: Jenkins' one-at-a-time hash with each byte taken as a signed char
// (docs/format/mdf.md). The caller passes the bytes of a record from offset MDFChecksumFrom to its end.
//
// The step of each byte needs the result of the byte before. The byte's own term, c·1025, is computed aside; four
// dependent operations a byte remain (shift, add, shift, exclusive or) and bound the speed. For several records
// mdfChecksums is more than twice as fast.
func MDFChecksum(b []byte) uint32 { return avalanche(absorb(0, b)) }

// absorb mixes bytes into the state h.
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

// avalanche finishes the checksum, after absorb has mixed in the last byte.
func avalanche(h uint32) uint32 {
	h += h << 3
	h ^= h >> 11
	return h + h<<15
}

// mix mixes in one byte: h += c; h += h<<10; h ^= h>>6. The first two steps are
// rewritten as h·1 + c·1025 + h<<10, so that two additions run in parallel.
func mix(h uint32, c uint8) uint32 {
	scaled := uint32(int32(int8(c)) * 1025)
	h = (h + scaled) + h<<10
	return h ^ h>>6
}
