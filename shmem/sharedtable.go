package shmem

import (
	"crypto/rand"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// A shared table has its windows a second time, as rows in a segment, where peers in other processes of this host
// acquire and release them by the same rules. What the owner decides by stays in its own memory: the rows say to others
// what was granted, and only their counts of writers are read back.

// sharedRows is the owner's side of a shared table's segment.
type sharedRows struct {
	// immutable after newSharedRows
	seg *Segment
	dir string
	id  TableID

	// memInUse is held for reading by Revoke and for writing by close, which takes the memory away.
	memInUse sync.RWMutex
	mem      []byte // guarded by using; nil once closed
	rows     []rowWords

	mu        sync.Mutex // guards what follows
	entryUsed [tableEntries]bool
	evicted   map[Peer]bool
}

// NewSharedTable makes a table whose windows peers in other processes can reach, by OpenTable with the same name. The
// segments they are to write to must be exported with ExportSegment. It is NewTable in everything else. Close comes
// last, after every grant is revoked. Errors are those of Create.
func NewSharedTable(name string, windows int, opts ...TableOption) (*Table, error) {
	t := NewTable(windows, opts...)
	if !hostSupported() {
		return nil, &SegmentError{Op: "create", Path: name, Err: errHostLayout}
	}
	s := &sharedRows{evicted: map[Peer]bool{}}
	_, _ = rand.Read(s.id[:]) // it cannot fail
	var err error
	s.seg, err = create(name, rowsOffset+len(t.windows)*rowSize, func(seg *Segment) error {
		putTableHeader(seg.mem, len(t.windows), s.id)
		return nil
	}, []Option{WithDir(t.dir)})
	if err != nil {
		return nil, err
	}
	s.dir, s.mem = filepath.Dir(s.seg.Path()), s.seg.Bytes()
	s.rows = rowsOf(s.mem, len(t.windows))
	t.shared = s
	return t, nil
}

// TableDir puts a shared table's segment into dir, where the exported segments must be too. Empty is DefaultDir.
func TableDir(dir string) TableOption { return func(t *Table) { t.dir = dir } }

// Name is the name of a shared table's segment; empty where the table is not shared.
func (t *Table) Name() string {
	if t.shared == nil {
		return ""
	}
	return t.shared.seg.Name()
}

// ID is the number that OpenTable wants to find in a shared table; zero where the table is not shared.
func (t *Table) ID() (id TableID) {
	if t.shared != nil {
		id = t.shared.id
	}
	return id
}

// Dir is where a shared table's segment is; empty where the table is not shared.
func (t *Table) Dir() string {
	if t.shared == nil {
		return ""
	}
	return t.shared.dir
}

// ExportSegment is Export for the memory of a segment: peers in other processes may be granted windows of it as well.
func (t *Table) ExportSegment(seg *Segment, rules ...PageRule) (SegmentID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, id, err := t.addExport(seg.Bytes(), rules)
	if err != nil {
		return 0, err
	}
	t.segmentNames[id-1] = seg.Name()
	if t.shared == nil {
		return id, nil
	}
	if e.dirEntry, err = t.shared.addEntry(id, seg); err != nil {
		last := len(t.exports) - 1
		t.exports, t.segmentNames, t.writtenBytes = t.exports[:last], t.segmentNames[:last], t.writtenBytes[:last]
		return 0, stepError(err, "export segment %d of %d bytes", id, seg.size)
	}
	return id, nil
}

// addEntry enters a segment into the directory.
func (s *sharedRows) addEntry(id SegmentID, seg *Segment) (uint32, error) {
	if filepath.Dir(seg.Path()) != s.dir {
		return 0, errOtherDirectory
	}
	s.memInUse.RLock()
	defer s.memInUse.RUnlock()
	if s.mem == nil {
		return 0, errClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, used := range s.entryUsed {
		if !used {
			s.entryUsed[i] = true
			directoryOf(s.mem)[i].put(directoryEntry{serial: uint64(id), size: uint64(seg.size), name: seg.Name()})
			return uint32(i), nil
		}
	}
	return 0, errDirectoryFull
}

func (s *sharedRows) removeEntry(i uint32) {
	s.memInUse.RLock()
	defer s.memInUse.RUnlock()
	if s.mem == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	directoryOf(s.mem)[i].serial.Store(0)
	s.entryUsed[i] = false
}

// openRow begins a life of a window for other processes: what is granted first, then that it is.
func (s *sharedRows) openRow(window, gen uint32, r row) {
	s.memInUse.RLock()
	defer s.memInUse.RUnlock()
	if s.mem == nil {
		return // nobody can be told
	}
	w := &s.rows[window]
	w.put(r)
	w.state.Store(pinState(gen, true))
}

// Waiting for a writer in another process is rare, because it tells when its bytes are in place, and only then are
// they taken: it is for writers that die, and for grants that are taken back.
const (
	// revokeYields is how often a waiter yields after revokeSpins before it sleeps: it lets a writer on the same core go
	// on.
	revokeYields = 64
	// revokeNap is between two looks, about the time of copying 1 MiB (at 10 GB/s).
	revokeNap = 100 * time.Microsecond
	// napsPerLivenessCheck is how many naps pass between two questions to the kernel whether the peer lives.
	napsPerLivenessCheck = 20
	// evictGrace is how long an evicted peer that lives may stay inside: a thousand times what its copying takes.
	evictGrace = 200 * time.Millisecond
)

// closeRow ends the life of a window for other processes and waits for the writer there, unless its process is gone.
// The owner's word decides: whatever the row's state says, it is closed.
func (s *sharedRows) closeRow(r Ref, peer Peer) error {
	s.memInUse.RLock()
	defer s.memInUse.RUnlock()
	if s.mem == nil {
		return nil
	}
	w := &s.rows[r.Window]
	for {
		old := w.state.Load()
		closed := pinState(r.Gen, false)
		if uint32(old>>32) == r.Gen {
			closed |= old & writersMask
		}
		if w.state.CompareAndSwap(old, closed) {
			break
		}
	}
	var since time.Time
	for i := 0; ; i++ {
		if st := w.state.Load(); uint32(st>>32) != r.Gen || st&writersMask == 0 {
			return nil
		}
		switch looks := i - revokeSpins - revokeYields; {
		case i < revokeSpins:
		case looks < 0:
			runtime.Gosched()
		case looks%napsPerLivenessCheck != 0:
			time.Sleep(revokeNap)
		default:
			if here, err := isByteClaimed(s.seg.file, int64(peer)); err == nil && !here {
				return nil // the kernel has taken its lock: it will never write again
			}
			if since.IsZero() {
				since = time.Now()
			}
			if s.isEvicted(peer) && time.Since(since) > evictGrace {
				return stepError(errPinned, revokeStep, r.Window, r.Gen)
			}
			time.Sleep(revokeNap)
		}
	}
}

func (s *sharedRows) isEvicted(peer Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.evicted[peer]
}

// Evict tells a shared table that the link to a peer is over: Revoke does not wait for it any longer than it takes to
// see that it is dead, or that it lives and stays. It lasts until Readmit. Of a table that is not shared it does
// nothing.
func (t *Table) Evict(peer Peer) { t.evict(peer, true) }

// Readmit takes an Evict back: another process is the peer now. Nothing of the process before it may be granted any
// more.
func (t *Table) Readmit(peer Peer) { t.evict(peer, false) }

func (t *Table) evict(peer Peer, evicted bool) {
	if s := t.shared; s != nil {
		s.mu.Lock()
		s.evicted[peer] = evicted
		s.mu.Unlock()
	}
}

// CountViolation counts a write that an importer was refused by its own look at this table, so that the table's figures
// are those of all its peers. A violation that does not exist is not counted.
func (t *Table) CountViolation(v Violation) {
	if v > 0 && v < violationKinds {
		t.violations[v].Add(1)
	}
}

// Close takes a shared table away from other processes; those that have it open keep their mapping, and find no window
// live that was revoked before. Of a table that is not shared it does nothing.
func (t *Table) Close() error {
	s := t.shared
	if s == nil {
		return nil
	}
	s.memInUse.Lock()
	defer s.memInUse.Unlock()
	s.mem, s.rows = nil, nil
	return s.seg.Close()
}
