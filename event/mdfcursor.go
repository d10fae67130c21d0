package event

import (
	"bytes"
	"io"
)

// MDFCursor walks the records of a sequence in memory, a mapped file for
// instance, without copying or allocating. It is owned by one goroutine.
//
//	c := event.NewMDFCursor(b, true)
//	for {
//		record, err := c.Next()
//		if err == io.EOF {
//			break
//		}
//		if err != nil {
//			// stop here, or count it, c.Skip() and go on
//		}
//	}
type MDFCursor struct {
	b              []byte
	verify         bool
	offset         int    // offset of the record
	size           int    // of the record that Next gave last; 0 before the first and after a failure
	index          int64  // of the record at offset
	err            error  // why Next refused the record at offset
	unpackedRecord Record // the record that Next gave last, unpacked; with verify only
	buf            []byte // memory of unpackedRecord
	// skipping: SkipSome has returned before it found the next record, and goes on searching from offset.
	skipping bool

	// Computed checksums: sums[head] of the record at offset, up to sums[end-1] of the records behind it.
	sums [aheadMaxRecords]uint32
	head int
	end  int
}

// How many records lookAhead takes: at most aheadMaxRecords, until they have aheadTargetBytes together. If fewer than
// aheadMinRecords have that much, it takes more of them, up to aheadMaxBytes, so that all lanes have work.
const (
	aheadMaxRecords  = 32
	aheadMinRecords  = 2 * laneCount
	aheadTargetBytes = 1 << 20
	aheadMaxBytes    = 16 << 20
)

// NewMDFCursor starts before the first record of b. With verify, Next also checks each record's banks and checksum, and
// for that reads up to 16 MiB ahead of the record that it returns.
func NewMDFCursor(b []byte, verify bool) MDFCursor { return MDFCursor{b: b, verify: verify} }

// Next steps to the next record; io.EOF says that there is none. For a bad record it returns a *FormatError with the
// record's index and the offset in the sequence, and returns the same error until the caller calls Skip.
func (c *MDFCursor) Next() (Record, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.size > 0 {
		c.step(c.size)
	}
	if c.offset == len(c.b) {
		return nil, io.EOF
	}
	r, err := ParseRecord(c.b[c.offset:])
	if err == nil && c.verify {
		err = c.verifyRecord(r)
	}
	if err != nil {
		c.err = LocateError(err, c.index, int64(c.offset))
		return nil, c.err
	}
	c.size = len(r)
	return r, nil
}

func (c *MDFCursor) step(n int) {
	c.offset += n
	c.index++
	c.size = 0
	c.head = min(c.head+1, c.end)
}

// verifyRecord is Record.Verify of r, the record at offset, with the checksum from sums.
func (c *MDFCursor) verifyRecord(r Record) (err error) {
	if c.unpackedRecord, err = r.Unpacked(&c.buf); err != nil {
		return err
	}
	if err := c.unpackedRecord.CheckBanks(); err != nil {
		return err
	}
	if r.StoredChecksum() == 0 {
		return nil
	}
	if c.head == c.end {
		c.lookAhead()
	}
	return r.compareChecksum(c.sums[c.head])
}

// lookAhead computes the checksums of the record at offset, whose header is
// sound, and of the records behind it up to the first bad header.
func (c *MDFCursor) lookAhead() {
	var pieces [aheadMaxRecords][]byte
	n, size := 0, 0
	for rest := c.b[c.offset:]; len(rest) > 0 && n < aheadMaxRecords &&
		(size < aheadTargetBytes || n < aheadMinRecords); n++ {
		r, err := ParseRecord(rest)
		if err != nil || n > 0 && size+len(r) > aheadMaxBytes {
			break
		}
		pieces[n] = r[MDFChecksumFrom:]
		size += len(r)
		rest = rest[len(r):]
	}
	mdfChecksums(c.sums[:n], pieces[:n])
	c.head, c.end = 0, n
}

// Skip goes past the record that Next refused, and returns the number of bytes left out. If the record's size is known
// (two of the three sizes agree, and a record or the end follows), these are the record's bytes; otherwise all bytes up
// to the next place that looks like a record. Without a refused record it does nothing.
func (c *MDFCursor) Skip() int64 {
	n, _ := c.SkipSome(int(^uint(0) >> 1))
	return n
}

// SkipSome is Skip in steps of bounded time: it searches about most bytes. If it has not found the next record, done is
// false and the caller calls it again; the results of all calls add up to the result of Skip.
func (c *MDFCursor) SkipSome(most int) (n int64, done bool) {
	if c.err == nil {
		return 0, true
	}
	rest := c.b[c.offset:]
	k, found := 0, false
	if !c.skipping {
		k, found = badExtent(rest)
	}
	if !found {
		ahead := rest[:min(len(rest), max(most, 2*mdfFixedSize))]
		if k, found = findRecord(ahead); !found && len(ahead) < len(rest) {
			k = len(ahead) - mdfFixedSize // the last place findRecord has looked at: the next call begins behind it
			c.offset += k
			c.skipping = true
			return int64(k), false
		}
	}
	c.step(k)
	c.head = c.end // drops the sums: the records they belong to may begin elsewhere
	c.err, c.skipping = nil, false
	return int64(k), true
}

// Unpacked is the record that Next gave last, unpacked (Record.Unpacked), valid until the next call of Next. Only a
// cursor with verify has it.
func (c *MDFCursor) Unpacked() Record { return c.unpackedRecord }

// Index is the index, from 0, of the record that Next gave or refused last.
func (c *MDFCursor) Index() int64 { return c.index }

// Offset is where that record begins, in bytes from the start.
func (c *MDFCursor) Offset() int64 { return int64(c.offset) }

// checkedRecord is ParseRecord and, with verify, Record.Verify.
func checkedRecord(b []byte, verify bool) (Record, error) {
	r, err := ParseRecord(b)
	if err == nil && verify {
		err = r.Verify()
	}
	return r, err
}

// badExtent is the size of the bad record at the start of b, if its size fields give it.
func badExtent(b []byte) (int, bool) {
	if r, err := ParseRecord(b); err == nil {
		return len(r), true // the header is sound: a bank or the checksum is wrong
	}
	n, ok := majoritySize(b)
	if !ok || n > len(b) || n < len(b) && !looksLikeRecord(b[n:]) {
		return 0, false
	}
	return n, true
}

// majoritySize is the value of at least two of the three size fields at the start of b.
func majoritySize(b []byte) (int, bool) {
	if len(b) < 12 {
		return 0, false
	}
	s0, s1, s2 := recordSizes(b)
	if s0 != s1 && s0 != s2 {
		s0 = s1
		if s1 != s2 {
			return 0, false
		}
	}
	return int(s0), s0 >= mdfFixedSize
}

// looksLikeRecord says whether b begins with a header whose fields agree with
// one another.
func looksLikeRecord(b []byte) bool {
	if len(b) < mdfFixedSize {
		return false
	}
	s0, s1, s2 := recordSizes(b)
	if s0 != s1 || s1 != s2 || s0 < mdfFixedSize {
		return false // recordSize would allocate an error for each byte of a stretch of zeros
	}
	r := Record(b)
	return r.HeaderSize() <= int(s0) &&
		(r.Version() != MDFVersion || r.HeaderSize() >= MDFHeaderSize) &&
		(r.dataType() == MDFTypeBanks || r.dataType() == MDFTypeMEP)
}

// findRecord searches b, from its second byte on, for the next record. It returns len(b) and false if there is none.
func findRecord(b []byte) (int, bool) {
	for at := 1; at+mdfFixedSize <= len(b); at++ {
		// Compare two sizes first: nearly all places fail this cheap check.
		if bytes.Equal(b[at:at+4], b[at+4:at+8]) && looksLikeRecord(b[at:]) {
			return at, true
		}
	}
	return len(b), false
}
