package event

import (
	"encoding/binary"
	"math"
)

// MFPHeaderSize is the size in bytes of the header of a packet of n fragments:
// the fixed part and the two tables, each padded to 4. The first fragment
// stands right behind it, whatever the alignment.
func MFPHeaderSize(n int) int {
	return MFPFixedSize + padTo(n, mfpAlign) + padTo(2*n, mfpAlign)
}

// MaxMFPSize is the room in bytes that a packet of n fragments of at most max
// bytes can take, for sizing buffers before any size is known.
func MaxMFPSize(n, maxFragment int, align uint8) int {
	return MFPHeaderSize(n) + n*padTo(maxFragment, 1<<align)
}

// checkShape refuses counts and alignments the header cannot express.
func checkShape(n int, align uint8) error {
	if n < 0 || n > MaxPacking {
		return fail(ErrRange, FormatMFP, "number of fragments", 2, "%d fragments, a packet holds at most %d", n, MaxPacking)
	}
	if align > MaxAlign {
		return fail(ErrRange, FormatMFP, "align", 18, "2^%d bytes is more than the largest fragment, 2^%d is the most", align,
			MaxAlign)
	}
	return nil
}

// MFPHeader is the fixed part of a packet's header.
type MFPHeader struct {
	N          int    // number of fragments, 0..MaxPacking
	Size       uint32 // packet size in bytes, header included
	FirstEvent uint64 // event id of fragment 0, or EndOfRun
	Source     uint16 // source id
	Align      uint8  // log2 of the fragments' padding, 0..MaxAlign
	Version    uint8  // of the fragments' content
}

// PutMFPHeader writes the fixed part into the first MFPFixedSize bytes of dst,
// which must hold them; it trusts its values. The tables, whose padding the
// caller zeroes, are reached with MFPTables.
func PutMFPHeader(dst []byte, h MFPHeader) {
	_ = dst[MFPFixedSize-1]
	binary.LittleEndian.PutUint16(dst, MFPMagic)
	binary.LittleEndian.PutUint16(dst[2:], uint16(h.N))
	binary.LittleEndian.PutUint32(dst[4:], h.Size)
	binary.LittleEndian.PutUint64(dst[8:], h.FirstEvent)
	binary.LittleEndian.PutUint16(dst[16:], h.Source)
	dst[18] = h.Align
	dst[19] = h.Version
}

// MFPTables gives the type table and the size table (little-endian u16) of a
// packet of n fragments laid out at the start of dst, for writing in place.
// Both come with their padding at the end; dst must hold MFPHeaderSize(n).
func MFPTables(dst []byte, n int) (types, sizes []byte) {
	at, end := MFPFixedSize+padTo(n, mfpAlign), MFPHeaderSize(n)
	return dst[MFPFixedSize:at:at], dst[at:end:end]
}

// MFPWriter lays out one packet in a caller's buffer, in place: the caller asks
// for each fragment's place in turn and fills it. It allocates nothing, writes
// each byte of the tables once, and zeroes all padding.
//
//	w, err := event.StartMFP(buf, header)
//	for i := range header.N {
//		place, err := w.Next(kind, size)
//		fill(place)
//	}
//	packet, err := w.Finish()
type MFPWriter struct {
	dst          []byte
	types, sizes []byte
	h            MFPHeader
	at           int // where the next fragment begins
	i            int // fragments laid out
}

// StartMFP begins a packet of h.N fragments in dst; h.Size is ignored. It
// refuses with ErrRange what the header cannot express or a dst too small for
// the header.
func StartMFP(dst []byte, h MFPHeader) (MFPWriter, error) {
	if err := checkShape(h.N, h.Align); err != nil {
		return MFPWriter{}, err
	}
	if uint64(h.N) > EndOfRun-h.FirstEvent {
		return MFPWriter{}, fail(ErrRange, FormatMFP, "first event id", 8,
			"%d with %d fragments runs into the end-of-run mark", h.FirstEvent, h.N)
	}
	header := MFPHeaderSize(h.N)
	if header > len(dst) {
		return MFPWriter{}, fail(ErrRange, FormatMFP, "header", 0,
			"the header of %d fragments takes %d bytes, the buffer has %d", h.N, header, len(dst))
	}
	types, sizes := MFPTables(dst, h.N)
	clear(types[h.N:])
	clear(sizes[2*h.N:])
	return MFPWriter{
		dst:   dst,
		types: types,
		sizes: sizes,
		h:     h,
		at:    header,
	}, nil
}

// Next lays out the next fragment and gives the place for its size bytes of
// data. The place holds whatever the buffer held. It refuses with ErrRange a
// fragment too many, one larger than MaxFragment or one that does not fit the
// buffer; the packet is then as it was.
func (w *MFPWriter) Next(t BankType, size int) ([]byte, error) {
	padded := padTo(size, 1<<w.h.Align)
	if w.i >= w.h.N || size < 0 || size > MaxFragment || padded > len(w.dst)-w.at {
		return nil, w.refuse(size, padded)
	}
	w.types[w.i] = uint8(t)
	binary.LittleEndian.PutUint16(w.sizes[2*w.i:], uint16(size))
	place := w.dst[w.at : w.at+size : w.at+size]
	clear(w.dst[w.at+size : w.at+padded])
	w.at += padded
	w.i++
	return place, nil
}

// refuse says why Next did not lay out a fragment.
func (w *MFPWriter) refuse(size, padded int) error {
	switch {
	case w.i >= w.h.N:
		return fail(ErrRange, FormatMFP, "number of fragments", 2, "fragment %d of a packet of %d", w.i, w.h.N)
	case size < 0 || size > MaxFragment:
		return fail(ErrRange, FormatMFP, "fragment size", MFPFixedSize,
			"fragment %d of source %d has %d bytes, at most %d fit its size field",
			w.i, w.h.Source, size, MaxFragment)
	default:
		return fail(ErrRange, FormatMFP, "fragment", w.at, "fragment %d of source %d takes %d bytes, the buffer has %d left",
			w.i, w.h.Source, padded, len(w.dst)-w.at)
	}
}

// Append lays out the next fragment with a copy of data.
func (w *MFPWriter) Append(t BankType, data []byte) error {
	place, err := w.Next(t, len(data))
	if err == nil {
		copy(place, data)
	}
	return err
}

// Finish writes the fixed part of the header and gives the packet. It refuses
// with ErrRange a packet that lacks fragments or exceeds 32 bits of size.
func (w *MFPWriter) Finish() ([]byte, error) {
	if w.i != w.h.N {
		return nil, fail(ErrRange, FormatMFP, "number of fragments", 2, "%d fragments laid out, the packet has %d", w.i,
			w.h.N)
	}
	if uint64(w.at) > math.MaxUint32 {
		return nil, fail(ErrRange, FormatMFP, "packet size", 4, "%d bytes are more than the 32 bits of the size field", w.at)
	}
	w.h.Size = uint32(w.at)
	PutMFPHeader(w.dst, w.h)
	return w.dst[:w.at:w.at], nil
}
