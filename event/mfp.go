package event

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// The multi-fragment packet, docs/format/mfp.md.
const (
	// MFPMagic stands at the start of every MFP.
	MFPMagic uint16 = 0x40CE
	// MFPFixedSize is the size in bytes of the fixed part of the header, before
	// the type and size tables.
	MFPFixedSize = 20
	// MaxPacking is the most fragments an MFP can hold: their count is a u16.
	MaxPacking = 1<<16 - 1
	// MaxFragment is the largest fragment in bytes: its size is a u16.
	MaxFragment = 1<<16 - 1
	// maxAlign is the largest log2 of an alignment that is accepted. No fragment
	// is larger than 2^16 bytes, so a larger alignment would only waste room.
	maxAlign = 16
	// EndOfRun is the first event id of the packet that marks a run's end. Such
	// a packet holds no fragments.
	EndOfRun uint64 = 1<<64 - 1

	// mfpAlign is the multiple, in bytes, to which both tables are padded.
	mfpAlign = 4
)

// MFP is a view of one multi-fragment packet: the fragments of one source for
// N contiguous events. Of the zero MFP only Bytes may be called.
type MFP struct {
	b             []byte // the packet's bytes, and none behind it
	fragmentCount int
	data          int   // offset of the first fragment
	align         uint8 // log2
}

// ParseMFP views the first packet in b; bytes after it are ignored.
//
// It checks the magic, that the packet lies inside b, that the padded sizes of
// the fragments and the header add up to exactly the packet's size, and that
// no fragment belongs to an event id of EndOfRun or beyond. After that no
// accessor can fail. It reads the header and the size table, not the
// fragments. The error is a *FormatError of kind ErrTruncated, ErrMagic,
// ErrSize or ErrRange.
func ParseMFP(b []byte) (MFP, error) {
	h, err := readHeader(b)
	if err != nil {
		return MFP{}, err
	}
	return MFP{
		b:             b[:h.size:h.size],
		fragmentCount: h.fragmentCount,
		data:          MFPHeaderSize(h.fragmentCount),
		align:         h.align,
	}, nil
}

// MFPEvents is the id of the first event and the number of events of the first packet in b, with the checks and the
// error of ParseMFP. It reads each field once: a scan of many packets needs nothing else of them.
func MFPEvents(b []byte) (first uint64, n int, err error) {
	h, err := readHeader(b)
	return h.first, h.fragmentCount, err
}

// mfpHeader is the decoded header of a packet. It fits in registers.
type mfpHeader struct {
	first         uint64 // event id
	size          uint64 // of the packet, bytes
	fragmentCount int
	align         uint8 // log2
}

// readHeader reads and checks the header and the size table.
func readHeader(b []byte) (h mfpHeader, err error) {
	if len(b) < MFPFixedSize {
		return h, newFormatError(ErrTruncated, FormatMFP, "header", 0, "%d bytes left, the fixed part needs %d", len(b),
			MFPFixedSize)
	}
	if magic := binary.LittleEndian.Uint16(b); magic != MFPMagic {
		return h, newFormatError(ErrMagic, FormatMFP, "magic", 0, "0x%04X is not 0x%04X", magic, MFPMagic)
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	size := uint64(binary.LittleEndian.Uint32(b[4:]))
	align := b[18]
	header := MFPHeaderSize(n)
	if align > maxAlign {
		return h, newFormatError(ErrRange, FormatMFP, "align", 18,
			"2^%d bytes is more than the largest fragment, 2^%d is the most",
			align, maxAlign)
	}
	if size < uint64(header) {
		return h, newFormatError(ErrSize, FormatMFP, "packet size", 4,
			"%d bytes do not hold the header of %d fragments, %d bytes",
			size, n, header)
	}
	if size > uint64(len(b)) {
		return h, newFormatError(ErrTruncated, FormatMFP, "packet size", 4, "%d bytes reach beyond the %d that are left",
			size, len(b))
	}
	first := binary.LittleEndian.Uint64(b[8:])
	if uint64(n) > EndOfRun-first {
		return h, newFormatError(ErrRange, FormatMFP, "first event id", 8,
			"%d with %d fragments runs into the end-of-run mark",
			first, n)
	}
	sizes := b[header-padTo(2*n, mfpAlign):][:2*n]
	if sum := uint64(header) + sumPaddedSizes(sizes, align); sum != size {
		return h, newFormatError(ErrSize, FormatMFP, "packet size", 4,
			"%d bytes, but the header and the %d fragments of the size table take %d", size, n, sum)
	}
	return mfpHeader{
		first:         first,
		size:          size,
		fragmentCount: n,
		align:         align,
	}, nil
}

// sumPaddedSizes adds up a table of u16 sizes, each rounded up to 2^align. It takes
// four sizes at a time as two pairs of 32-bit lanes; no lane can overflow,
// since at most 2^14 × 2 values of at most 2^16 meet in one.
func sumPaddedSizes(sizes []byte, align uint8) uint64 {
	const lanes = 0x0000FFFF_0000FFFF
	round := uint64(1)<<align - 1
	round |= round << 32
	var sum uint64
	for len(sizes) >= 8 {
		w := binary.LittleEndian.Uint64(sizes)
		sum += (w&lanes+round)&^round + (w>>16&lanes+round)&^round
		sizes = sizes[8:]
	}
	total := sum>>32 + sum&(1<<32-1)
	for len(sizes) >= 2 {
		s := uint64(binary.LittleEndian.Uint16(sizes))
		total += padSize(s, align)
		sizes = sizes[2:]
	}
	return total
}

// padSize rounds a fragment's size up to 2^align.
func padSize(n uint64, align uint8) uint64 {
	round := uint64(1)<<align - 1
	return (n + round) &^ round
}

// Bytes is the whole packet.
func (p MFP) Bytes() []byte { return p.b }

// NumFragments is the number of fragments, the packing.
func (p MFP) NumFragments() int { return p.fragmentCount }

// Size is the packet's size in bytes, header included.
func (p MFP) Size() uint32 { return binary.LittleEndian.Uint32(p.b[4:]) }

// FirstEvent is the event id of fragment 0; fragment i belongs to event
// FirstEvent+i.
func (p MFP) FirstEvent() uint64 { return binary.LittleEndian.Uint64(p.b[8:]) }

// IsEndOfRun says whether the packet is the mark of a run's end.
func (p MFP) IsEndOfRun() bool { return p.FirstEvent() == EndOfRun }

// Source is the source id.
func (p MFP) Source() uint16 { return binary.LittleEndian.Uint16(p.b[16:]) }

// Align is log2 of the multiple, in bytes, to which fragments are padded.
func (p MFP) Align() uint8 { return p.align }

// Version is the version of the fragments' content.
func (p MFP) Version() uint8 { return p.b[19] }

// types is the type table, one byte a fragment, without its padding.
func (p MFP) types() []byte {
	return p.b[MFPFixedSize : MFPFixedSize+p.fragmentCount : MFPFixedSize+p.fragmentCount]
}

// sizes is the size table, a little-endian u16 a fragment, without its padding.
func (p MFP) sizes() []byte {
	at := p.data - padTo(2*p.fragmentCount, mfpAlign)
	return p.b[at : at+2*p.fragmentCount : at+2*p.fragmentCount]
}

// FragmentType is the type of fragment i. It panics unless 0 ≤ i < N, like an
// index.
func (p MFP) FragmentType(i int) BankType { return BankType(p.types()[i]) }

// HasType says whether any fragment is of type t.
func (p MFP) HasType(t BankType) bool { return bytes.IndexByte(p.types(), byte(t)) >= 0 }

// FragmentSize is the size in bytes of fragment i, without padding. It panics
// unless 0 ≤ i < N.
func (p MFP) FragmentSize(i int) int { return int(binary.LittleEndian.Uint16(p.sizes()[2*i:])) }

// Fragment is the data of fragment i, without padding. It adds up the sizes before i, four at a time: to see all
// fragments, walk with Cursor or Fragments. It panics unless 0 ≤ i < N.
func (p MFP) Fragment(i int) []byte {
	sizes := p.sizes()
	n := int(binary.LittleEndian.Uint16(sizes[2*i:]))
	at := p.data + int(sumPaddedSizes(sizes[:2*i], p.align))
	return p.b[at : at+n : at+n]
}

// CopyFragments copies fragments from to from+n-1: their types and their sizes (u16 each) to the beginnings of two
// tables, such as those of MFPTables, and their data with its padding to the beginning of dst. It returns the number of
// data bytes, or false if dst has no room for them. It adds up the sizes it has copied, and not those in the packet:
// even if another process changes the packet meanwhile, the copied data agree with the copied sizes, or the result is
// false. It panics unless 0 ≤ from and from+n ≤ N.
func (p MFP) CopyFragments(types, sizes, dst []byte, from, n int) (int, bool) {
	copy(types[:n], p.types()[from:from+n])
	copiedSizes := sizes[:2*n]
	copy(copiedSizes, p.sizes()[2*from:2*(from+n)])
	at := uint64(p.data) + sumPaddedSizes(p.sizes()[:2*from], p.align)
	size := sumPaddedSizes(copiedSizes, p.align)
	if size > uint64(len(dst)) || at+size > uint64(len(p.b)) {
		return 0, false
	}
	return copy(dst, p.b[at:at+size]), true
}

// AddPaddedSizes adds the size of fragment i in bytes, padding included, to sums[i], for each i.
func (p MFP) AddPaddedSizes(sums []uint32) {
	sizes := p.sizes()
	for i := range p.fragmentCount {
		sums[i] += uint32(padSize(uint64(binary.LittleEndian.Uint16(sizes[2*i:])), p.align))
	}
}

// Fragments ranges over the fragments in order: index and data without padding.
func (p MFP) Fragments() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		// Local variables stay in registers, those of a Cursor do not: the
		// walk is some four times as fast (BenchmarkFragmentsAll).
		b, sizes, at, round := p.b, p.sizes(), p.data, 1<<p.align-1
		for i := 0; len(sizes) >= 2; i++ {
			n := int(sizes[0]) | int(sizes[1])<<8
			if !yield(i, b[at:at+n:at+n]) {
				return
			}
			at += (n + round) &^ round
			sizes = sizes[2:]
		}
	}
}

// Cursor starts before the first fragment. Fragments is some four times as fast, and gives only index and data.
func (p MFP) Cursor() FragmentCursor {
	return FragmentCursor{
		p:         p,
		sizes:     p.sizes(),
		offset:    p.data,
		alignMask: 1<<p.align - 1,
		i:         -1,
	}
}

// FragmentCursor walks the fragments of an MFP without allocating.
type FragmentCursor struct {
	p         MFP
	sizes     []byte // the size table
	offset    int    // offset of the fragment's data
	size      int    // its size, without padding; 0 before the first
	alignMask int    // 2^align - 1
	i         int    // index of the fragment
}

// Next steps to the next fragment. After the last one it returns false, and the cursor stays at the last.
func (c *FragmentCursor) Next() bool {
	k := 2*c.i + 2
	if uint(k)+1 >= uint(len(c.sizes)) {
		return false
	}
	c.offset += (c.size + c.alignMask) &^ c.alignMask
	c.size = int(c.sizes[k]) | int(c.sizes[k+1])<<8
	c.i++
	return true
}

// Index is the fragment's place in the packet, from 0.
func (c *FragmentCursor) Index() int { return c.i }

// Event is the event id the fragment belongs to.
func (c *FragmentCursor) Event() uint64 { return c.p.FirstEvent() + uint64(c.i) }

// Type is the fragment's type.
func (c *FragmentCursor) Type() BankType { return BankType(c.p.b[MFPFixedSize+c.i]) }

// Data is the fragment's data, without padding.
func (c *FragmentCursor) Data() []byte { return c.p.b[c.offset : c.offset+c.size : c.offset+c.size] }

// Offset is where the data begin, in bytes from the start of the packet.
func (c *FragmentCursor) Offset() int { return c.offset }
