package event

import "encoding/binary"

// The MDF record, docs/format/mdf.md.
const (
	// MDFHeaderSize is the size in bytes of the header that Ringlet writes: version 3 with its sub-header.
	MDFHeaderSize = 48
	// mdfFixedSize is the size in bytes of the header that all versions share.
	mdfFixedSize = 20
	// MDFChecksumFrom is the offset from which the checksum covers a record.
	MDFChecksumFrom = 16
	// MDFVersion is the header version Ringlet writes.
	MDFVersion = 3

	mdfSubWords = (MDFHeaderSize - mdfFixedSize) / 4
)

// The values of MDFHeader.DataType: what follows the header.
const (
	MDFTypeBanks uint8 = 1 // raw banks
	MDFTypeMEP   uint8 = 2 // a MEP
)

// BunchesPerOrbit divides event ids into orbit and bunch crossing in the headers of generated records: an LHC orbit has
// 3564 places for bunches, so consecutive events look like consecutive crossings.
const BunchesPerOrbit = 3564

// MDFHeader is the header of a version 3 record.
type MDFHeader struct {
	Size        uint32    // bytes of the whole record
	Checksum    uint32    // MDFChecksum of the bytes after the field, 0 for none
	Compression uint8     // 0 for none; see Record.Unpacked
	DataType    uint8     // MDFTypeBanks or MDFTypeMEP
	Spare       uint8     // meaning unknown, copied unchanged
	TriggerMask [4]uint32 // all ones if no trigger has decided
	Run         uint32    // run number
	Orbit       uint32    // number of the LHC orbit
	Bunch       uint32    // bunch crossing within the orbit
}

// putMDFHeader writes h, as version 3, into the first MDFHeaderSize bytes of
// dst, which must hold them.
func putMDFHeader(dst []byte, h MDFHeader) {
	_ = dst[MDFHeaderSize-1]
	for at := 0; at < 12; at += 4 {
		binary.LittleEndian.PutUint32(dst[at:], h.Size)
	}
	binary.LittleEndian.PutUint32(dst[12:], h.Checksum)
	dst[16] = h.Compression
	dst[17] = MDFVersion<<4 | mdfSubWords
	dst[18] = h.DataType
	dst[19] = h.Spare
	for i, mask := range h.TriggerMask {
		binary.LittleEndian.PutUint32(dst[20+4*i:], mask)
	}
	binary.LittleEndian.PutUint32(dst[36:], h.Run)
	binary.LittleEndian.PutUint32(dst[40:], h.Orbit)
	binary.LittleEndian.PutUint32(dst[44:], h.Bunch)
}

// Record is a view of one MDF record, header included. Only ParseRecord and
// the readers make valid ones.
type Record []byte

// ParseRecord views the first record in b; bytes after it are ignored. It checks that the three sizes agree, that the
// record lies inside b and that the header, with the length it gives, lies inside the record; Verify checks the rest.
// The error is a *FormatError of kind ErrTruncated or ErrSize.
func ParseRecord(b []byte) (Record, error) {
	size, err := recordSize(b)
	if err != nil {
		return nil, err
	}
	if size > uint64(len(b)) {
		return nil, newFormatError(ErrTruncated, FormatMDF, "record size", 0, "%d bytes reach beyond the %d that are left",
			size, len(b))
	}
	r := Record(b[:size:size])
	if r.HeaderSize() > len(r) {
		return nil, newFormatError(ErrSize, FormatMDF, "sub-header length", 17,
			"a header of %d bytes does not fit the record of %d",
			r.HeaderSize(), len(r))
	}
	if r.Version() == MDFVersion && r.HeaderSize() < MDFHeaderSize {
		return nil, newFormatError(ErrSize, FormatMDF, "sub-header length", 17, "a version 3 header has %d bytes, not %d",
			MDFHeaderSize, r.HeaderSize())
	}
	return r, nil
}

// recordSize reads the three sizes at the start of b and checks that they
// agree and hold a header. It needs 12 bytes.
func recordSize(b []byte) (uint64, error) {
	if len(b) < 12 {
		return 0, newFormatError(ErrTruncated, FormatMDF, "header", 0, "%d bytes left, the three sizes need 12", len(b))
	}
	s0, s1, s2 := recordSizes(b)
	if s0 != s1 || s1 != s2 {
		return 0, newFormatError(ErrSize, FormatMDF, "record size", 0, "the three sizes %d, %d and %d disagree", s0, s1, s2)
	}
	if s0 < mdfFixedSize {
		return 0, newFormatError(ErrSize, FormatMDF, "record size", 0, "%d bytes do not hold the header of %d", s0,
			mdfFixedSize)
	}
	return uint64(s0), nil
}

func recordSizes(b []byte) (s0, s1, s2 uint32) {
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:12])
}

// Size is the record's size in bytes, header included.
func (r Record) Size() int { return len(r) }

// StoredChecksum is the checksum in the header; 0 means there is none.
func (r Record) StoredChecksum() uint32 { return binary.LittleEndian.Uint32(r[12:]) }

// compression says whether and how the payload is compressed; see Unpacked.
func (r Record) compression() uint8 { return r[16] }

// Version is the version of the header.
func (r Record) Version() uint8 { return r[17] >> 4 }

// HeaderSize is the size in bytes of the header with its sub-header.
func (r Record) HeaderSize() int { return mdfFixedSize + 4*int(r[17]&0xF) }

// dataType says what follows the header: MDFTypeBanks or MDFTypeMEP.
func (r Record) dataType() uint8 { return r[18] }

// Header is the bytes of the header with its sub-header.
func (r Record) Header() []byte { n := r.HeaderSize(); return r[:n:n] }

// Payload is the bytes after the header.
func (r Record) Payload() []byte { return r[r.HeaderSize():] }

// HeaderFields decodes the header. The sub-header's fields (trigger mask, run,
// orbit, bunch) are known for version 3 only; for other versions they are zero.
func (r Record) HeaderFields() MDFHeader {
	h := MDFHeader{
		Size:        uint32(len(r)),
		Checksum:    r.StoredChecksum(),
		Compression: r.compression(),
		DataType:    r.dataType(),
		Spare:       r[19],
	}
	if r.Version() != MDFVersion {
		return h
	}
	for i := range h.TriggerMask {
		h.TriggerMask[i] = binary.LittleEndian.Uint32(r[20+4*i:])
	}
	h.Run = binary.LittleEndian.Uint32(r[36:])
	h.Orbit = binary.LittleEndian.Uint32(r[40:])
	h.Bunch = binary.LittleEndian.Uint32(r[44:])
	return h
}

// Run is the run number; 0 for headers other than version 3.
func (r Record) Run() uint32 { return r.HeaderFields().Run }

// Banks starts a walk over the record's raw banks; their offsets count from Payload. It unpacks a compressed record
// into new memory: offsets then count from the unpacked payload, and the error is the one of Unpacked. A record that
// holds a MEP has no banks: ErrUnsupported.
func (r Record) Banks() (BankCursor, error) {
	if t := r.dataType(); t != MDFTypeBanks {
		return BankCursor{}, newFormatError(ErrUnsupported, FormatMDF, "data type", 18, "type %d is not raw banks (%d)", t,
			MDFTypeBanks)
	}
	if !r.isCompressed() {
		return NewBankCursor(r.Payload()), nil
	}
	buf := []byte(nil)
	plain, err := r.Unpacked(&buf)
	if err != nil {
		return BankCursor{}, err
	}
	return NewBankCursor(plain.Payload()), nil
}

// computedChecksum is the checksum that the record's bytes give.
func (r Record) computedChecksum() uint32 { return MDFChecksum(r[MDFChecksumFrom:]) }

// CheckChecksum compares the stored checksum with the bytes. A record without
// a checksum, with 0 in its place, passes. The error is of kind ErrChecksum.
func (r Record) CheckChecksum() error {
	if r.StoredChecksum() == 0 {
		return nil
	}
	return r.compareChecksum(r.computedChecksum())
}

// compareChecksum compares the stored checksum with sum, which was computed.
func (r Record) compareChecksum(sum uint32) error {
	if stored := r.StoredChecksum(); sum != stored {
		return newFormatError(ErrChecksum, FormatMDF, "checksum", 12, "the header says 0x%08X, the bytes give 0x%08X", stored,
			sum)
	}
	return nil
}

// CheckBanks walks all banks and returns the error of the first bad one, or the first chain that is not whole, with
// its offset from the record's start, or the error of Banks.
func (r Record) CheckBanks() error {
	banks, err := r.Banks()
	if err != nil {
		return err
	}
	c := JoinBanks(banks)
	for c.onlyLook = true; c.Next(); {
	}
	return shiftOffset(c.Err(), r.HeaderSize())
}

// Verify is CheckBanks, then CheckChecksum: a bad bank tells more than a wrong checksum does, so it is reported first.
func (r Record) Verify() error {
	if err := r.CheckBanks(); err != nil {
		return err
	}
	return r.CheckChecksum()
}

// AppendRecord appends a version 3 record of h and payload (raw banks), with
// size and checksum computed; h.Size and h.Checksum are ignored. A record
// beyond 32 bits of size is refused with ErrRange.
func AppendRecord(dst []byte, h MDFHeader, payload []byte) ([]byte, error) {
	size := uint64(MDFHeaderSize + len(payload))
	if size > 1<<32-1 {
		return dst, tooLarge(size)
	}
	start := len(dst)
	dst = append(append(dst, make([]byte, MDFHeaderSize)...), payload...)
	record := dst[start:]
	h.Size, h.Checksum = uint32(size), 0
	putMDFHeader(record, h)
	binary.LittleEndian.PutUint32(record[12:], MDFChecksum(record[MDFChecksumFrom:]))
	return dst, nil
}

// tooLarge is the error of a record whose size does not fit the header's field.
func tooLarge(size uint64) error {
	return newFormatError(ErrRange, FormatMDF, "record size", 0, "%d bytes are more than the 32 bits of the size field",
		size)
}
