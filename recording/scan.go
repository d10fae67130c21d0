package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"ringlet/internal/crc32c"
	"ringlet/internal/safeopen"
)

// entriesPerScan is how many entries of an index are read at once: 192 KiB.
const entriesPerScan = 4096

// readBytes is how many bytes of data are read at once, unless a MEP has more.
const readBytes = 256 << 10

// indexFile is an index that is open for reading.
type indexFile struct {
	f         *os.File
	header    Header
	size      int64
	entries   int64 // whole entries in the file
	tornBytes int64 // bytes after the last whole entry
}

// openIndex opens an index and reads its header. The error is the system's, or an errHeader.
func openIndex(path string) (*indexFile, error) {
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return nil, err
	}
	x, err := parseIndexFile(f)
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return x, nil
}

// parseIndexFile reads the header of an open index. Even if the error is errHeader, the entries can be read.
func parseIndexFile(f *os.File) (*indexFile, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var head [HeaderBytes]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	body := max(st.Size()-HeaderBytes, 0)
	x := &indexFile{
		f:         f,
		size:      st.Size(),
		entries:   body / EntryBytes,
		tornBytes: body % EntryBytes,
	}
	return x, x.header.Parse(head[:n])
}

// readHeader reads the header of the index at path.
func readHeader(path string) (Header, error) {
	x, err := openIndex(path)
	if err != nil {
		return Header{}, err
	}
	return x.header, x.close()
}

func (x *indexFile) close() error { return x.f.Close() }

// errStop is the error by which visit ends a scan.
var errStop = errors.New("the rest is not of use")

// entryState says whether an entry of an index can be used.
type entryState int

const (
	entryGood    entryState = iota
	entryTorn               // its checksum is wrong: its MEP is unknown
	entryDamaged            // no MEP of the run can be so, or the entry is not in its place
	entryBeyond             // the data do not reach so far
)

// scannedEntry is an entry as scan found it.
type scannedEntry struct {
	Entry
	number int64 // from 0
	state  entryState
	reason error  // why it is damaged
	before uint32 // CRC-32C of the segment up to the MEP,
	proven bool   // before is known, since the entry before is good
}

// segmentScan goes through a segment by its index. Recovering, verifying, draining, merging and showing a segment all
// use it, so that they agree which entries are good.
type segmentScan struct {
	index *indexFile
	m     *Manifest // of the run; nil: unknown, and check accepts any MEP
	size  int64     // bytes of data that entries may cover
	data  io.ReaderAt

	end        int64  // offset after the last good entry
	crc        uint32 // CRC-32C of the segment up to there
	buf        []byte // data from bufAt on
	bufAt      int64
	unreported int64 // bytes of MEPs read since the last report
}

// scan calls visit with the entries from `from` to before `to`. It ends early, without an error, if visit returns
// errStop or the file has become shorter. visit may read the MEP of a good entry.
func (s *segmentScan) scan(ctx context.Context, from, to int64, visit func(e *scannedEntry) error) error {
	buf := make([]byte, max(0, min(to-from, entriesPerScan))*EntryBytes)
	gap := from > 0 // the entry before is not good, or unknown
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(to-from, entriesPerScan)
		got, err := s.index.f.ReadAt(buf[:n*EntryBytes], HeaderBytes+from*EntryBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for b := buf[:got-got%EntryBytes]; len(b) > 0; b, from = b[EntryBytes:], from+1 {
			e := scannedEntry{number: from}
			s.classify(&e, b, gap)
			if err := visit(&e); errors.Is(err, errStop) {
				return nil
			} else if err != nil {
				return err
			}
			if gap = e.state != entryGood; !gap {
				s.end, s.crc = e.End(), e.CRC
			}
		}
		if int64(got) < n*EntryBytes {
			return nil
		}
	}
	return nil
}

// classify sets the state of an entry from its bytes.
func (s *segmentScan) classify(e *scannedEntry, b []byte, gap bool) {
	if !e.Parse(b) {
		e.state = entryTorn
		return
	}
	e.before, e.proven = s.crc, s.end == e.Offset
	if e.reason = e.check(s.m); e.reason == nil && (e.Offset < s.end || e.Offset > s.end && !gap) {
		e.reason = fmt.Errorf("MEP %d begins at byte %d, the one before it ends at byte %d", e.MEP, e.Offset, s.end)
	}
	switch {
	case e.reason != nil:
		e.state = entryDamaged
	case e.End() > s.size:
		e.state = entryBeyond
	}
}

// seek prepares a scan from entry from on: it takes the end and the CRC from the last good one of the back entries
// before.
func (s *segmentScan) seek(ctx context.Context, from, back int64) error {
	s.end, s.crc = 0, 0
	for i := from - 1; i >= max(0, from-back) && s.end == 0; i-- {
		if err := s.scan(ctx, i, i+1, func(*scannedEntry) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// read returns the bytes of the visited entry, valid until the next call, and the CRC-32C of the segment up to their
// end. The CRC covers bytes before them that belong to no MEP.
func (s *segmentScan) read(ctx context.Context, e *Entry) (data []byte, crc uint32, err error) {
	if crc, err = s.sum(ctx, e.Offset); err != nil {
		return nil, 0, err
	}
	if data, err = s.bytes(e.Offset, e.Length); err != nil {
		return nil, 0, err
	}
	s.unreported += e.Length
	return data, crc32c.Add(crc, data), nil
}

// sum returns the CRC-32C of the segment up to an offset after the last good entry.
func (s *segmentScan) sum(ctx context.Context, to int64) (crc uint32, err error) {
	crc = s.crc
	for at := s.end; at < to; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		b, err := s.bytes(at, min(to-at, readBytes))
		if err != nil {
			return 0, err
		}
		crc, at = crc32c.Add(crc, b), at+int64(len(b))
	}
	return crc, nil
}

// bytes returns n bytes at offset, valid until the next call.
func (s *segmentScan) bytes(offset, n int64) ([]byte, error) {
	if from := offset - s.bufAt; from >= 0 && from+n <= int64(len(s.buf)) {
		return s.buf[from : from+n], nil
	}
	size := max(n, readBytes)
	switch {
	case n > math.MaxInt32:
		return nil, fmt.Errorf("%d bytes are more than the %d that are accepted", n, math.MaxInt32)
	case int64(cap(s.buf)) < size:
		s.buf = make([]byte, size)
	}
	got, err := s.data.ReadAt(s.buf[:size], offset)
	s.buf, s.bufAt = s.buf[:got], offset
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%d bytes at offset %d cannot be read: %w", n, offset, err)
	}
	return s.buf[:n], nil
}

// maxMEPs bounds the MEP numbers that are accepted from an index: at a million MEPs a second a run would take 12 days
// to reach it. Without a bound a damaged index could make the set of its MEPs large or slow.
const maxMEPs = 1 << 40

// check says why no MEP of a run can have an entry; nil if one can. Since each MEP has a byte, an index has no more
// good entries than its segment has bytes.
func (e *Entry) check(m *Manifest) error {
	if e.Length == 0 {
		return fmt.Errorf("MEP %d has no bytes", e.MEP)
	}
	if m == nil {
		return nil
	}
	least, first := uint32(0), e.MEP*uint64(m.Packing)
	if m.Live {
		least, first = 1, e.FirstEvent
	}
	switch {
	case e.MEP >= maxMEPs || first > math.MaxUint64-uint64(e.Events):
		return fmt.Errorf("MEP %d with %d events from %d is beyond what can be counted", e.MEP, e.Events, e.FirstEvent)
	case e.FirstEvent != first:
		return fmt.Errorf("MEP %d begins with event %d; with %d events in a MEP it would begin with event %d",
			e.MEP, e.FirstEvent, m.Packing, first)
	case e.Events < least || uint64(e.Events) > uint64(m.Packing):
		return fmt.Errorf("MEP %d has %d events, a MEP of this run has %d to %d", e.MEP, e.Events, least, m.Packing)
	}
	return nil
}

// eventRange returns the events of an entry; nil if it has none.
func (e *Entry) eventRange() *Range {
	if e.Events == 0 {
		return nil
	}
	return &Range{From: e.FirstEvent, To: e.FirstEvent + uint64(e.Events) - 1}
}
