package event

import (
	"encoding/binary"
	"math"
)

// A fragment of more bytes than a raw bank can hold is a chain of banks in a record, docs/format/rawbank.md:
//
//	bank of type FragmentPiece, version 0: a head of 8 bytes, and the first data
//	banks of type FragmentPiece, version 1: the rest, each but the last with pieceBytes
//
// All have the fragment's source. The head says the fragment's size, type and version.

const (
	chainHeadSize = 8
	// pieceBytes is how many bytes each bank of a chain but the last has, the head included: whole words, so that there
	// is no padding in the fragment.
	pieceBytes = MaxBankData &^ (bankAlign - 1)

	firstPiece, laterPiece uint8 = 0, 1 // versions
)

// bankedSize is how many bytes a fragment of n bytes takes in a record.
func bankedSize(n int) int {
	if n <= MaxBankData {
		return BankHeaderSize + padTo(n, bankAlign)
	}
	n += chainHeadSize
	size := n / pieceBytes * (BankHeaderSize + pieceBytes)
	if rest := n % pieceBytes; rest > 0 {
		size += BankHeaderSize + padTo(rest, bankAlign)
	}
	return size
}

// putFragment writes a fragment as a bank or a chain of banks into dst, which has bankedSize bytes.
func putFragment(dst []byte, f *SourceFragment) {
	if len(f.Data) <= MaxBankData {
		putBank(dst, f.Type, f.Version, int16(f.Source), f.Data)
		return
	}
	at, version, data := BankHeaderSize+chainHeadSize, firstPiece, f.Data
	binary.LittleEndian.PutUint32(dst[BankHeaderSize:], uint32(len(data)))
	binary.LittleEndian.PutUint32(dst[BankHeaderSize+4:], uint32(f.Type)|uint32(f.Version)<<8)
	for n := pieceBytes - chainHeadSize; ; n = pieceBytes {
		n = min(n, len(data))
		length := n
		if version == firstPiece {
			length += chainHeadSize
		}
		start, end := at-BankHeaderSize, padTo(at+n, bankAlign)
		if version == firstPiece {
			start -= chainHeadSize
		}
		binary.LittleEndian.PutUint32(dst[end-bankAlign:], 0) // the padding is in the last word
		binary.LittleEndian.PutUint64(dst[start:], bankHeader(FragmentPiece, version, int16(f.Source), length))
		copy(dst[at:], data[:n])
		if data = data[n:]; len(data) == 0 {
			return
		}
		at, version = end+BankHeaderSize, laterPiece
	}
}

// BankFragments walks a sequence of banks as the fragments that they hold, with chains joined. It allocates only to
// join a chain longer than those before, and no more than the chain has in the sequence:
//
//	for c := event.JoinBanks(banks); c.Next(); {
//		use(c.Fragment())
//	}
//	if err := c.Err(); err != nil { … }
type BankFragments struct {
	banks    BankCursor
	fragment SourceFragment
	offset   int // of its first bank
	count    int // of its banks
	joined   []byte
	onlyLook bool // chains are checked, and not joined
	err      error
}

// JoinBanks starts before the first bank of a cursor that has not begun.
func JoinBanks(c BankCursor) BankFragments { return BankFragments{banks: c} }

// Next steps to the next fragment. It returns false at the end of the bytes, where Err is nil, at the first bad bank,
// and at a chain that is not whole.
func (c *BankFragments) Next() bool {
	if c.err != nil || !c.banks.Next() {
		return false
	}
	b := c.banks.Bank()
	c.offset, c.count = c.banks.Offset(), 1
	if b.Type() != FragmentPiece {
		c.fragment = SourceFragment{Type: b.Type(), Version: b.Version(), Source: uint16(b.SourceID()), Data: b.Data()}
		return true
	}
	c.err = c.join(b)
	return c.err == nil
}

// Fragment is the fragment that Next has stepped to; its data are valid until the next call of Next.
func (c *BankFragments) Fragment() SourceFragment { return c.fragment }

// Offset is where the first bank of the fragment begins, in bytes from the start of the sequence.
func (c *BankFragments) Offset() int { return c.offset }

// Banks is how many banks the fragment is made of.
func (c *BankFragments) Banks() int { return c.count }

// Err is the *FormatError that ended the walk, with the offset in the sequence; nil if the walk has reached the end.
func (c *BankFragments) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.banks.Err()
}

// join joins the chain that begins with a bank.
func (c *BankFragments) join(b Bank) error {
	data := b.Data()
	if b.Version() != firstPiece || len(data) < chainHeadSize {
		return c.broken("a bank of a chain, version %d with %d bytes, stands where none begins", b.Version(), len(data))
	}
	size := int64(binary.LittleEndian.Uint32(data))
	what := binary.LittleEndian.Uint32(data[4:])
	switch {
	case size <= MaxBankData || size > MaxFragment || what > math.MaxUint16:
		return c.broken("a chain of banks says that its fragment has %d bytes and the kind %#x", size, what)
	case bankedSize(int(size)) > len(c.banks.b)-c.offset:
		return newFormatError(ErrTruncated, formatBank, "chain", c.offset, "the fragment of %d bytes reaches beyond the "+
			"%d that are left", size, len(c.banks.b)-c.offset)
	}
	c.fragment = SourceFragment{Type: BankType(what), Version: uint8(what >> 8), Source: uint16(b.SourceID())}
	if !c.onlyLook && cap(c.joined) < int(size) {
		c.joined = make([]byte, 0, size)
	}
	c.joined = c.joined[:0]
	for left := int(size) + chainHeadSize; ; {
		if n := min(left, pieceBytes); len(b.Data()) != n {
			return c.broken("bank %d of a chain has %d bytes of data, and not %d", c.count-1, len(b.Data()), n)
		}
		left -= len(b.Data())
		if data = b.Data(); c.count == 1 {
			data = data[chainHeadSize:]
		}
		if !c.onlyLook {
			c.joined = append(c.joined, data...)
		}
		if left == 0 {
			c.fragment.Data = c.joined
			return nil
		}
		if !c.banks.Next() {
			if err := c.banks.Err(); err != nil {
				return err
			}
			return c.broken("a chain lacks %d bytes", left)
		}
		before := b.SourceID()
		b = c.banks.Bank()
		c.count++
		if b.Type() != FragmentPiece || b.Version() != laterPiece || b.SourceID() != before {
			return c.broken("a chain of source %d lacks %d bytes, and another bank follows, type %v, version %d, source %d",
				uint16(before), left, b.Type(), b.Version(), uint16(b.SourceID()))
		}
	}
}

// broken is the error of a chain that is not whole.
func (c *BankFragments) broken(format string, args ...any) error {
	return newFormatError(ErrSize, formatBank, "chain", c.offset, format, args...)
}
