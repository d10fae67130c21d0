package event

import (
	"errors"
	"fmt"
	"io"
)

// defaultMaxRecord is the largest record, in bytes, that an MDFReader takes
// where its options name none: 64 MiB, two hundred times the largest event of
// the reference sample (349,460 bytes).
const defaultMaxRecord = 64 << 20

// readChunk is the least an MDFReader asks of its source at once.
const readChunk = 256 << 10

// MDFReaderOptions are the options of NewMDFReader.
type MDFReaderOptions struct {
	// MaxRecord is the largest record accepted, in bytes. Zero means
	// defaultMaxRecord.
	MaxRecord int
	// Verify makes Next check each record's banks and checksum too. False means
	// only what ParseRecord checks.
	Verify bool
}

// MDFReader reads records from a stream. Its memory is bounded by twice the
// largest record seen, however large a record claims to be. It is owned by one
// goroutine.
type MDFReader struct {
	src    io.Reader
	opts   MDFReaderOptions
	buf    []byte
	r, w   int   // buf[r:w] is read and not yet consumed
	size   int   // of the record last given, still at r
	at     int64 // offset of buf[r] in the stream
	index  int64 // of the record at r
	srcErr error // what ended the source
	err    error // what Next refused the record for
}

// NewMDFReader reads records from src, which it buffers.
func NewMDFReader(src io.Reader, opts MDFReaderOptions) *MDFReader {
	if opts.MaxRecord <= 0 {
		opts.MaxRecord = defaultMaxRecord
	}
	return &MDFReader{src: src, opts: opts}
}

// Next reads the next record, valid until the call after; io.EOF says that
// there is none. A bad record gives a *FormatError with the record's index and
// the offset in the stream, and Next gives it again until Skip. A failure of
// the source comes back wrapped and is final.
func (d *MDFReader) Next() (Record, error) {
	if d.err != nil {
		return nil, d.err
	}
	if d.size > 0 {
		d.step(d.size)
	}
	r, err := d.take()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		d.err = Located(err, d.index, d.at)
		return nil, d.err
	}
	d.size = len(r)
	return r, nil
}

// take gives the record at r, without consuming it.
func (d *MDFReader) take() (Record, error) {
	if err := d.fill(12); err != nil {
		return nil, err
	}
	if d.w == d.r {
		return nil, io.EOF
	}
	size, err := recordSize(d.buf[d.r:d.w])
	if err != nil {
		return nil, err
	}
	if size > uint64(d.opts.MaxRecord) {
		return nil, fail(ErrSize, FormatMDF, "record size", 0, "%d bytes are more than the %d that are accepted", size,
			d.opts.MaxRecord)
	}
	if err := d.fill(int(size)); err != nil {
		return nil, err
	}
	return checkedRecord(d.buf[d.r:d.w], d.opts.Verify)
}

func (d *MDFReader) step(n int) {
	d.r += n
	d.at += int64(n)
	d.size = 0
	d.index++
}

// fill reads until n bytes are there or the source ends. Only failures of the
// source other than its end are errors.
func (d *MDFReader) fill(n int) error {
	idle := 0
	for d.w-d.r < n && d.srcErr == nil {
		d.makeRoom()
		k, err := d.src.Read(d.buf[d.w:])
		d.w += k
		d.srcErr = err
		if k > 0 {
			idle = 0
		} else if idle++; idle == 100 && err == nil {
			d.srcErr = io.ErrNoProgress
		}
	}
	if d.srcErr != nil && !errors.Is(d.srcErr, io.EOF) && d.w-d.r < n {
		return fmt.Errorf("mdf record %d at offset %d: cannot read: %w", d.index, d.at, d.srcErr)
	}
	return nil
}

// makeRoom leaves space behind w. The buffer doubles only when it is full of
// bytes that came, so that a size field alone costs nothing.
func (d *MDFReader) makeRoom() {
	if d.w < len(d.buf) {
		return
	}
	if d.r > 0 {
		copy(d.buf, d.buf[d.r:d.w])
		d.w -= d.r
		d.r = 0
	}
	if len(d.buf)-d.w < readChunk/2 {
		grown := make([]byte, max(2*len(d.buf), readChunk))
		copy(grown, d.buf[:d.w])
		d.buf = grown
	}
}

// Skip goes past the record that Next refused, and gives the number of bytes
// left out; MDFCursor.Skip says how far. Without a refused record it does
// nothing. A failure of the source comes back and is final.
func (d *MDFReader) Skip() (int64, error) {
	var bad *FormatError
	if d.err == nil {
		return 0, nil
	}
	if !errors.As(d.err, &bad) {
		return 0, d.err
	}
	n, err := d.skip()
	d.index++
	d.err = err
	return n, err
}

// skip consumes the bad record at r.
func (d *MDFReader) skip() (int64, error) {
	if n, ok := majoritySize(d.buf[d.r:d.w]); ok && n <= d.opts.MaxRecord {
		if err := d.fill(n + mdfFixedSize); err != nil {
			return 0, err
		}
	}
	if n, ok := badExtent(d.buf[d.r:d.w]); ok {
		d.consume(n)
		return int64(n), nil
	}
	var skipped int64
	for {
		n, found := findRecord(d.buf[d.r:d.w])
		if !found && d.srcErr == nil {
			n = max(n-mdfFixedSize, 0) // a record may begin in what is kept
		}
		d.consume(n)
		skipped += int64(n)
		if found || d.r == d.w {
			return skipped, nil
		}
		if err := d.fill(d.w - d.r + 1); err != nil {
			return skipped, err
		}
	}
}

func (d *MDFReader) consume(n int) {
	d.r += n
	d.at += int64(n)
}

// Index is the index, from 0, of the record last given or refused.
func (d *MDFReader) Index() int64 { return d.index }

// Offset is where that record begins, in bytes from the start of the stream.
func (d *MDFReader) Offset() int64 { return d.at }
