package event

import "encoding/binary"

// MFPHeaderSize is the size in bytes of the header of a packet of n fragments: the fixed part and the two tables, each
// padded to 4. The first fragment follows at once, whatever the alignment.
func MFPHeaderSize(n int) int { return mfpHeaderSize(n, false) }

// WideMFPHeaderSize is MFPHeaderSize for a wide packet.
func WideMFPHeaderSize(n int) int { return mfpHeaderSize(n, true) }

func mfpHeaderSize(n int, wide bool) int {
	return MFPFixedSize + padTo(n, mfpAlign) + padTo(sizeWidth(wide)*n, mfpAlign)
}

// MaxMFPSize is the size in bytes of a packet of n fragments of maxFragment
// bytes each: a buffer of that size holds any packet of smaller fragments.
func MaxMFPSize(n, maxFragment int, align uint8) int {
	return mfpHeaderSize(n, maxFragment > MaxNarrowFragment) + n*padTo(maxFragment, 1<<align)
}

// MFPHeader is the fixed part of a packet's header.
type MFPHeader struct {
	NumFragments int    // number of fragments, 0..MaxPacking
	Size         uint32 // packet size in bytes, header included
	FirstEvent   uint64 // event id of fragment 0, or EndOfRun
	Source       uint16 // source id
	Align        uint8  // log2 of the fragments' padding, 0..maxAlign
	Version      uint8  // of the fragments' content
	Wide         bool   // the sizes of the fragments have 32 bits: a fragment exceeds MaxNarrowFragment
	Worded       bool   // the same, and fragments may have trigger numbers and time stamps
}

// PutMFPHeader writes the fixed part into the first MFPFixedSize bytes of dst, which must hold them. It does not check
// the values. The caller fills the tables (MFPTables) and sets their padding to zero.
func PutMFPHeader(dst []byte, h MFPHeader) {
	_ = dst[MFPFixedSize-1]
	magic := MFPMagic
	if h.Wide {
		magic = WideMFPMagic
	}
	if h.Worded {
		magic = WordedMFPMagic
	}
	binary.LittleEndian.PutUint16(dst, magic)
	binary.LittleEndian.PutUint16(dst[2:], uint16(h.NumFragments))
	binary.LittleEndian.PutUint32(dst[4:], h.Size)
	binary.LittleEndian.PutUint64(dst[8:], h.FirstEvent)
	binary.LittleEndian.PutUint16(dst[16:], h.Source)
	dst[18] = h.Align
	dst[19] = h.Version
}

// MFPTables gives the type table and the size table (little-endian u16) of a packet of n fragments at the start of dst,
// for the caller to fill in place. Both include their padding; dst must hold MFPHeaderSize(n) bytes.
func MFPTables(dst []byte, n int) (types, sizes []byte) {
	at, end := MFPFixedSize+padTo(n, mfpAlign), MFPHeaderSize(n)
	return dst[MFPFixedSize:at:at], dst[at:end:end]
}

// WideMFPTables is MFPTables for a wide packet, whose sizes are little-endian u32; dst must hold WideMFPHeaderSize(n)
// bytes.
func WideMFPTables(dst []byte, n int) (types, sizes []byte) {
	at, end := MFPFixedSize+padTo(n, mfpAlign), WideMFPHeaderSize(n)
	return dst[MFPFixedSize:at:at], dst[at:end:end]
}

// PutMissingMFP writes the packet of a source that has sent no fragment of n events from the event first on: n empty
// fragments of type FragmentMissing. It returns the packet, the first MFPHeaderSize(n) bytes of dst, which must hold
// them.
func PutMissingMFP(dst []byte, source uint16, first uint64, n int) []byte {
	size := MFPHeaderSize(n)
	dst = dst[:size]
	PutMFPHeader(dst, MFPHeader{
		NumFragments: n,
		Size:         uint32(size),
		FirstEvent:   first,
		Source:       source,
	})
	types, sizes := MFPTables(dst, n)
	clear(types)
	clear(sizes)
	for i := range n {
		types[i] = byte(FragmentMissing)
	}
	return dst
}
