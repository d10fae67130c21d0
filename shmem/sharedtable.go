package shmem

import (
	"crypto/rand"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// A shared table has its windows a second time, as rows in a segment; there peers in other processes of this host
// acquire and release them by the same rules. The owner decides by its own memory: the rows tell other processes what
// is granted, and the owner reads back only their counts of writers.

// sharedRows is the owner's side of a shared table's segment.
type sharedRows struct {
	// immutable after newSharedRows
	seg *Segment
	dir string
	id  TableID

	// memInUse is read-locked by users of mem, and locked by Close, which unmaps it.
	memInUse sync.RWMutex
	mem      []byte // guarded by memInUse; nil after Close
	rows     []rowWords

	mu        sync.Mutex // guards the rest
	entryUsed [tableEntries]bool
	evicted   map[Peer]bool
}

// NewSharedTable makes a table whose windows peers in other processes can use, by OpenTable with the same name. Export
// the segments that they may write to with ExportSegment. In all else it is NewTable. Call Close last, after every
// grant is revoked. Errors are those of Create.
func NewSharedTable(name string, windows int, opts ...TableOption) (*Table, error) {
	t := NewTable(windows, opts...)
	if !hostSupported() {
		return nil, &SegmentError{Op: "create", Path: name, Err: errHostLayout}
	}
	s := &sharedRows{evicted: map[Peer]bool{}}
	_, _ = rand.Read(s.id[:]) // rand.Read never fails
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

// TableDir puts a shared table's segment into dir; the exported segments must be there, too. Empty means DefaultDir.
func TableDir(dir string) TableOption { return func(t *Table) { t.dir = dir } }

// Name is the name of a shared table's segment; empty if the table is not shared.
func (t *Table) Name() string {
	if t.shared == nil {
		return ""
	}
	return t.shared.seg.Name()
}

// ID is the ID that OpenTable needs for a shared table; zero if the table is not shared.
func (t *Table) ID() (id TableID) {
	if t.shared != nil {
		id = t.shared.id
	}
	return id
}

// Dir is the directory of a shared table's segment; empty if the table is not shared.
func (t *Table) Dir() string {
	if t.shared == nil {
		return ""
	}
	return t.shared.dir
}

// ExportSegment is Export for the memory of a segment, of which peers in other processes may also get windows.
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

// addEntry adds a segment to the directory.
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

// openRow shows other processes a new grant: it stores what is granted first, then the state that makes it live.
func (s *sharedRows) openRow(window, gen uint32, r row) {
	s.memInUse.RLock()
	defer s.memInUse.RUnlock()
	if s.mem == nil {
		return // the table is closed, and no process can open it
	}
	w := &s.rows[window]
	w.put(r)
	w.state.Store(pinState(gen, true))
}

// Waiting for a writer in another process is rare: usually the owner revokes a window only after the writer has
// reported its bytes. It happens when a writer dies, or a grant is revoked early.
const (
	// revokeYields is how often the waiter yields after revokeSpins before it sleeps: a writer on the same core can run.
	revokeYields = 64
	// revokeNap is the sleep between two looks, about the time of copying 1 MiB (at 10 GB/s).
	revokeNap = 100 * time.Microsecond
	// napsPerLivenessCheck is how many naps pass before the waiter asks the kernel whether the peer is alive.
	napsPerLivenessCheck = 20
	// evictGrace is how long Revoke waits for an evicted peer that is alive: a thousand times the time of a copy.
	evictGrace = 200 * time.Millisecond
)

// closeRow ends a grant for other processes and waits until the writers there have left, unless their process is dead.
// The owner's state decides: closeRow closes the row whatever its state says.
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
				return nil // the kernel has dropped its lock: it will never write again
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

// Evict tells a shared table that the link to a peer is over: Revoke then waits for that peer only until it sees that
// the process is dead, or until evictGrace is over. It holds until Readmit. If the table is not shared it does nothing.
func (t *Table) Evict(peer Peer) { t.evict(peer, true) }

// Readmit ends an Evict: the peer is another process now. No window of the earlier process may be live any longer.
func (t *Table) Readmit(peer Peer) { t.evict(peer, false) }

func (t *Table) evict(peer Peer, evicted bool) {
	if s := t.shared; s != nil {
		s.mu.Lock()
		s.evicted[peer] = evicted
		s.mu.Unlock()
	}
}

// CountViolation counts a write that an importer's own check has refused, so that the table's counters include all its
// peers. It ignores unknown violations.
func (t *Table) CountViolation(v Violation) {
	if v > 0 && v < violationKinds {
		t.violations[v].Add(1)
	}
}

// Close unmaps and removes a shared table. Processes that have it open keep their mapping, and find no live window that
// was revoked before. If the table is not shared it does nothing.
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
