package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Replay of MDF records through the event builder (docs/format/mdf.md, "Replay"), one event at a time:
//
//  1. The source splits the record: it copies each bank, with its padding, to
//     the fragment of the stream that the bank is cabled to. Stream 0's fragment
//     begins with the record bank of AppendRecordBank.
//  2. The fragments travel as FragmentContainer in the MFPs of their streams.
//  3. The sink puts the record together again with a Rebuilder.

// recordBankVersion is the version of the record bank's layout.
const recordBankVersion = 0

// AppendRecordBank appends the record bank: the bytes of the MDF header (Record.Header), and for each bank of the
// record, in order, the index of the stream that it is cabled to. The error is of kind ErrSize if the header does not
// have the length that it states, and of kind ErrRange if there are more streams than one bank can list (32,739 for a
// 48-byte header).
func AppendRecordBank(dst, header []byte, streams []uint16) ([]byte, error) {
	if len(header) < mdfFixedSize || len(header) != Record(header).HeaderSize() {
		return dst, newFormatError(ErrSize, FormatMDF, "sub-header length", 17,
			"the header to replay has %d bytes, not what it says",
			len(header))
	}
	n := len(header) + 2*len(streams)
	if n > MaxBankData {
		return dst, newFormatError(ErrRange, FormatMDF, "number of banks", len(header),
			"%d banks do not fit the record bank, which lists at most %d",
			len(streams), (MaxBankData-len(header))/2)
	}
	dst = binary.LittleEndian.AppendUint64(dst, bankHeader(RecordBank, recordBankVersion, 0, n))
	dst = append(dst, header...)
	for _, s := range streams {
		dst = binary.LittleEndian.AppendUint16(dst, s)
	}
	return append(dst, make([]byte, padTo(n, bankAlign)-n)...), nil // the compiler makes no slice
}

// recordInfo is a view of a record bank.
type recordInfo struct {
	header         []byte
	streams        []byte // u16 a bank
	paddedBankSize int    // bytes of the record bank in its fragment, padding included
}

// parseRecordBank views the record bank at the start of stream 0's fragment.
// The error is a *FormatError of kind ErrTruncated, ErrMagic or ErrSize, or
// ErrUnsupported where the fragment begins with another bank.
func parseRecordBank(fragment []byte) (recordInfo, error) {
	b, err := parseBank(fragment)
	if err != nil {
		return recordInfo{}, err
	}
	if b.Type() != RecordBank {
		return recordInfo{}, newFormatError(ErrUnsupported, formatBank, "type", 4,
			"the fragment begins with a bank of type %v, not with the record bank (%d)", b.Type(), RecordBank)
	}
	if b.Version() != recordBankVersion {
		return recordInfo{}, newFormatError(ErrUnsupported, formatBank, "version", 5,
			"record bank of version %d, only %d is known",
			b.Version(), recordBankVersion)
	}
	data := b.Data()
	if len(data) < mdfFixedSize || len(data) < Record(data).HeaderSize() {
		return recordInfo{}, newFormatError(ErrSize, formatBank, "length", 2,
			"%d bytes of record bank do not hold the record's header",
			len(data))
	}
	n := Record(data).HeaderSize()
	if (len(data)-n)%2 != 0 {
		return recordInfo{}, newFormatError(ErrSize, formatBank, "length", 2,
			"%d bytes of cabling in the record bank are not whole u16", len(data)-n)
	}
	return recordInfo{header: data[:n:n], streams: data[n:], paddedBankSize: b.paddedSize()}, nil
}

// Size is the size of the record in bytes, from its header.
func (r recordInfo) Size() int { return int(binary.LittleEndian.Uint32(r.header)) }

// bankCount is the number of the record's banks.
func (r recordInfo) bankCount() int { return len(r.streams) / 2 }

// stream is the index of the stream that bank i is cabled to. It panics
// unless 0 ≤ i < N.
func (r recordInfo) stream(i int) int { return int(binary.LittleEndian.Uint16(r.streams[2*i:])) }

// Rebuilder puts MDF records together again. It keeps its cursors for the next record, and allocates only for a record
// with more streams than any before. The zero value is ready; it is owned by one goroutine.
type Rebuilder struct {
	consumed []int // by stream: consumed bytes of its fragment
}

// Append appends the record of the given container fragments, in the order of source ids; the first begins with the
// record bank. The record is byte for byte the one that was split. If the fragments do not make up exactly that record,
// dst is returned unchanged with an error: ErrRange for a missing stream, ErrTruncated for a missing bank, ErrSize for
// bytes left over or a size that differs from the header's. The offset in an error counts from the start of the
// fragment that its reason names.
func (rb *Rebuilder) Append(dst []byte, fragments [][]byte) ([]byte, error) {
	if len(fragments) == 0 {
		return dst, newFormatError(ErrTruncated, FormatMDF, "record bank", 0, "no fragment to find the record bank in")
	}
	info, err := parseRecordBank(fragments[0])
	if err != nil {
		return dst, err
	}
	start := len(dst)
	rb.resetConsumed(len(fragments), info.paddedBankSize)
	dst = append(dst, info.header...)
	for i := range info.bankCount() {
		s := info.stream(i)
		if s >= len(fragments) {
			return dst[:start], newFormatError(ErrRange, FormatMDF, "cabling", BankHeaderSize+len(info.header)+2*i,
				"bank %d is cabled to stream %d, there are %d", i, s, len(fragments))
		}
		raw, err := nextRawBank(fragments[s], rb.consumed[s])
		if err != nil {
			return dst[:start], missingBankError(err, i, s)
		}
		dst = append(dst, raw...)
		rb.consumed[s] += len(raw)
	}
	if err := rb.checkConsumed(fragments); err != nil {
		return dst[:start], err
	}
	if n := len(dst) - start; n != info.Size() {
		return dst[:start], newFormatError(ErrSize, FormatMDF, "record size", 0,
			"the banks make a record of %d bytes, its header says %d", n, info.Size())
	}
	return dst, nil
}

// resetConsumed sets the cursor of stream 0 to first, behind the record bank, and all others to 0.
func (rb *Rebuilder) resetConsumed(streams, first int) {
	if cap(rb.consumed) < streams {
		rb.consumed = make([]int, streams)
	}
	rb.consumed = rb.consumed[:streams]
	clear(rb.consumed)
	rb.consumed[0] = first
}

// checkConsumed checks that no fragment has bytes left over.
func (rb *Rebuilder) checkConsumed(fragments [][]byte) error {
	for s, at := range rb.consumed {
		if remaining := len(fragments[s]) - at; remaining != 0 {
			return newFormatError(ErrSize, FormatMDF, "cabling", at,
				"%d bytes of stream %d's fragment belong to no bank of the record",
				remaining, s)
		}
	}
	return nil
}

// nextRawBank is the bank at an offset of a fragment, padding included.
func nextRawBank(fragment []byte, at int) ([]byte, error) {
	b, err := parseBank(fragment[at:])
	if err != nil {
		return nil, shiftOffset(err, at)
	}
	return fragment[at : at+b.paddedSize()], nil
}

// missingBankError adds to err which bank of the record is missing in which fragment.
func missingBankError(err error, bank, stream int) error {
	var fe *FormatError
	if !errors.As(err, &fe) {
		return err
	}
	located := *fe
	located.Reason = fmt.Sprintf("%s, where bank %d of the record should stand in stream %d's fragment", fe.Reason, bank,
		stream)
	return &located
}

// SourceFragment is one source's fragment of one event, with type, version and source from its MFP.
type SourceFragment struct {
	Type    BankType
	Version uint8
	Source  uint16
	Data    []byte
}

// AppendRecordFromFragments appends a version 3 record with one raw bank for each fragment, in the given order; an
// empty fragment becomes an empty bank, one above MaxBankData bytes a chain of banks. It takes run, orbit and bunch
// from h, sets the trigger mask to all ones, and computes size and checksum. If the record does not fit the 32 bits of
// its size, the error is of kind ErrRange, and dst is returned unchanged.
//
// It is for generated data; Rebuilder is for container fragments.
func AppendRecordFromFragments(dst []byte, h MDFHeader, fragments []SourceFragment) ([]byte, error) {
	start := len(dst)
	dst, err := AppendRecordUnsealed(dst, h, fragments)
	if err != nil {
		return dst, err
	}
	record := dst[start:]
	binary.LittleEndian.PutUint32(record[12:], MDFChecksum(record[MDFChecksumFrom:]))
	return dst, nil
}

// AppendRecordUnsealed is AppendRecordFromFragments with 0 in place of the checksum: the caller appends many records
// and calls SealRecords, which is faster than one checksum after the other. Without SealRecords the record passes
// CheckChecksum, but its bytes are not protected.
func AppendRecordUnsealed(dst []byte, h MDFHeader, fragments []SourceFragment) ([]byte, error) {
	size := uint64(MDFHeaderSize)
	for i := range fragments {
		size += uint64(bankedSize(len(fragments[i].Data)))
	}
	if size > math.MaxUint32 {
		return dst, tooLarge(size)
	}
	start := len(dst)
	dst = slices.Grow(dst, int(size))[:start+int(size)]
	record := dst[start:]
	h.Size, h.Checksum, h.DataType, h.Compression = uint32(size), 0, MDFTypeBanks, 0
	for i := range h.TriggerMask {
		h.TriggerMask[i] = math.MaxUint32
	}
	putMDFHeader(record, h)
	at := MDFHeaderSize
	for i := range fragments {
		f := &fragments[i]
		end := at + bankedSize(len(f.Data))
		putFragment(record[at:end], f)
		at = end
	}
	return dst, nil
}
