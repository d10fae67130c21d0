package sink

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/recording"
)

// storage is a file of a segment; tests put failing and forgetful disks in its place.
type storage interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error // data and size, not times
	Stat(at *unix.Stat_t) error
	Close() error
}

// file is the storage of a real file.
type file struct{ *os.File }

// Sync is fdatasync.
func (f file) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Stat is fstat.
func (f file) Stat(at *unix.Stat_t) error {
	for {
		if err := unix.Fstat(int(f.Fd()), at); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// hook lets tests replace the storage; the zero value changes nothing.
type hook struct {
	wrap func(f *os.File) storage
}

func (h hook) storage(f *os.File) storage {
	if h.wrap == nil {
		return file{f}
	}
	return h.wrap(f)
}

type segment struct {
	// immutable
	id          recording.SegmentID
	path        string // of the data until the segment is closed
	indexPath   string
	data, index storage
	created     time.Time

	// guarded by Segments.ioMu
	totals   recording.Segment // of the MEPs that have an entry
	indexEnd int64             // offset after the last whole entry
	dataEnd  int64             // all data below are written
	stat     unix.Stat_t       // scratch
	encoded  []byte            // scratch

	indexedEnd atomic.Int64 // end of the last MEP that has an entry

	// held by the goroutine that synchronises or closes the segment
	syncMu    sync.Mutex
	syncedEnd int64 // indexedEnd at the last synchronisation
	closed    bool
	syncErr   error // synchronising failed: what the disk has is unknown
}

// createSegment makes the next segment: first the index, whose lock says that the writer lives, then the data.
func (s *Segments) createSegment() (*segment, error) {
	id := recording.SegmentID{Builder: s.c.Builder, Number: s.lastNumber, Format: s.c.Format}
	for {
		id.Number++
		index, err := recording.CreateIndex(filepath.Join(s.c.Dir, id.Index()))
		if errors.Is(err, fs.ErrExist) {
			continue // a number above all taken ones will be free
		}
		if err != nil {
			return nil, wrapError(filepath.Join(s.c.Dir, id.Index()), "create it", err)
		}
		g, err := s.createData(id, index)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return g, err
	}
}

// createData makes the data of a segment that has an index, and writes the header of the index.
func (s *Segments) createData(id recording.SegmentID, index *os.File) (*segment, error) {
	path := filepath.Join(s.c.Dir, id.Name()+recording.OpenSuffix)
	giveUp := func(err error, more ...func() error) (*segment, error) {
		for _, undo := range more {
			_ = undo() // Recover removes an empty file that is left
		}
		_ = os.Remove(index.Name()) // still empty
		_ = index.Close()
		return nil, wrapError(path, "create it", err)
	}
	for _, takenName := range []string{id.Name(), id.Name() + recording.TailSuffix} {
		if _, err := os.Lstat(filepath.Join(s.c.Dir, takenName)); err == nil {
			return giveUp(fs.ErrExist)
		}
	}
	// A killed process may have left a segment of this number, which was closed, drained and removed since register. It
	// was listed in the manifest before its index was removed.
	if m, err := recording.Load(s.c.Dir); err == nil && m.HasSegment(id) {
		return giveUp(fs.ErrExist)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return giveUp(err)
	}
	g := &segment{
		id:        id,
		path:      path,
		indexPath: index.Name(),
		data:      s.hook.storage(f),
		index:     s.hook.storage(index),
		created:   s.c.Now(),
		indexEnd:  recording.HeaderBytes,
	}
	h := recording.Header{
		Segment: id,
		Run:     s.c.Run,
		Key:     s.c.Key,
		Created: g.created.UnixMicro(),
	}
	_, err = g.index.WriteAt(h.Append(nil), 0)
	if err == nil && s.c.Durability == recording.DurabilityDisk {
		err = recording.SyncDir(s.c.Dir)
	}
	if err != nil {
		return giveUp(err, func() error { return os.Remove(path) }, g.data.Close)
	}
	return g, nil
}

// write writes data, then those entries whose MEPs are completely written. An entry's data may have been written by
// earlier calls. What was written before an error counts.
func (g *segment) write(at int64, data []byte, entries []recording.Entry, count *counted[SegmentsStats]) error {
	if err := g.checkUnchanged(g.dataEnd); err != nil {
		return err
	}
	from := time.Now()
	n, err := g.data.WriteAt(data, at)
	count.update(func(s *SegmentsStats) { s.addWrite(n, from) })
	g.advance(at, n)
	err = wrapError(g.path, "write", err)
	g.encoded = g.encoded[:0]
	for i := 0; i < len(entries) && entries[i].End() <= g.dataEnd; i++ {
		g.encoded = entries[i].Append(g.encoded)
	}
	if len(g.encoded) == 0 {
		return err
	}
	n, indexErr := g.index.WriteAt(g.encoded, g.indexEnd)
	g.recordEntries(entries[:n/recording.EntryBytes], count)
	return cmp.Or(err, wrapError(g.indexPath, "write", indexErr))
}

// checkUnchanged checks that the file still has a name and the bytes written so far: otherwise bytes written after
// them would hide that another program has cut the file. The caller holds ioMu.
func (g *segment) checkUnchanged(written int64) error {
	err := g.data.Stat(&g.stat)
	if err == nil && (g.stat.Nlink == 0 || g.stat.Size < written) {
		err = &changedError{Written: written, Actual: g.stat.Size, Gone: g.stat.Nlink == 0}
	}
	if err = wrapError(g.path, "write", err); err != nil {
		g.syncMu.Lock()
		defer g.syncMu.Unlock()
		g.syncErr = cmp.Or(g.syncErr, err)
	}
	return err
}

// checkName checks that the segment's name still leads to the file that this process has open, and that the file has
// exactly the bytes that were written.
func (g *segment) checkName() error {
	var by, at unix.Stat_t
	err := unix.Lstat(g.path, &at)
	gone := errors.Is(err, fs.ErrNotExist)
	if err == nil || gone {
		err = g.data.Stat(&by)
	}
	gone = gone || by.Dev != at.Dev || by.Ino != at.Ino
	if err == nil && (gone || by.Size != g.dataEnd) {
		err = &changedError{Written: g.dataEnd, Actual: by.Size, Gone: gone}
	}
	return wrapError(g.path, "close", err)
}

// advance notes that n bytes of data were written at an offset.
func (g *segment) advance(at int64, n int) {
	if at <= g.dataEnd {
		g.dataEnd = max(g.dataEnd, at+int64(n))
	}
}

// recordEntries counts MEPs whose entries were written.
func (g *segment) recordEntries(entries []recording.Entry, count *counted[SegmentsStats]) {
	for _, e := range entries {
		g.totals.Add(e)
	}
	g.indexEnd += int64(len(entries)) * recording.EntryBytes
	g.indexedEnd.Store(g.totals.Bytes)
	count.update(func(s *SegmentsStats) { s.MEPs += uint64(len(entries)) })
}

// synchronise flushes to the disk what was written before the call.
func (g *segment) synchronise(count *counted[SegmentsStats]) error {
	need := g.indexedEnd.Load()
	g.syncMu.Lock()
	defer g.syncMu.Unlock()
	if g.closed || g.syncErr != nil || g.syncedEnd >= need {
		return g.syncErr
	}
	return g.syncFiles(count)
}

// syncFiles flushes data and index to the disk. The caller holds syncMu.
func (g *segment) syncFiles(count *counted[SegmentsStats]) error {
	from, upTo := time.Now(), g.indexedEnd.Load()
	if g.syncErr = wrapError(g.path, "synchronise", g.data.Sync()); g.syncErr == nil {
		g.syncErr = wrapError(g.indexPath, "synchronise", g.index.Sync())
	}
	if g.syncErr == nil {
		g.syncedEnd = upTo
	}
	count.update(func(s *SegmentsStats) { s.Syncs, s.SyncTime = s.Syncs+1, s.SyncTime+time.Since(from) })
	return g.syncErr
}

// closeWritten closes the segments that are completely written.
func (s *Segments) closeWritten() {
	for {
		s.mu.Lock()
		if len(s.closingSegments) == 0 {
			s.mu.Unlock()
			return
		}
		g := s.closingSegments[0]
		s.mu.Unlock()
		_ = s.finishSegment(g) // the error is kept
		s.mu.Lock()
		s.closingSegments = slices.Delete(s.closingSegments, 0, 1)
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// finishSegment gives a segment its final name and lists it in the manifest. It holds the segment's lock until then.
// After an error the segment stays as it is: Recover closes it when this process is gone.
func (s *Segments) finishSegment(g *segment) (err error) {
	g.syncMu.Lock()
	defer g.syncMu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	defer func() {
		err = cmp.Or(err, wrapError(g.path, "close", errors.Join(g.data.Close(), g.index.Close())))
		if err != nil {
			s.fail(err) // before it is forgotten: Flush must find the segment or the error
		}
		s.forgetSegment(g)
	}()
	if g.syncErr != nil {
		return g.syncErr
	}
	if err := g.syncFiles(&s.count); err != nil {
		return err
	}
	if err := g.checkName(); err != nil {
		return err
	}
	name := filepath.Join(s.c.Dir, g.id.Name())
	if err := recording.RenameNoReplace(g.path, name); err != nil {
		return wrapError(g.path, "rename it to "+g.id.Name(), err)
	}
	g.totals.SetClosed(g.id, s.c.Now())
	err = recording.SyncDir(s.c.Dir)
	if err == nil {
		err = recording.UpdateManifest(s.c.Dir, func(m *recording.Manifest) error {
			s.manifestEntry(m, recording.StateWriting).AddSegment(g.totals)
			return nil
		})
	}
	if err == nil {
		s.countClosed(g)
	}
	return wrapError(name, "list it in the manifest", err)
}

func (s *Segments) countClosed(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Segments++
	s.result.MEPs += g.totals.MEPs
	s.result.Events += g.totals.Events
	s.result.Bytes += uint64(g.totals.Bytes)
	s.count.update(func(s *SegmentsStats) { s.Segments++ })
}

func (s *Segments) forgetSegment(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openSegments = slices.DeleteFunc(s.openSegments, func(o *segment) bool { return o == g })
}

// closeAfterError keeps what it can after an error: it writes whole MEPs that still wait if there is room, cuts every
// segment back to its last whole MEP, and closes it. The caller holds writeMu, so that no Write is under way.
func (s *Segments) closeAfterError() {
	if s.closedAfterError {
		return
	}
	s.closedAfterError = true
	s.ioMu.Lock()
	defer s.ioMu.Unlock()
	s.mu.Lock()
	open := slices.Clone(s.openSegments)
	for _, b := range []*segmentBlock{s.fullBlock, s.fillingBlock} {
		if b != nil && b.hasPending() && slices.Contains(open, b.seg) {
			s.mu.Unlock()
			b.seg.salvage(b, &s.count)
			s.mu.Lock()
		}
	}
	s.mu.Unlock()
	s.currentSegment = nil
	for _, g := range open {
		if err := s.truncateSegment(g); err != nil {
			s.mu.Lock()
			if !errors.Is(s.err, err) {
				s.err = errors.Join(s.err, err)
			}
			s.mu.Unlock()
		}
	}
}

// salvage writes the whole MEPs of a block that directly follow the written ones.
func (g *segment) salvage(b *segmentBlock, count *counted[SegmentsStats]) {
	entries := b.entries[b.claimedEntries:]
	if g.syncErr != nil || len(entries) == 0 || entries[0].Offset != g.indexedEnd.Load() {
		return
	}
	// an error adds nothing: the output has failed before
	_ = g.write(b.offset+int64(b.claimedBytes), b.completeData[b.claimedBytes:], entries, count)
}

// truncateSegment cuts a segment back to its last whole MEP and closes it. It removes a segment without a whole MEP,
// of which nothing was ever acknowledged.
func (s *Segments) truncateSegment(g *segment) error {
	kept := g.indexedEnd.Load()
	g.syncMu.Lock()
	closed := g.closed
	g.syncMu.Unlock()
	if closed {
		return nil
	}
	_ = g.checkUnchanged(kept) // sets syncErr if the file was changed
	g.syncMu.Lock()
	broken := g.syncErr
	g.syncMu.Unlock()
	if g.dataEnd = kept; broken == nil && kept > 0 {
		if err := errors.Join(g.data.Truncate(kept), g.index.Truncate(g.indexEnd)); err != nil {
			broken = fmt.Errorf("it cannot be cut back to its last whole MEP, 'ringlet recover' will: %w", err)
		}
	}
	if broken != nil || kept > 0 {
		g.syncMu.Lock()
		g.syncErr = broken
		g.syncMu.Unlock()
		return s.finishSegment(g)
	}
	g.syncMu.Lock()
	defer g.syncMu.Unlock()
	g.closed = true
	err := errors.Join(os.Remove(g.path), os.Remove(g.indexPath), g.data.Close(), g.index.Close())
	s.forgetSegment(g)
	return err
}
