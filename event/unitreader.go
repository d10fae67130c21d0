package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// defaultMaxUnitBytes is the default of UnitReaderOptions.MaxUnitBytes: 64 MiB,
// two hundred times the largest event of the reference sample (349,460 bytes).
const defaultMaxUnitBytes = 64 << 20

// readChunk is the least size of a UnitReader's buffer, in bytes.
const readChunk = 256 << 10

// UnitReaderOptions are the options of NewUnitReader.
type UnitReaderOptions struct {
	// Format is FormatMDF, FormatMEP or FormatMFP. Empty means FormatMDF.
	Format string
	// MaxUnitBytes is the largest record or packet accepted, in bytes. Zero means
	// defaultMaxUnitBytes.
	MaxUnitBytes int
	// Verify makes Next check each record's banks and checksum too. False means
	// only what ParseRecord checks.
	Verify bool
}

// unitFormat is how a UnitReader reads one format.
type unitFormat struct {
	headBytes  int    // bytes of the head, which contain the size
	sizeField  string // name of the size field
	sizeOffset int
	// claimedSize is the size that the head of a unit claims. ok is false if the
	// head is wrong; checkUnit then returns the error.
	claimedSize func(b []byte) (size uint64, ok bool)
	checkUnit   func(b []byte, verify bool) ([]byte, error)
	// badExtent is the size of the bad unit at the start of b, if its head gives
	// it. probeBytes is how many bytes badExtent must see.
	badExtent  func(b []byte) (int, bool)
	probeBytes func(b []byte) (int, bool)
	// findNext searches the next unit behind the first byte of b.
	findNext func(b []byte) (int, bool)
}

var unitFormats = map[string]unitFormat{
	FormatMDF: {
		headBytes: 12,
		sizeField: "record size",
		claimedSize: func(b []byte) (uint64, bool) {
			size, err := recordSize(b)
			return size, err == nil
		},
		checkUnit: func(b []byte, verify bool) ([]byte, error) { return checkedRecord(b, verify) },
		badExtent: badExtent,
		probeBytes: func(b []byte) (int, bool) {
			n, ok := majoritySize(b)
			return n + mdfFixedSize, ok
		},
		findNext: findRecord,
	},
	FormatMEP: packetFormat(MEPFixedSize, FormatMEP, MEPWordBytes, func(b []byte, _ bool) ([]byte, error) {
		p, err := ParseMEP(b)
		return p.Bytes(), err
	}),
	FormatMFP: packetFormat(MFPFixedSize, FormatMFP, 1, func(b []byte, _ bool) ([]byte, error) {
		p, err := ParseMFP(b)
		return p.Bytes(), err
	}),
}

// packetFormat is a format of packets with magic and size in their first MEPFixedSize bytes. findNext finds nothing:
// two bytes of magic may stand anywhere in the data, so they do not prove the beginning of a packet.
func packetFormat(head int, name string, word uint64, check func([]byte, bool) ([]byte, error)) unitFormat {
	claim := func(b []byte) (uint64, bool) {
		if len(b) < MEPFixedSize {
			return 0, false
		}
		size := uint64(binary.LittleEndian.Uint32(b[4:])) * word
		return size, DetectPacket(b) == name && size >= MEPFixedSize
	}
	extent := func(b []byte) (int, bool) {
		size, ok := claim(b)
		return int(size), ok && size <= uint64(len(b))
	}
	return unitFormat{
		headBytes:   head,
		sizeField:   "packet size",
		sizeOffset:  4,
		claimedSize: claim,
		checkUnit:   check,
		badExtent:   extent,
		probeBytes:  extent,
		findNext:    func(b []byte) (int, bool) { return len(b), false },
	}
}

// UnitReader reads records or packets from a stream. Its memory is at most twice the largest unit that has arrived,
// however large a unit claims to be. It is owned by one goroutine.
type UnitReader struct {
	unitFormat
	src    io.Reader
	opts   UnitReaderOptions
	buf    []byte
	r, w   int   // buf[r:w] is read and not yet consumed
	size   int   // of the unit that Next gave last, which is still at r
	offset int64 // offset of buf[r] in the stream
	index  int64 // of the unit at r
	srcErr error // why src gives no more bytes, such as io.EOF
	err    error // why Next refused the unit at r
}

// NewUnitReader reads units from src, which it buffers.
func NewUnitReader(src io.Reader, opts UnitReaderOptions) *UnitReader {
	if opts.MaxUnitBytes <= 0 {
		opts.MaxUnitBytes = defaultMaxUnitBytes
	}
	if opts.Format == "" {
		opts.Format = FormatMDF
	}
	return &UnitReader{unitFormat: unitFormats[opts.Format], src: src, opts: opts}
}

// Next reads the next unit, valid until the next call; io.EOF says that there is none. The unit is a Record, or the
// bytes of a MEP or MFP. For a bad unit Next returns a *FormatError with the unit's index and the offset in the stream,
// and returns it again until the caller calls Skip. A failure of src is returned wrapped, and is final.
func (d *UnitReader) Next() ([]byte, error) {
	if d.err != nil {
		return nil, d.err
	}
	if d.size > 0 {
		d.step(d.size)
	}
	r, err := d.peek()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		d.err = LocateError(err, d.index, d.offset)
		return nil, d.err
	}
	d.size = len(r)
	return r, nil
}

// peek gives the unit at r, without consuming it.
func (d *UnitReader) peek() ([]byte, error) {
	if err := d.fill(d.headBytes); err != nil {
		return nil, err
	}
	if d.w == d.r {
		return nil, io.EOF
	}
	if size, ok := d.claimedSize(d.buf[d.r:d.w]); ok {
		if size > uint64(d.opts.MaxUnitBytes) {
			return nil, newFormatError(ErrSize, d.opts.Format, d.sizeField, d.sizeOffset,
				"%d bytes are more than the %d that are accepted", size, d.opts.MaxUnitBytes)
		}
		if err := d.fill(int(size)); err != nil {
			return nil, err
		}
	}
	return d.checkUnit(d.buf[d.r:d.w], d.opts.Verify)
}

func (d *UnitReader) step(n int) {
	d.r += n
	d.offset += int64(n)
	d.size = 0
	d.index++
}

// fill reads until n bytes are in the buffer or src ends. The end of src is no error, any other failure is.
func (d *UnitReader) fill(n int) error {
	idle := 0
	for d.w-d.r < n && d.srcErr == nil {
		d.growBuffer()
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
		return fmt.Errorf("%s record %d at offset %d: cannot read: %w", d.opts.Format, d.index, d.offset, d.srcErr)
	}
	return nil
}

// growBuffer makes room behind w. The buffer doubles only when it is full of
// bytes that have arrived: a size field that claims 4 GiB costs nothing.
func (d *UnitReader) growBuffer() {
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

// Skip goes past the unit that Next refused, and returns the number of bytes left out; MDFCursor.Skip says how far it
// goes. If a packet's header does not give its end, Skip goes to the end of the stream. Without a refused unit it does
// nothing. A failure of src is returned, and is final.
func (d *UnitReader) Skip() (int64, error) {
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

// skip consumes the bad unit at r.
func (d *UnitReader) skip() (int64, error) {
	if n, ok := d.probeBytes(d.buf[d.r:d.w]); ok && n-mdfFixedSize <= d.opts.MaxUnitBytes {
		if err := d.fill(n); err != nil {
			return 0, err
		}
	}
	if n, ok := d.badExtent(d.buf[d.r:d.w]); ok {
		d.consume(n)
		return int64(n), nil
	}
	var skipped int64
	for {
		n, found := d.findNext(d.buf[d.r:d.w])
		if !found && d.srcErr == nil {
			n = max(n-mdfFixedSize, 0) // keeps the last bytes: a record may begin in them
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

func (d *UnitReader) consume(n int) {
	d.r += n
	d.offset += int64(n)
}

// Index is the index, from 0, of the unit that Next gave or refused last.
func (d *UnitReader) Index() int64 { return d.index }

// Offset is where that unit begins, in bytes from the start of the stream.
func (d *UnitReader) Offset() int64 { return d.offset }
