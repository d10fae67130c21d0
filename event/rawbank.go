package event

import (
	"encoding/binary"
	"iter"
	"slices"
)

// The raw bank, docs/format/rawbank.md.
const (
	// bankMagic stands at the start of every raw bank.
	bankMagic uint16 = 0xCBCB
	// BankHeaderSize is the size in bytes of a bank's header.
	BankHeaderSize = 8
	// MaxBankData is the most data, in bytes, that a bank can carry: its u16
	// length includes the header.
	MaxBankData = 1<<16 - 1 - BankHeaderSize
	// bankAlign is the multiple, in bytes, to which banks are padded.
	bankAlign = 4
)

// Bank is a view of one raw bank: header and data, without padding.
// Only parseBank, BankCursor and Banks make valid ones.
type Bank []byte

// parseBank views the first bank in b. It checks the magic and that the bank
// with its padding lies inside b; bytes after it are ignored. The error is a
// *FormatError of kind ErrTruncated, ErrMagic or ErrSize.
func parseBank(b []byte) (Bank, error) {
	if len(b) < BankHeaderSize {
		return nil, newFormatError(ErrTruncated, formatBank, "header", 0, "%d bytes left, the header needs %d", len(b),
			BankHeaderSize)
	}
	if m := binary.LittleEndian.Uint16(b); m != bankMagic {
		return nil, newFormatError(ErrMagic, formatBank, "magic", 0, "0x%04X is not 0x%04X", m, bankMagic)
	}
	n := int(binary.LittleEndian.Uint16(b[2:]))
	if n < BankHeaderSize {
		return nil, newFormatError(ErrSize, formatBank, "length", 2, "%d bytes do not hold the header of %d", n,
			BankHeaderSize)
	}
	if p := padTo(n, bankAlign); p > len(b) {
		return nil, newFormatError(ErrTruncated, formatBank, "length", 2,
			"%d bytes (%d padded) reach beyond the %d that are left", n,
			p, len(b))
	}
	return Bank(b[:n:n]), nil
}

// Length is the bank's length in bytes: header and data, without padding.
func (b Bank) Length() int { return len(b) }

// paddedSize is the size of the bank in a record, in bytes: Length rounded up to 4.
func (b Bank) paddedSize() int { return padTo(len(b), bankAlign) }

// Type is the bank's type.
func (b Bank) Type() BankType { return BankType(b[4]) }

// Version is the version of the bank's content.
func (b Bank) Version() uint8 { return b[5] }

// SourceID is the id of the source that sent the bank.
func (b Bank) SourceID() int16 { return int16(binary.LittleEndian.Uint16(b[6:])) }

// Data is the bank's data, without header and padding.
func (b Bank) Data() []byte { return b[BankHeaderSize:] }

// AppendBank appends a bank, padded with zeros to 4 bytes. Data longer than
// MaxBankData is refused with ErrRange and dst is returned as it was.
func AppendBank(dst []byte, t BankType, version uint8, source int16, data []byte) ([]byte, error) {
	if len(data) > MaxBankData {
		return dst, newFormatError(ErrRange, formatBank, "length", 2,
			"%d bytes of data, a bank of type %v and source %d carries at most %d",
			len(data), t, source, MaxBankData)
	}
	start, n := len(dst), BankHeaderSize+padTo(len(data), bankAlign)
	dst = slices.Grow(dst, n)[:start+n]
	putBank(dst[start:], t, version, source, data)
	return dst, nil
}

// putBank writes a bank, padded with zeros, into dst, whose length must be
// BankHeaderSize plus the length of data rounded up to 4.
func putBank(dst []byte, t BankType, version uint8, source int16, data []byte) {
	if len(dst) > BankHeaderSize {
		binary.LittleEndian.PutUint32(dst[len(dst)-bankAlign:], 0) // the padding is in the last word
	}
	binary.LittleEndian.PutUint64(dst, bankHeader(t, version, source, len(data)))
	copy(dst[BankHeaderSize:], data)
}

// bankHeader is the header of a bank of n data bytes, as a little-endian word.
func bankHeader(t BankType, version uint8, source int16, n int) uint64 {
	return uint64(bankMagic) | uint64(n+BankHeaderSize)<<16 | uint64(t)<<32 | uint64(version)<<40 |
		uint64(uint16(source))<<48
}

// BankCursor walks a sequence of banks without allocating:
//
//	for c := event.NewBankCursor(b); c.Next(); {
//		use(c.Bank())
//	}
//	if err := c.Err(); err != nil { … }
type BankCursor struct {
	b      []byte
	bank   Bank
	offset int // offset of bank
	next   int // offset of the bank after it
	err    error
}

// NewBankCursor starts before the first bank of b.
func NewBankCursor(b []byte) BankCursor { return BankCursor{b: b} }

// Next steps to the next bank. It returns false at the end of the bytes, where Err is nil, and at the first bad bank.
func (c *BankCursor) Next() bool {
	if c.err != nil || c.next >= len(c.b) {
		c.bank = nil
		return false
	}
	bank, err := parseBank(c.b[c.next:])
	if err != nil {
		c.bank, c.err = nil, shiftOffset(err, c.next)
		return false
	}
	c.bank, c.offset = bank, c.next
	c.next += bank.paddedSize()
	return true
}

// Bank is the bank that Next has stepped to.
func (c *BankCursor) Bank() Bank { return c.bank }

// RawBank is the same bank with the padding bytes that follow it.
func (c *BankCursor) RawBank() []byte { return c.b[c.offset:c.next:c.next] }

// Offset is where the bank begins, in bytes from the start of the sequence.
func (c *BankCursor) Offset() int { return c.offset }

// Err is the *FormatError of the bad bank that ended the walk, with the offset
// in the sequence; nil if the walk has reached the end.
func (c *BankCursor) Err() error { return c.err }

// Banks ranges over a sequence of banks. It ends at a bad bank, with the pair
// (nil, error); the error is a *FormatError with the offset in b.
func Banks(b []byte) iter.Seq2[Bank, error] {
	return func(yield func(Bank, error) bool) {
		c := NewBankCursor(b)
		for c.Next() {
			if !yield(c.bank, nil) {
				return
			}
		}
		if c.err != nil {
			yield(nil, c.err)
		}
	}
}

// padTo rounds n up to a multiple of align, a power of two.
func padTo(n, align int) int { return (n + align - 1) &^ (align - 1) }
