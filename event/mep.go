package event

import (
	"encoding/binary"
	"iter"
	"math"
)

// The multi-event packet, docs/format/mep.md.
const (
	// MEPMagic stands at the start of every MEP.
	MEPMagic uint16 = 0xCEFA
	// MEPFixedSize is the size in bytes of the header's fixed part, before the
	// tables of sources and offsets.
	MEPFixedSize = 8
	// MaxMFPs is the most MFPs a MEP can hold: their count is a u16.
	MaxMFPs = 1<<16 - 1
	// MEPWordBytes is the unit in bytes of the total size and of the offsets.
	MEPWordBytes = 4
)

// MEPHeaderSize is the size in bytes of the header of a MEP of m MFPs: the
// fixed part, the source ids padded to an even count, the offsets.
func MEPHeaderSize(m int) int { return mepOffsetsAt(m) + 4*m }

// mepOffsetsAt is where the table of offsets begins.
func mepOffsetsAt(m int) int { return MEPFixedSize + padTo(2*m, MEPWordBytes) }

// PutMEPHeader writes the header of a MEP at the start of dst and gives its size in bytes. sources must ascend;
// offsetsWords are the offsets of the MFPs, in 32-bit words from the MEP's start, and must ascend and lie behind the
// header; totalWords is the MEP's size in words. Errors: ErrRange (counts, room in dst), ErrOrder (sources), ErrSize
// (offsets that do not ascend or lie outside the MEP).
//
// The builder unit calls it when the last MFP is in place; it does not allocate.
func PutMEPHeader(dst []byte, sources []uint16, offsetsWords []uint32, totalWords uint32) (int, error) {
	m := len(sources)
	if m > MaxMFPs || m != len(offsetsWords) {
		return 0, newFormatError(ErrRange, FormatMEP, "number of MFPs", 2,
			"%d sources and %d offsets, at most %d of each in equal number", m, len(offsetsWords), MaxMFPs)
	}
	size := MEPHeaderSize(m)
	if size > len(dst) {
		return 0, newFormatError(ErrRange, FormatMEP, "header", 0, "the header of %d MFPs takes %d bytes, the buffer has %d",
			m, size, len(dst))
	}
	if uint64(totalWords) < uint64(size/MEPWordBytes) {
		return 0, newFormatError(ErrSize, FormatMEP, "total size", 4, "%d words do not hold the header of %d bytes",
			totalWords, size)
	}
	binary.LittleEndian.PutUint16(dst, MEPMagic)
	binary.LittleEndian.PutUint16(dst[2:], uint16(m))
	binary.LittleEndian.PutUint32(dst[4:], totalWords)
	offsets := dst[mepOffsetsAt(m):size]
	if m&1 == 1 {
		binary.LittleEndian.PutUint16(dst[MEPFixedSize+2*m:], 0)
	}
	low := uint32(size / MEPWordBytes)
	for i, source := range sources {
		offset := offsetsWords[i]
		if i > 0 && source <= sources[i-1] {
			return 0, checkSourceOrder(i, sources[i-1], source)
		}
		if offset < low || offset >= totalWords {
			return 0, newFormatError(ErrSize, FormatMEP, "offset", mepOffsetsAt(m)+4*i,
				"MFP %d at word %d stands before word %d or outside the %d words of the MEP", i, offset, low, totalWords)
		}
		binary.LittleEndian.PutUint16(dst[MEPFixedSize+2*i:], source)
		binary.LittleEndian.PutUint32(offsets[4*i:], offset)
		low = offset + 1
	}
	return size, nil
}

// checkSourceOrder is the error of a table of sources that does not ascend.
func checkSourceOrder(i int, before, source uint16) error {
	return newFormatError(ErrOrder, FormatMEP, "source id", MEPFixedSize+2*i,
		"source %d of MFP %d stands behind source %d", source,
		i, before)
}

// MEPWords is n bytes in 32-bit words, rounded up. More than 2^32-1 words are
// refused with ErrRange: the size field cannot hold them.
func MEPWords(n int) (uint32, error) {
	words := (int64(n) + MEPWordBytes - 1) / MEPWordBytes
	if n < 0 || words > math.MaxUint32 {
		return 0, newFormatError(ErrRange, FormatMEP, "total size", 4, "%d bytes are not within 2^32 words", n)
	}
	return uint32(words), nil
}

// MEP is a view of one multi-event packet: the MFPs of all sources for one
// range of events.
type MEP struct {
	b        []byte // the packet's bytes, and none behind it
	mfpCount int
}

// ParseMEP views the first MEP in b; bytes after it are ignored.
//
// It checks the magic, that the MEP lies inside b and that the sources ascend. Of each MFP it checks the source id in
// its fixed header, and that it lies inside the MEP, behind the header and behind the MFP before it. Gaps are allowed.
// MFP and Verify check the size tables of the MFPs. The error is a *FormatError of kind ErrTruncated, ErrMagic, ErrSize
// or ErrOrder, with its offset from the MEP's start.
func ParseMEP(b []byte) (MEP, error) {
	if len(b) < MEPFixedSize {
		return MEP{}, newFormatError(ErrTruncated, FormatMEP, "header", 0, "%d bytes left, the fixed part needs %d", len(b),
			MEPFixedSize)
	}
	if m := binary.LittleEndian.Uint16(b); m != MEPMagic {
		return MEP{}, newFormatError(ErrMagic, FormatMEP, "magic", 0, "0x%04X is not 0x%04X", m, MEPMagic)
	}
	m := int(binary.LittleEndian.Uint16(b[2:]))
	size := uint64(binary.LittleEndian.Uint32(b[4:])) * MEPWordBytes
	header := MEPHeaderSize(m)
	if size < uint64(header) {
		return MEP{}, newFormatError(ErrSize, FormatMEP, "total size", 4,
			"%d bytes do not hold the header of %d MFPs, %d bytes", size,
			m, header)
	}
	if size > uint64(len(b)) {
		return MEP{}, newFormatError(ErrTruncated, FormatMEP, "total size", 4, "%d bytes reach beyond the %d that are left",
			size, len(b))
	}
	p := MEP{b: b[:size:size], mfpCount: m}
	low := header
	for i := range m {
		if i > 0 && p.Source(i) <= p.Source(i-1) {
			return MEP{}, checkSourceOrder(i, p.Source(i-1), p.Source(i))
		}
		end, err := p.checkMFP(i, low)
		if err != nil {
			return MEP{}, err
		}
		low = end
	}
	return p, nil
}

// checkMFP checks the place and the fixed header of MFP i, which must begin at
// byte low or behind it, and returns where it ends, in bytes from the MEP's start.
func (p MEP) checkMFP(i, low int) (int, error) {
	at, field := p.Offset(i), mepOffsetsAt(p.mfpCount)+4*i
	if at < low {
		return 0, newFormatError(ErrOrder, FormatMEP, "offset", field,
			"MFP %d of source %d at byte %d overlaps what ends at byte %d",
			i, p.Source(i), at, low)
	}
	if at > len(p.b)-MFPFixedSize {
		return 0, newFormatError(ErrSize, FormatMEP, "offset", field,
			"MFP %d of source %d at byte %d reaches beyond the MEP of %d bytes", i, p.Source(i), at, len(p.b))
	}
	fixed := p.b[at : at+MFPFixedSize]
	if m := binary.LittleEndian.Uint16(fixed); !isMFPMagic(m) {
		return 0, newFormatError(ErrMagic, FormatMEP, "MFP magic", at,
			"0x%04X is not 0x%04X or 0x%04X where MFP %d of source %d should begin", m,
			MFPMagic, WordedMFPMagic, i, p.Source(i))
	}
	size := uint64(binary.LittleEndian.Uint32(fixed[4:]))
	if size < MFPFixedSize || size > uint64(len(p.b)-at) {
		return 0, newFormatError(ErrSize, FormatMEP, "MFP size", at+4,
			"MFP %d of source %d claims %d bytes, %d are left of the MEP", i,
			p.Source(i), size, len(p.b)-at)
	}
	if s := binary.LittleEndian.Uint16(fixed[16:]); s != p.Source(i) {
		return 0, newFormatError(ErrOrder, FormatMEP, "MFP source id", at+16,
			"MFP %d is of source %d, the table says source %d", i, s,
			p.Source(i))
	}
	return at + int(size), nil
}

// Bytes is the whole MEP.
func (p MEP) Bytes() []byte { return p.b }

// NumMFPs is the number of MFPs.
func (p MEP) NumMFPs() int { return p.mfpCount }

// Source is the source id of MFP i. It panics unless 0 ≤ i < N.
func (p MEP) Source(i int) uint16 {
	return binary.LittleEndian.Uint16(p.b[MEPFixedSize : MEPFixedSize+2*p.mfpCount][2*i:])
}

// Offset is where MFP i begins, in bytes from the MEP's start. It panics
// unless 0 ≤ i < N.
func (p MEP) Offset(i int) int {
	at := mepOffsetsAt(p.mfpCount)
	return int(binary.LittleEndian.Uint32(p.b[at : at+4*p.mfpCount][4*i:])) * MEPWordBytes
}

// MFP parses MFP i with the checks of ParseMFP. Offsets in the error count
// from the MEP's start. It panics unless 0 ≤ i < N.
func (p MEP) MFP(i int) (MFP, error) {
	at := p.Offset(i)
	f, err := ParseMFP(p.b[at:])
	if err != nil {
		return MFP{}, shiftOffset(err, at)
	}
	return f, nil
}

// MFPs ranges over the MFPs in order of source id. It ends at a bad MFP, with the pair (MFP{}, error).
func (p MEP) MFPs() iter.Seq2[MFP, error] {
	return func(yield func(MFP, error) bool) {
		for i := range p.mfpCount {
			f, err := p.MFP(i)
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// Verify parses every MFP and checks that all cover the same events: the same first event id and the same number of
// fragments, else ErrOrder. The error is a *FormatError with its offset from the MEP's start.
func (p MEP) Verify() error {
	var first MFP
	for i := range p.mfpCount {
		f, err := p.MFP(i)
		if err != nil {
			return err
		}
		if i == 0 {
			first = f
		}
		if f.FirstEvent() != first.FirstEvent() || f.NumFragments() != first.NumFragments() {
			return newFormatError(ErrOrder, FormatMEP, "event range", p.Offset(i)+8,
				"MFP of source %d holds %d events from %d, that of source %d holds %d from %d",
				f.Source(), f.NumFragments(), f.FirstEvent(), first.Source(), first.NumFragments(), first.FirstEvent())
		}
	}
	return nil
}
