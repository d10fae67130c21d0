package shmem

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The way of a write into another process's memory:
//
//  1. (parallel) Acquire pins the window's row in the owner's table: one compare-and-swap, as in windows.go.
//  2. (parallel) Acquire reads the row once and checks it: the peer, the access, which bytes of which segment. It maps
//     a segment at the first write to it.
//  3. (parallel) the caller stores into the returned bytes, which are the owner's memory.
//  4. (parallel) Release counts the writer out; only then may the caller send the owner a record.
//
// After a segment is mapped, a write takes no lock, no allocation and no system call.

// ImportedTable is another process's shared table, as one of its peers has mapped it: the downstream table of the
// PCI-SCI bridge (SCI-bridge §II.A). The importer checks its own writes by the owner's rules. Methods are safe from any
// goroutine; Close comes after the last Release.
type ImportedTable struct {
	// immutable after OpenTable
	seg      *Segment
	mem      []byte
	rows     []rowWords // one per window
	dir      string
	selfPeer Peer

	// atomic
	currentMappings    [tableEntries]atomic.Pointer[mapping] // by entry of the directory
	violations         violations
	unbalancedReleases atomic.Uint64

	mu sync.Mutex
	// guarded by mu
	allMappings []*mapping // all mappings made, until Close: a window revoked late may still use an old one
}

// mapping is one of the owner's segments. If a later directory entry names the same file, it uses the same memory.
type mapping struct {
	serial   uint32
	mem      []byte
	seg      *Segment
	dev, ino uint64
}

// maxHeld is the most mappings of one importer: an owner has few segments, and a mapping takes address space.
const maxHeld = 64

// OpenTable maps the shared table of another process, to write into that process's memory as the peer number as, to
// which the owner grants windows. The table must have the given ID. Until Close the importer holds a lock in the
// table's file, by which the owner sees that it is alive.
//
// Errors are *SegmentError around those of Open, ErrOtherTable or errPeerInUse, and *corruptError.
func OpenTable(name string, id TableID, as Peer, opts ...Option) (*ImportedTable, error) {
	fail := func(err error) (*ImportedTable, error) {
		return nil, &SegmentError{Op: "open", Path: filepath.Join(applyOptions(opts).dir, name), Err: err}
	}
	if !hostSupported() {
		return fail(errHostLayout)
	}
	if as == AnyPeer {
		return fail(errBadPeer)
	}
	seg, err := Open(name, opts...)
	if err != nil {
		return nil, err
	}
	im := &ImportedTable{
		seg:      seg,
		mem:      seg.Bytes(),
		dir:      filepath.Dir(seg.Path()),
		selfPeer: as,
	}
	windows, found, err := readTableHeader(name, im.mem)
	if err != nil {
		_ = seg.Close()
		return nil, err
	}
	im.rows = rowsOf(im.mem, windows)
	if found != id {
		_ = seg.Close()
		return fail(ErrOtherTable)
	}
	mine, err := claimByte(seg.file, int64(as))
	if err == nil && !mine {
		err = errPeerInUse
	}
	if err != nil {
		_ = seg.Close()
		return fail(err)
	}
	return im, nil
}

// Acquire checks a write of n bytes at off of a window by the owner's rules, and returns the owner's memory to write
// to. It is Table.Acquire in the peer's process: the caller must soon call Release, since the owner's Revoke waits for
// it.
func (im *ImportedTable) Acquire(r Ref, off, n uint32, a Access) ([]byte, Violation) {
	if uint64(r.Window) >= uint64(len(im.rows)) {
		return nil, im.violations.count(NoWindow)
	}
	w := &im.rows[r.Window]
	if v := w.state.enter(r.Gen); v != 0 {
		return nil, im.violations.count(v)
	}
	// Each word is read once, so that another process cannot change it between check and use.
	b, v := im.check(w.off.Load(), w.n.Load(), w.segmentAndEntry.Load(), w.peerAndAccess.Load(), uint64(off), uint64(n), a)
	if v != 0 {
		im.Release(r)
		return nil, im.violations.count(v)
	}
	return b, 0
}

// check checks the row of a pinned window and returns the bytes.
func (im *ImportedTable) check(base, size, where, access, off, n uint64, a Access) ([]byte, Violation) {
	switch {
	case Peer(access>>32) != im.selfPeer:
		return nil, WrongPeer
	case a == 0 || Access(access)&a != a:
		return nil, NoAccess
	case off+n > size:
		return nil, OutOfRange
	case uint32(where) == noEntry:
		return nil, NotShared
	case uint32(where) >= tableEntries:
		return nil, BadSegment
	}
	m := im.currentMappings[uint32(where)].Load()
	if m == nil || m.serial != uint32(where>>32) {
		if m = im.mappingFor(uint32(where), uint32(where>>32)); m == nil {
			return nil, BadSegment
		}
	}
	if all := uint64(len(m.mem)); base > all || off+n > all-base {
		return nil, BadSegment
	}
	return m.mem[base+off : base+off+n : base+off+n], 0
}

// Release ends a write begun by Acquire.
func (im *ImportedTable) Release(r Ref) {
	if uint64(r.Window) >= uint64(len(im.rows)) || !im.rows[r.Window].state.leave(r.Gen) {
		im.unbalancedReleases.Add(1)
	}
}

// mappingFor maps the segment of a directory entry, or returns the mapping of the same file. The caller has pinned a
// window of the segment, so the owner cannot withdraw it meanwhile.
func (im *ImportedTable) mappingFor(i, serial uint32) *mapping {
	im.mu.Lock()
	defer im.mu.Unlock()
	if m := im.currentMappings[i].Load(); m != nil && m.serial == serial {
		return m // another writer has mapped it meanwhile
	}
	e, ok := directoryOf(im.mem)[i].read()
	if !ok || e.serial != uint64(serial) {
		return nil
	}
	m, err := im.mapSegment(e)
	if err != nil {
		return nil
	}
	im.currentMappings[i].Store(m)
	return m
}

func (im *ImportedTable) mapSegment(e directoryEntry) (*mapping, error) {
	seg, err := Open(e.name, WithDir(im.dir))
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(seg.file.Fd()), &st); err != nil || uint64(seg.size) != e.size {
		_ = seg.Close()
		return nil, errBadSize
	}
	m := &mapping{
		serial: uint32(e.serial),
		mem:    seg.Bytes(),
		seg:    seg,
		dev:    st.Dev,
		ino:    st.Ino,
	}
	for _, h := range im.allMappings {
		if h.dev == m.dev && h.ino == m.ino && len(h.mem) == len(m.mem) {
			m.mem, m.seg = h.mem, nil
			return m, seg.Close()
		}
	}
	if len(im.allMappings) >= maxHeld {
		_ = seg.Close()
		return nil, os.ErrInvalid
	}
	// Shared memory that is populated for reading is also writable, many pages at a time: 256 MiB take 28 ms, populated
	// for writing 85 ms, and page by page at the first store 150 ms (2-core VM, 2026-11-21). If it fails, pages come at
	// the first store.
	_ = unix.Madvise(m.mem, unix.MADV_POPULATE_READ)
	im.allMappings = append(im.allMappings, m)
	return m, nil
}

// Close unmaps all segments and drops the lock, which tells the owner that this peer will not write again.
func (im *ImportedTable) Close() error {
	im.mu.Lock()
	defer im.mu.Unlock()
	for _, m := range im.allMappings {
		_ = m.seg.Close()
	}
	im.allMappings = nil
	for i := range im.currentMappings {
		im.currentMappings[i].Store(nil)
	}
	return im.seg.Close()
}
