package event

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
)

// The multi-fragment packet, docs/format/mfp.md.
const (
	// MFPMagic stands at the start of every MFP of version 1, whose fragments' sizes have 16 bits.
	MFPMagic uint16 = 0x40CE
	// WideMFPMagic stands at the start of every MFP of version 2, a wide one, whose fragments' sizes have 32 bits.
	WideMFPMagic uint16 = 0x40CF
	// WordedMFPMagic stands at the start of every MFP of version 3, a worded one: a wide one whose fragments may have
	// trigger numbers and time stamps.
	WordedMFPMagic uint16 = 0x40D0
	// MFPFixedSize is the size in bytes of the fixed part of the header, before
	// the type and size tables.
	MFPFixedSize = 20
	// MaxPacking is the most fragments an MFP can hold: their count is a u16.
	MaxPacking = 1<<16 - 1
	// MaxFragment is the largest fragment in bytes.
	MaxFragment = 1 << 30
	// MaxNarrowFragment is the largest fragment in bytes of an MFP that is not wide: its size is a u16.
	MaxNarrowFragment = 1<<16 - 1
	// maxAlign is the largest log2 of an alignment that is accepted.
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
	wide          bool
	worded        bool
}

// ParseMFP views the first packet in b; bytes after it are ignored.
//
// It checks the magic, that the packet lies inside b, that the padded sizes of
// the fragments and the header add up to exactly the packet's size, and that
// no fragment belongs to an event id of EndOfRun or beyond. After that no
// accessor can fail. It reads the header and the size table, not the
// fragments. A wide packet's fragments have at most MaxFragment bytes. The
// error is a *FormatError of kind ErrTruncated, ErrMagic, ErrSize or ErrRange.
func ParseMFP(b []byte) (MFP, error) {
	h, err := readHeader(b)
	if err != nil {
		return MFP{}, err
	}
	return MFP{
		b:             b[:h.size:h.size],
		fragmentCount: h.fragmentCount,
		data:          h.headerSize(),
		align:         h.align,
		wide:          h.wide,
		worded:        h.worded,
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
	wide          bool
	worded        bool
}

// headerSize is the size of the header with its tables, in bytes.
func (h *mfpHeader) headerSize() int {
	n := mfpHeaderSize(h.fragmentCount, h.wide)
	if h.worded {
		n += wordBytes * h.fragmentCount
	}
	return n
}

// readHeader reads and checks the header and the size table.
func readHeader(b []byte) (h mfpHeader, err error) {
	if len(b) < MFPFixedSize {
		return h, newFormatError(ErrTruncated, FormatMFP, "header", 0, "%d bytes left, the fixed part needs %d", len(b),
			MFPFixedSize)
	}
	magic := binary.LittleEndian.Uint16(b)
	if !isMFPMagic(magic) {
		return h, newFormatError(ErrMagic, FormatMFP, "magic", 0, "0x%04X is not 0x%04X, 0x%04X or 0x%04X", magic,
			MFPMagic, WideMFPMagic, WordedMFPMagic)
	}
	worded := magic == WordedMFPMagic
	wide := worded || magic == WideMFPMagic
	n := int(binary.LittleEndian.Uint16(b[2:]))
	size := uint64(binary.LittleEndian.Uint32(b[4:]))
	align := b[18]
	h = mfpHeader{fragmentCount: n, wide: wide, worded: worded}
	header := h.headerSize()
	if align > maxAlign {
		return h, newFormatError(ErrRange, FormatMFP, "align", 18, "2^%d bytes is too much, 2^%d is the most", align,
			maxAlign)
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
	width := sizeWidth(wide)
	sizes := b[MFPFixedSize+padTo(n, mfpAlign):][:width*n]
	if wide {
		if i := findTooLarge(sizes); i >= 0 {
			return h, newFormatError(ErrRange, FormatMFP, "fragment size", MFPFixedSize+padTo(n, mfpAlign)+4*i,
				"fragment %d has %d bytes, %d are the most", i, binary.LittleEndian.Uint32(sizes[4*i:]), MaxFragment)
		}
	}
	if sum := uint64(header) + sumSizes(sizes, align, wide); sum != size {
		return h, newFormatError(ErrSize, FormatMFP, "packet size", 4,
			"%d bytes, but the header and the %d fragments of the size table take %d", size, n, sum)
	}
	return mfpHeader{
		first:         first,
		size:          size,
		fragmentCount: n,
		align:         align,
		wide:          wide,
		worded:        worded,
	}, nil
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

// IsWide says whether the sizes of the fragments have 32 bits.
func (p MFP) IsWide() bool { return p.wide }

// Version is the version of the fragments' content.
func (p MFP) Version() uint8 { return p.b[19] }

// types is the type table, one byte a fragment, without its padding.
func (p MFP) types() []byte {
	return p.b[MFPFixedSize : MFPFixedSize+p.fragmentCount : MFPFixedSize+p.fragmentCount]
}

// sizes is the size table, a little-endian u16 a fragment, or a u32 if the packet is wide, without its padding.
func (p MFP) sizes() []byte {
	n := sizeWidth(p.wide) * p.fragmentCount
	at := MFPFixedSize + padTo(p.fragmentCount, mfpAlign)
	return p.b[at : at+n : at+n]
}

// FragmentType is the type of fragment i. It panics unless 0 ≤ i < N, like an
// index.
func (p MFP) FragmentType(i int) BankType { return BankType(p.types()[i]) }

// HasType says whether any fragment is of type t.
func (p MFP) HasType(t BankType) bool { return bytes.IndexByte(p.types(), byte(t)) >= 0 }

// FragmentSize is the size in bytes of fragment i, without padding. It panics
// unless 0 ≤ i < N.
func (p MFP) FragmentSize(i int) int {
	if p.wide {
		return int(binary.LittleEndian.Uint32(p.sizes()[4*i:]))
	}
	return int(binary.LittleEndian.Uint16(p.sizes()[2*i:]))
}

// Fragment is the data of fragment i, without padding. It adds up the sizes before i, four at a time: to see all
// fragments, walk with Cursor or Fragments. It panics unless 0 ≤ i < N.
func (p MFP) Fragment(i int) []byte {
	n := p.FragmentSize(i)
	at := p.data + int(sumSizes(p.sizes()[:sizeWidth(p.wide)*i], p.align, p.wide))
	return p.b[at : at+n : at+n]
}

// CopyFragments copies fragments from to from+n-1: their types to the beginning of a table, their sizes to that of a
// table of u16, or of u32 if toWide, such as those of MFPTables and WideMFPTables, and their data with its padding to
// the beginning of dst. It returns the number of data bytes, or false if dst has no room for them, or a size none in
// its entry. It adds up the sizes it has copied, and not those in the packet: even if another process changes the
// packet meanwhile, the copied data agree with the copied sizes, or the result is false. It panics unless 0 ≤ from and
// from+n ≤ N.
func (p MFP) CopyFragments(types, sizes, dst []byte, from, n int, toWide bool) (int, bool) {
	copy(types[:n], p.types()[from:from+n])
	width := sizeWidth(p.wide)
	copiedSizes := sizes[:sizeWidth(toWide)*n]
	if !copySizes(copiedSizes, p.sizes()[width*from:width*(from+n)], toWide, p.wide) {
		return 0, false
	}
	at := uint64(p.data) + sumSizes(p.sizes()[:width*from], p.align, p.wide)
	size := sumSizes(copiedSizes, p.align, toWide)
	if size > uint64(len(dst)) || at+size > uint64(len(p.b)) {
		return 0, false
	}
	return copy(dst, p.b[at:at+size]), true
}

// AddPaddedSizes adds the size of fragment i in bytes, padding included, to sums[i], for each i. A sum stops at
// 2^32-1.
func (p MFP) AddPaddedSizes(sums []uint32) {
	for i := range p.fragmentCount {
		sums[i] = uint32(min(uint64(sums[i])+padSize(uint64(p.FragmentSize(i)), p.align), math.MaxUint32))
	}
}

// Fragments ranges over the fragments in order: index and data without padding.
func (p MFP) Fragments() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		// Local variables stay in registers, those of a Cursor do not: the
		// walk is some four times as fast (BenchmarkFragmentsAll).
		b, sizes, at, round := p.b, p.sizes(), p.data, 1<<p.align-1
		if p.wide {
			for i := 0; len(sizes) >= 4; i++ {
				n := int(binary.LittleEndian.Uint32(sizes))
				if !yield(i, b[at:at+n:at+n]) {
					return
				}
				at += (n + round) &^ round
				sizes = sizes[4:]
			}
			return
		}
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
	if c.p.wide {
		return c.nextWide()
	}
	k := 2*c.i + 2
	if uint(k)+1 >= uint(len(c.sizes)) {
		return false
	}
	c.offset += (c.size + c.alignMask) &^ c.alignMask
	c.size = int(c.sizes[k]) | int(c.sizes[k+1])<<8
	c.i++
	return true
}

func (c *FragmentCursor) nextWide() bool {
	k := 4*c.i + 4
	if k >= len(c.sizes) {
		return false
	}
	c.offset += (c.size + c.alignMask) &^ c.alignMask
	c.size = int(binary.LittleEndian.Uint32(c.sizes[k:]))
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
