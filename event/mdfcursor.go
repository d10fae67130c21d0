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
	size           int    // of the record last given, 0 before the first and after a failure
	index          int64  // of the record at at
	err            error  // what Next refused it for
	unpackedRecord Record // the record last given, unpacked: with verify only
	buf            []byte // for plain
	// skipping says that the next record was looked for and not found yet: at is
	// where the search goes on.
	skipping bool

	// Checksums that the bytes of the record at at, and of those behind it, give.
	sums [aheadMaxRecords]uint32
	head int // of sums: that of the record at at
	end  int // of sums
}

// Checksums are computed together for the records ahead: up to aheadMaxRecords, of
// aheadTargetBytes in all, or of aheadMaxBytes where fewer than aheadMinRecords have that much.
const (
	aheadMaxRecords  = 32
	aheadMinRecords  = 2 * laneCount
	aheadTargetBytes = 1 << 20
	aheadMaxBytes    = 16 << 20
)

// NewMDFCursor starts before the first record of b. With verify, Next also
// checks each record's banks and checksum; it then reads up to 16 MiB ahead of
// the record that it gives.
func NewMDFCursor(b []byte, verify bool) MDFCursor { return MDFCursor{b: b, verify: verify} }

// Next steps to the next record; io.EOF says that there is none. A bad record
// gives a *FormatError with the record's index and the offset in the sequence;
// Next gives it again until Skip.
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

// verifyRecord is Record.Verify of the record at at.
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

// lookAhead computes the checksums of the sound record at at and of those
// behind it, as far as their headers are sound.
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

// Skip goes past the record that Next refused, and gives the number of bytes
// left out: the record's own where its size can be made out (two of the three
// sizes agree, and a record or the end follows), otherwise all up to the next
// place that looks like a record. Without a refused record it does nothing.
func (c *MDFCursor) Skip() int64 {
	n, _ := c.SkipSome(int(^uint(0) >> 1))
	return n
}

// SkipSome is Skip for who cannot wait: it looks at no more than about most
// bytes. If the next record was not found by then, done is false, and it is to
// be called again; the bytes that the calls give add up to those of Skip.
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
			k = len(ahead) - mdfFixedSize // where it looked last: findRecord goes on behind the first byte
			c.offset += k
			c.skipping = true
			return int64(k), false
		}
	}
	c.step(k)
	c.head = c.end // of records that may not be where they were looked for
	c.err, c.skipping = nil, false
	return int64(k), true
}

// Unpacked is the record last given without its compression (Record.Unpacked), valid until the next call of Next. Only
// a cursor that verifies has it.
func (c *MDFCursor) Unpacked() Record { return c.unpackedRecord }

// Index is the index, from 0, of the record last given or refused.
func (c *MDFCursor) Index() int64 { return c.index }

// Offset is where that record begins, in bytes from the start.
func (c *MDFCursor) Offset() int64 { return int64(c.offset) }

// checkedRecord is ParseRecord, and Verify where asked for.
func checkedRecord(b []byte, verify bool) (Record, error) {
	r, err := ParseRecord(b)
	if err == nil && verify {
		err = r.Verify()
	}
	return r, err
}

// badExtent makes out where a bad record at the start of b ends, if its sizes
// allow to.
func badExtent(b []byte) (int, bool) {
	if r, err := ParseRecord(b); err == nil {
		return len(r), true // sound outside, bad inside
	}
	n, ok := majoritySize(b)
	if !ok || n > len(b) || n < len(b) && !looksLikeRecord(b[n:]) {
		return 0, false
	}
	return n, true
}

// majoritySize is the size that at least two of the three sizes at the start
// of b name.
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
		return false // without recordSize's errors: each byte of a stretch of zeros comes here
	}
	r := Record(b)
	return r.HeaderSize() <= int(s0) &&
		(r.Version() != MDFVersion || r.HeaderSize() >= MDFHeaderSize) &&
		(r.dataType() == MDFTypeBanks || r.dataType() == MDFTypeMEP)
}

// findRecord looks in b, from its second byte on, for the next record. Where
// there is none it gives len(b) and false.
func findRecord(b []byte) (int, bool) {
	for at := 1; at+mdfFixedSize <= len(b); at++ {
		// The first size equals the second: a comparison that nearly all
		// places fail, before the costlier ones.
		if bytes.Equal(b[at:at+4], b[at+4:at+8]) && looksLikeRecord(b[at:]) {
			return at, true
		}
	}
	return len(b), false
}
