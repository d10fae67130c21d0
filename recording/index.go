package recording

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ringlet/internal/crc32c"
)

// The index of a segment: a header, then an entry for each MEP, in the order of the segment. Little-endian.
//
//	header, 64 bytes                          entry, 48 bytes
//	 0  u64     magic "RNGLIDX2"               0  u64  MEP
//	 8  u32     version, 2                     8  u64  event id of its first event
//	12  u32     format of the segment         16  u64  offset of its first byte in the segment
//	16  u32     run                           24  u64  number of its bytes
//	20  u32     builder unit                  32  u32  number of its events
//	24  u32     number of the segment         36  u32  attempt
//	28  u32     0                             40  u32  CRC-32C of the segment from 0 to the end of this MEP
//	32  16 × u8 key of the run                44  u32  CRC-32C of the 44 bytes before
//	48  u64     created, µs since 1970; 0: not known
//	56  u32     0
//	60  u32     CRC-32C of the 60 bytes before
const (
	indexMagic   = uint64(0x32584449_4C474E52) // "RNGLIDX2" in memory
	indexVersion = 2
	HeaderBytes  = 64
	EntryBytes   = 48
)

// A Key tells runs of the same number apart. The control draws one at random for each run.
type Key [16]byte

// Header says to which segment of which run an index belongs.
type Header struct {
	Segment SegmentID
	Run     uint32
	Key     Key
	Created int64 // µs since the Unix epoch; 0 where Recover made the header anew
}

// Append appends the header's 64 bytes to b.
func (h *Header) Append(b []byte) []byte {
	le, from := binary.LittleEndian, len(b)
	b = le.AppendUint64(b, indexMagic)
	b = le.AppendUint32(b, indexVersion)
	b = le.AppendUint32(b, uint32(h.Segment.Format))
	b = le.AppendUint32(b, h.Run)
	b = le.AppendUint32(b, uint32(h.Segment.Builder))
	b = le.AppendUint32(b, uint32(h.Segment.Number))
	b = le.AppendUint32(b, 0)
	b = append(b, h.Key[:]...)
	b = le.AppendUint64(b, uint64(h.Created))
	b = le.AppendUint32(b, 0)
	return le.AppendUint32(b, crc32c.Sum(b[from:]))
}

// errHeader is the class of the errors of Header.Parse.
var errHeader = errors.New("it is not the header of an index")

// A versionError says that another version of the format is in the file. It is an errHeader.
type versionError struct{ Version, Known uint32 }

func (e *versionError) Error() string {
	return fmt.Sprintf("it is of version %d, this program knows version %d", e.Version, e.Known)
}

func (e *versionError) Is(class error) bool { return class == errHeader }

// Parse reads a header from the first HeaderBytes of b, which may be longer. The error says what is wrong with the
// bytes; then h is of no use.
func (h *Header) Parse(b []byte) error {
	le := binary.LittleEndian
	switch {
	case len(b) < HeaderBytes:
		return fmt.Errorf("%w: it has %d of %d bytes", errHeader, len(b), HeaderBytes)
	case le.Uint64(b) != indexMagic:
		return fmt.Errorf("%w: its magic number is wrong", errHeader)
	case crc32c.Sum(b[:HeaderBytes-4]) != le.Uint32(b[HeaderBytes-4:]):
		return fmt.Errorf("%w: its checksum is wrong", errHeader)
	case le.Uint32(b[8:]) != indexVersion:
		return &versionError{Version: le.Uint32(b[8:]), Known: indexVersion}
	}
	h.Segment = SegmentID{
		Builder: int(le.Uint32(b[20:])),
		Number:  int(le.Uint32(b[24:])),
		Format:  Format(le.Uint32(b[12:])),
	}
	h.Run, h.Key, h.Created = le.Uint32(b[16:]), Key(b[32:48]), int64(le.Uint64(b[48:]))
	if !h.Segment.Format.Valid() {
		return fmt.Errorf("%w: %v is not a format of segments", errHeader, h.Segment.Format)
	}
	return nil
}

// Entry says where one MEP stands in a segment.
type Entry struct {
	MEP        uint64
	FirstEvent uint64
	Offset     int64
	Length     int64
	Events     uint32
	Attempt    uint32 // how often a builder unit was given the MEP, this time included
	CRC        uint32 // CRC-32C of the segment from its beginning to the end of this MEP
}

// End returns the offset after the last byte.
func (e *Entry) End() int64 { return e.Offset + e.Length }

// Append appends the entry's 48 bytes to b.
func (e *Entry) Append(b []byte) []byte {
	le, from := binary.LittleEndian, len(b)
	b = le.AppendUint64(b, e.MEP)
	b = le.AppendUint64(b, e.FirstEvent)
	b = le.AppendUint64(b, uint64(e.Offset))
	b = le.AppendUint64(b, uint64(e.Length))
	b = le.AppendUint32(b, e.Events)
	b = le.AppendUint32(b, e.Attempt)
	b = le.AppendUint32(b, e.CRC)
	return le.AppendUint32(b, crc32c.Sum(b[from:]))
}

// Parse reads an entry of EntryBytes bytes; false says that its checksum is wrong or its offsets are impossible.
func (e *Entry) Parse(b []byte) bool {
	le := binary.LittleEndian
	if len(b) < EntryBytes || crc32c.Sum(b[:EntryBytes-4]) != le.Uint32(b[EntryBytes-4:]) {
		return false
	}
	*e = Entry{
		MEP:        le.Uint64(b),
		FirstEvent: le.Uint64(b[8:]),
		Offset:     int64(le.Uint64(b[16:])),
		Length:     int64(le.Uint64(b[24:])),
		Events:     le.Uint32(b[32:]),
		Attempt:    le.Uint32(b[36:]),
		CRC:        le.Uint32(b[40:]),
	}
	return e.Offset >= 0 && e.Length >= 0 && e.End() >= e.Offset
}
