package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"ringlet/event"
	"ringlet/internal/crc32c"
	"ringlet/internal/safeopen"
)

// The way of data through a verification:
//
//  1. each segment is cut into pieces of some 256 MiB, by its index (sequential)
//  2. a piece is read from front to back (parallel, a goroutine each): 256 KiB at once, or a MEP if that is larger; the
//     running CRC goes on while the bytes are in the cache
//  3. the bytes of each MEP are parsed where they lie
//  4. sound MEPs go into one set, a batch at a time
const (
	pieceBytes = 256 << 20
	readBytes  = 256 << 10
	batchMEPs  = 1024
)

// segmentPiece is a stretch of a segment.
type segmentPiece struct {
	segment            *SegmentContents
	fromEntry, toEntry int64 // entries
	problems           Problems
}

// dataReader is a verification of data under way.
type dataReader struct {
	c          *Contents
	content    Content // nil: none
	progress   func(done, total int64)
	totalBytes int64

	mu               sync.Mutex
	sound            *MEPSet
	missingFragments uint64 // fragments that the verdict names
	doneBytes        int64
}

// readData reads the data of all segments, adds what is wrong to the problems of c, and gives what is
// sound.
func readData(ctx context.Context, c *Contents, content Content, o VerifyOptions) (*dataReader, error) {
	d := &dataReader{c: c, content: content, sound: c.Manifest.newMEPSet()}
	if c.removedMEPs != nil {
		d.sound.Union(c.removedMEPs) // they were sound when they were drained
	}
	if o.Progress != nil {
		d.progress = func(done, total int64) { o.Progress(c.Dir, done, total) }
	}
	var pieces []*segmentPiece
	for _, s := range c.allSegments() {
		d.totalBytes += s.Bytes
		n := min(s.Bytes/pieceBytes+1, s.entryCount)
		for i := range n {
			if p := (&segmentPiece{segment: s, fromEntry: s.entryCount * i / n,
				toEntry: s.entryCount * (i + 1) / n}); p.fromEntry < p.toEntry {
				pieces = append(pieces, p)
			}
		}
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(o.Workers)
	for _, p := range pieces {
		group.Go(func() error { return d.readPiece(reading, p) })
	}
	err := cmp.Or(group.Wait(), context.Cause(ctx))
	for _, p := range pieces {
		for _, problem := range p.problems.Listed {
			p.segment.Problems.add(problem.Kind, problem.File, problem.Events, "%s", problem.Text)
		}
		p.segment.Problems.More += p.problems.More
	}
	return d, err
}

// readPiece goes through a piece.
func (d *dataReader) readPiece(ctx context.Context, p *segmentPiece) error {
	if ctx.Err() != nil {
		return ctx.Err() // another piece cannot be read
	}
	s := p.segment
	f, err := safeopen.OpenNoFollow(filepath.Join(d.c.Dir, s.Name))
	if errors.Is(err, fs.ErrNotExist) && s.IsOpen {
		f, err = safeopen.OpenNoFollow(filepath.Join(d.c.Dir, s.ID.Name())) // it has been closed meanwhile
	}
	if err != nil {
		d.reportUnopened(p, s.Name, err)
		return nil
	}
	defer func() { _ = f.Close() }()
	x, err := openIndex(s.indexPath)
	if err != nil {
		d.reportUnopened(p, s.indexName(), err)
		return nil
	}
	defer func() { _ = x.close() }()
	w := &crcReader{f: f}
	if err := w.seekBehind(ctx, x, p.fromEntry, d.c.Manifest, s.fileSize); err != nil {
		return err
	}
	batch := make([]Entry, 0, batchMEPs)
	err = x.scan(ctx, p.fromEntry, p.toEntry, func(_ int64, e *Entry, ok bool) error {
		if !ok || e.Offset < w.crcEnd || !d.usable(e, s) {
			return nil // Read has named it
		}
		sound, err := d.checkEntry(ctx, p, w, e)
		if err != nil {
			return err
		}
		if sound {
			batch = append(batch, *e)
		}
		if len(batch) == cap(batch) || w.unreported > pieceBytes/16 {
			d.addSound(batch, w)
			batch = batch[:0]
		}
		return nil
	})
	d.addSound(batch, w)
	if err != nil && ctx.Err() == nil {
		p.problems.add(Unreadable, s.Name, nil, "%v", err)
		return nil
	}
	return err
}

// reportUnopened tells of a file that could not be opened, unless a second filter has drained its segment meanwhile:
// the MEPs were sound then.
func (d *dataReader) reportUnopened(p *segmentPiece, file string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) && p.segment.IsDrained { // since another piece of it was to be read
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		if meps := d.c.drainedSet(p.segment); meps != nil {
			d.sound.Union(meps)
			return
		}
	}
	p.problems.add(Unreadable, file, nil, "%v", err)
}

// usable says that an entry can be of this run, and of this file.
func (d *dataReader) usable(e *Entry, s *SegmentContents) bool {
	return e.checkAgainst(d.c.Manifest) == nil && e.End() <= s.fileSize
}

// addSound puts sound MEPs into the set, and tells how far the reading is.
func (d *dataReader) addSound(batch []Entry, w *crcReader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range batch {
		d.sound.Add(e)
	}
	d.doneBytes += w.unreported
	w.unreported = 0
	if d.progress != nil {
		d.progress(d.doneBytes, d.totalBytes)
	}
}

// checkEntry checks the bytes of one MEP. An error is of reading.
func (d *dataReader) checkEntry(ctx context.Context, p *segmentPiece, w *crcReader, e *Entry) (sound bool, err error) {
	contiguous := e.Offset == w.crcEnd
	data, crc, err := w.read(ctx, e)
	if err != nil {
		return false, err
	}
	if crc != e.CRC {
		where := ""
		if !contiguous {
			where = ", or those before it,"
		}
		p.problems.add(DamagedData, p.segment.Name, e.eventRange(), "the bytes of MEP %d at offset %d%s have been changed: "+
			"the CRC-32C up to its end is %08x, the index says %08x", e.MEP, e.Offset, where, crc, e.CRC)
		return false, nil
	}
	if err := checkFormat(p.segment.ID.Format, e, data); err != nil {
		p.problems.add(WrongContent, p.segment.Name, e.eventRange(), "MEP %d at offset %d: %v", e.MEP, e.Offset, err)
		return false, nil
	}
	if d.content == nil {
		return true, nil
	}
	return d.compareContent(p, e, data), nil
}

// compareContent holds a MEP against what it should be. One of which fragments are missing is as it was built.
func (d *dataReader) compareContent(p *segmentPiece, e *Entry, data []byte) (sound bool) {
	err := d.content.Check(p.segment.ID.Format, e, data)
	missing, kind := (*MissingError)(nil), WrongContent
	if errors.As(err, &missing) {
		kind = MissingFragments
	}
	switch {
	case err == nil:
	case missing != nil && d.c.Manifest.Verdict.namesMissing(e.MEP, missing.Sources):
		d.mu.Lock()
		defer d.mu.Unlock()
		d.missingFragments += missing.Fragments
	default:
		p.problems.add(kind, p.segment.Name, e.eventRange(), "MEP %d at offset %d: %v", e.MEP, e.Offset, err)
	}
	return err == nil || missing != nil
}

// crcReader reads a file of data from front to back, with its running CRC.
type crcReader struct {
	f          io.ReaderAt
	buf        []byte
	bufOffset  int64 // offset of buf
	crcEnd     int64 // of what the CRC covers
	crc        uint32
	unreported int64 // bytes read since the last report
}

// seekBehind sets the CRC to that of everything before entry from.
func (w *crcReader) seekBehind(ctx context.Context, x *indexFile, from int64, m *Manifest, size int64) error {
	for i := from - 1; i >= 0; i-- {
		found := false
		err := x.scan(ctx, i, i+1, func(_ int64, e *Entry, ok bool) error {
			if found = ok && e.checkAgainst(m) == nil && e.End() <= size; found {
				w.crcEnd, w.crc = e.End(), e.CRC
			}
			return nil
		})
		if err != nil || found {
			return err
		}
	}
	return nil
}

// read gives the bytes of e, good until the next call, and the CRC up to their end. What stands before them and is of
// no MEP is taken into the CRC. The next entry goes on from the CRC in the index, so that damage is named once.
func (w *crcReader) read(ctx context.Context, e *Entry) (data []byte, crc uint32, err error) {
	if err := w.extendCRC(ctx, e.Offset); err != nil {
		return nil, 0, err
	}
	data, err = w.bytes(e.Offset, e.Length)
	if err != nil {
		return nil, 0, err
	}
	crc = crc32c.Add(w.crc, data)
	w.crcEnd, w.crc = e.End(), e.CRC
	w.unreported += e.Length
	return data, crc, nil
}

// extendCRC takes the bytes up to an offset into the CRC.
func (w *crcReader) extendCRC(ctx context.Context, offset int64) error {
	for w.crcEnd < offset {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := w.bytes(w.crcEnd, min(offset-w.crcEnd, readBytes))
		if err != nil {
			return err
		}
		w.crc = crc32c.Add(w.crc, b)
		w.crcEnd += int64(len(b))
	}
	return nil
}

// bytes gives n bytes at offset.
func (w *crcReader) bytes(offset, n int64) ([]byte, error) {
	if from := offset - w.bufOffset; from >= 0 && from+n <= int64(len(w.buf)) {
		return w.buf[from : from+n], nil
	}
	size := max(n, readBytes)
	if int64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	got, err := w.f.ReadAt(w.buf[:size], offset)
	w.buf, w.bufOffset = w.buf[:got], offset
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("%d bytes at offset %d cannot be read: %w", n, offset, err)
	}
	return w.buf[:n], nil
}

// checkFormat says what of the bytes of a MEP is not as its format and its entry say.
func checkFormat(f Format, e *Entry, data []byte) error {
	switch f {
	case FormatMDF:
		return checkRecords(e, data)
	case FormatMFP:
		return checkMFPs(e, data)
	}
	m, err := event.ParseMEP(data)
	if err == nil && len(m.Bytes()) != len(data) {
		err = fmt.Errorf("it has %d bytes, its header says %d", len(data), len(m.Bytes()))
	}
	if err == nil {
		err = m.Verify()
	}
	if err != nil || m.NumMFPs() == 0 {
		return err
	}
	p, err := m.MFP(0)
	if err != nil {
		return err
	}
	return checkRange(e, p)
}

func checkRange(e *Entry, p event.MFP) error {
	if p.FirstEvent() != e.FirstEvent || p.NumFragments() != int(e.Events) {
		return fmt.Errorf("the MFP of source %d has %d events from %d, the index says %d from %d",
			p.Source(), p.NumFragments(), p.FirstEvent(), e.Events, e.FirstEvent)
	}
	return nil
}

func checkMFPs(e *Entry, data []byte) error {
	for before := -1; len(data) > 0; {
		p, err := event.ParseMFP(data)
		if err != nil {
			return err
		}
		if err := checkRange(e, p); err != nil {
			return err
		}
		if int(p.Source()) <= before {
			return fmt.Errorf("source %d stands behind source %d", p.Source(), before)
		}
		before, data = int(p.Source()), data[len(p.Bytes()):]
	}
	return nil
}

func checkRecords(e *Entry, data []byte) error {
	n := uint32(0)
	for c := event.NewMDFCursor(data, true); ; n++ {
		_, err := c.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if n != e.Events {
		return fmt.Errorf("it has %d records, the index says %d events", n, e.Events)
	}
	return nil
}
