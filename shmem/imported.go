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
//  2. (parallel) what the row says is read once and checked: whose window, which access, which bytes of which segment.
//     The segment is mapped at the first write to it.
//  3. (parallel) the caller stores into the returned bytes, which are the owner's memory.
//  4. (parallel) Release counts the writer out; only now may the owner be told.
//
// No lock, no allocation, no system call, once the segment is mapped.

// ImportedTable is another process's shared table, seen by one of its peers: the downstream table of the PCI-SCI bridge
// (SCI-bridge §II.A), with the protection checked by the importer by the owner's rules. Methods are safe from any
// goroutine; Close comes after the last Release.
type ImportedTable struct {
	// immutable after OpenTable
	seg      *Segment
	mem      []byte
	rows     []rowWords // one for each window
	dir      string
	selfPeer Peer

	// atomic
	currentMappings    [tableEntries]atomic.Pointer[mapping] // by entry of the directory
	violations         violations
	unbalancedReleases atomic.Uint64

	mu sync.Mutex
	// guarded by mu
	allMappings []*mapping // every mapping made, until Close: a window revoked late may still lie in an old one
}

// mapping is one of the owner's segments. An entry of the directory that came again for the same file is the same
// memory.
type mapping struct {
	serial   uint32
	mem      []byte
	seg      *Segment
	dev, ino uint64
}

// maxHeld bounds the mappings of one importer: an owner has few segments, and a mapping costs address space.
const maxHeld = 64

// OpenTable maps the shared table that another process made, to write into its memory as the peer that it grants
// windows to. The table must have the given ID. While it is open, the importer holds a lock in the table's file by
// which the owner sees that it lives.
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

// Acquire checks a write of n bytes at off of a window, by the owner's rules, and returns the owner's memory to write
// to. It is Table.Acquire, done by the peer itself: Release is owed, soon, because the owner's Revoke waits for it.
func (im *ImportedTable) Acquire(r Ref, off, n uint32, a Access) ([]byte, Violation) {
	if uint64(r.Window) >= uint64(len(im.rows)) {
		return nil, im.violations.count(NoWindow)
	}
	w := &im.rows[r.Window]
	if v := w.state.enter(r.Gen); v != 0 {
		return nil, im.violations.count(v)
	}
	// Each word is read once: what another process writes there later changes nothing that was checked.
	b, v := im.check(w.off.Load(), w.n.Load(), w.segmentAndEntry.Load(), w.peerAndAccess.Load(), uint64(off), uint64(n), a)
	if v != 0 {
		im.Release(r)
		return nil, im.violations.count(v)
	}
	return b, 0
}

// check checks a pinned window's row and finds the bytes.
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

// mappingFor maps the segment of a directory's entry, or finds the mapping of the same file. The window that asks is
// pinned, so the owner cannot withdraw the segment meanwhile.
func (im *ImportedTable) mappingFor(i, serial uint32) *mapping {
	im.mu.Lock()
	defer im.mu.Unlock()
	if m := im.currentMappings[i].Load(); m != nil && m.serial == serial {
		return m // another writer was faster
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
	// Shared memory that is read in is also writable, and many pages at a time: 256 MiB take 28 ms, to write them in 85
	// ms, and page by page at the first store 150 ms (2-core VM, 2026-11-21). What cannot be had now is had then.
	_ = unix.Madvise(m.mem, unix.MADV_POPULATE_READ)
	im.allMappings = append(im.allMappings, m)
	return m, nil
}

// Close gives everything back and tells the owner, by dropping the lock, that this peer will not write again.
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
