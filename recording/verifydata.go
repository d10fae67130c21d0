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
	"ringlet/internal/safeopen"
)

// The way of data through a verification:
//
//  1. each segment is cut into pieces of some 256 MiB, by its index (sequential)
//  2. a piece is read from front to back (parallel, a goroutine each): 256 KiB at once, or a MEP if that is larger; the
//     CRC is computed while the bytes are in the cache
//  3. the bytes of each MEP are parsed in place
//  4. MEPs whose bytes are right are added to one set, a batch at a time
const (
	pieceBytes = 256 << 20
	batchMEPs  = 1024
)

// segmentPiece is a part of a segment.
type segmentPiece struct {
	segment            *SegmentContents
	fromEntry, toEntry int64 // entries [fromEntry, toEntry)
	problems           Problems
}

type dataReader struct {
	c          *Contents
	content    Content // nil: there is none to compare with
	progress   func(done, total int64)
	totalBytes int64

	mu               sync.Mutex
	sound            *MEPSet
	missingFragments uint64 // missing fragments that the verdict names
	doneBytes        int64
}

// readData reads the data of all segments, adds problems to those of c, and returns the MEPs whose bytes are right.
func readData(ctx context.Context, c *Contents, content Content, o VerifyOptions) (*dataReader, error) {
	d := &dataReader{c: c, content: content, totalBytes: c.bytes(), sound: c.Manifest.NewMEPSet()}
	if c.removedMEPs != nil {
		d.sound.Union(c.removedMEPs) // they were right when they were drained
	}
	if o.Progress != nil {
		d.progress = func(done, total int64) { o.Progress(c.Dir, done, total) }
	}
	var pieces []*segmentPiece
	for _, s := range c.allSegments() {
		n := min(s.Bytes/pieceBytes+1, s.entryCount)
		for i := range n {
			if p := (&segmentPiece{segment: s, fromEntry: s.entryCount * i / n,
				toEntry: s.entryCount * (i + 1) / n}); p.fromEntry < p.toEntry {
				pieces = append(pieces, p)
			}
		}
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
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

// readPiece checks all MEPs of a piece.
func (d *dataReader) readPiece(ctx context.Context, p *segmentPiece) error {
	if ctx.Err() != nil {
		return ctx.Err() // another piece could not be read
	}
	s := p.segment
	f, err := safeopen.OpenNoFollow(s.path())
	if errors.Is(err, fs.ErrNotExist) && s.IsOpen {
		f, err = safeopen.OpenNoFollow(filepath.Join(d.c.Dir, s.ID.Name())) // it was closed meanwhile
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
	in := &segmentScan{index: x, m: d.c.Manifest, size: s.fileSize, data: f}
	if err := in.seek(ctx, p.fromEntry, p.fromEntry); err != nil {
		return err
	}
	batch := make([]Entry, 0, batchMEPs)
	err = in.scan(ctx, p.fromEntry, p.toEntry, func(e *scannedEntry) error {
		if e.state != entryGood {
			return nil // Read has listed it
		}
		sound, err := d.checkEntry(ctx, p, in, e)
		if err != nil {
			return err
		}
		if sound {
			batch = append(batch, e.Entry)
		}
		if len(batch) == cap(batch) || in.unreported > pieceBytes/16 {
			d.addSound(batch, in)
			batch = batch[:0]
		}
		return nil
	})
	d.addSound(batch, in)
	if err != nil && ctx.Err() == nil {
		p.problems.add(Unreadable, s.Name, nil, "%v", err)
		return nil
	}
	return err
}

// reportUnopened adds a problem for a file that could not be opened, unless a second filter has drained its segment
// meanwhile: then the MEPs were right.
func (d *dataReader) reportUnopened(p *segmentPiece, file string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) && p.segment.IsDrained { // since another piece of it was read
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

// addSound adds MEPs whose bytes are right to the set, and reports progress.
func (d *dataReader) addSound(batch []Entry, in *segmentScan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range batch {
		d.sound.Add(e)
	}
	d.doneBytes += in.unreported
	in.unreported = 0
	if d.progress != nil {
		d.progress(d.doneBytes, d.totalBytes)
	}
}

// checkEntry checks the bytes of one MEP. An error means that reading failed.
func (d *dataReader) checkEntry(ctx context.Context, p *segmentPiece, in *segmentScan, e *scannedEntry) (sound bool,
	err error) {
	data, crc, err := in.read(ctx, &e.Entry)
	if err != nil {
		return false, err
	}
	if crc != e.CRC {
		where := ""
		if !e.proven {
			where = ", or those before it,"
		}
		p.problems.add(DamagedData, p.segment.Name, e.eventRange(), "the bytes of MEP %d at offset %d%s have been changed: "+
			"the CRC-32C up to its end is %08x, the index says %08x", e.MEP, e.Offset, where, crc, e.CRC)
		return false, nil
	}
	if err := checkFormat(p.segment.ID.Format, &e.Entry, data); err != nil {
		p.problems.add(WrongContent, p.segment.Name, e.eventRange(), "MEP %d at offset %d: %v", e.MEP, e.Offset, err)
		return false, nil
	}
	if d.content == nil {
		return true, nil
	}
	return d.compareContent(p, &e.Entry, data), nil
}

// compareContent compares a MEP with what it should contain. A MEP with missing fragments is as it was built.
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

// checkFormat says in what the bytes of a MEP differ from its format and its entry.
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
			return fmt.Errorf("source %d comes after source %d", p.Source(), before)
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
