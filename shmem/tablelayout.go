package shmem

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The layout of a shared table, drawn in docs/format/segment.md. Only the owner writes it, except the state words of
// the rows, where importers count themselves in and out.
const (
	tableMagicText = "RNGLTABL"
	tableVersion   = 1

	directoryOffset = PageSize // offset of the directory, bytes
	tableEntries    = 16       // the most segments exported at a time: one page of entries
	entrySize       = PageSize / tableEntries
	rowsOffset      = 2 * PageSize // offset of the rows, bytes
	rowSize         = 64           // a cache line: writers to neighbouring windows do not slow each other down

	noEntry = ^uint32(0) // for memory that other processes cannot map
)

// TableID distinguishes a table from earlier and later ones of the same name.
type TableID [16]byte

// row is what a window's row contains beside its state.
type row struct {
	off, n   uint64 // bytes in the segment
	seg      SegmentID
	dirEntry uint32
	peer     Peer
	access   Access
}

// rowWords is a row in shared memory.
type rowWords struct {
	state           pin
	off, n          atomic.Uint64 // bytes
	segmentAndEntry atomic.Uint64 // SegmentID<<32 | entry of the directory
	peerAndAccess   atomic.Uint64 // peer<<32 | access
	_               [rowSize - 5*8]byte
}

// rowsOf returns the rows in a table's memory, which must be long enough.
func rowsOf(mem []byte, windows int) []rowWords {
	rows := mem[rowsOffset : rowsOffset+windows*rowSize]
	return unsafe.Slice((*rowWords)(unsafe.Pointer(unsafe.SliceData(rows))), windows)
}

func (w *rowWords) put(r row) {
	w.off.Store(r.off)
	w.n.Store(r.n)
	w.segmentAndEntry.Store(uint64(r.seg)<<32 | uint64(r.dirEntry))
	w.peerAndAccess.Store(uint64(r.peer)<<32 | uint64(r.access))
}

// tableHeader is the header at the start of a table.
type tableHeader struct {
	magic   [8]byte
	version uint32
	_       uint32
	windows uint64
	rows    uint64 // offset of the rows
	entries uint64
	id      TableID
}

func tableHeaderOf(mem []byte) *tableHeader {
	return (*tableHeader)(unsafe.Pointer(unsafe.SliceData(mem[:directoryOffset])))
}

func putTableHeader(mem []byte, windows int, id TableID) {
	h := tableHeader{
		version: tableVersion,
		windows: uint64(windows),
		rows:    rowsOffset,
		entries: tableEntries,
		id:      id,
	}
	copy(h.magic[:], tableMagicText)
	*tableHeaderOf(mem) = h
}

// readTableHeader checks a table's header and returns the number of windows and the ID.
func readTableHeader(name string, mem []byte) (windows int, id TableID, err error) {
	corrupt := func(what string, value uint64, reason string) (int, TableID, error) {
		return 0, id, &corruptError{
			Segment: name,
			What:    what,
			Value:   value,
			Reason:  reason,
		}
	}
	if len(mem) < rowsOffset {
		return corrupt("size", uint64(len(mem)), "too small for a table")
	}
	h := *tableHeaderOf(mem)
	switch {
	case string(h.magic[:]) != tableMagicText:
		return corrupt("magic", binary.LittleEndian.Uint64(h.magic[:]), "not a shared table")
	case h.version != tableVersion:
		return corrupt("version", uint64(h.version), "another version of the layout")
	case h.rows != rowsOffset:
		return corrupt("offset of the rows", h.rows, "not behind the directory")
	case h.entries != tableEntries:
		return corrupt("entries", h.entries, "not those of one page")
	case h.windows != uint64(len(mem)-rowsOffset)/rowSize:
		return corrupt("windows", h.windows, "not what the segment holds")
	}
	return int(h.windows), h.id, nil
}

// directoryEntry is an exported segment in the directory.
type directoryEntry struct {
	serial uint64
	size   uint64
	name   string
}

// directoryEntryWords is a directory entry in shared memory.
type directoryEntryWords struct {
	serial atomic.Uint64 // SegmentID; 0: the entry is free
	size   atomic.Uint64
	length atomic.Uint64 // of text
	text   [entrySize - 3*8]byte
}

// directoryOf returns the directory in a table's memory.
func directoryOf(mem []byte) *[tableEntries]directoryEntryWords {
	return (*[tableEntries]directoryEntryWords)(unsafe.Pointer(unsafe.SliceData(mem[directoryOffset:rowsOffset])))
}

func (w *directoryEntryWords) put(e directoryEntry) {
	copy(w.text[:], e.name)
	w.length.Store(uint64(len(e.name)))
	w.size.Store(e.size)
	w.serial.Store(e.serial)
}

// read copies an entry; ok is false if its name is longer than a name may be.
func (w *directoryEntryWords) read() (e directoryEntry, ok bool) {
	n := w.length.Load()
	if n > maxName {
		return e, false
	}
	return directoryEntry{w.serial.Load(), w.size.Load(), string(w.text[:n])}, true
}
