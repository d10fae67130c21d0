package shmem

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The layout of a shared table, drawn in docs/format/segment.md. Only the owner writes it, but for the
// state words of the rows, where importers count themselves in and out.
const (
	tableMagicText = "RNGLTABL"
	tableVersion   = 1

	offTableWindows = 0x10
	offTableRows    = 0x18
	offTableEntries = 0x20
	offTableID      = 0x28

	tableDirectory = PageSize // where the directory begins
	tableEntries   = 16       // segments exported at a time: one page of entries
	entrySize      = PageSize / tableEntries
	tableRows      = 2 * PageSize // where the rows begin
	rowSize        = 64           // a cache line: writers of neighbouring windows do not disturb each other

	offEntrySerial = 0x00 // SegmentID; 0: the entry is free
	offEntrySize   = 0x08
	offEntryName   = 0x10 // length, then the bytes
	offEntryText   = 0x18

	// A row, see rowWords.
	offRowState  = 0x00 // as in windows.go
	offRowOff    = 0x08
	offRowLen    = 0x10
	offRowPlace  = 0x18 // SegmentID<<32 | entry of the directory
	offRowAccess = 0x20 // peer<<32 | access

	noEntry = ^uint32(0) // of memory that other processes cannot map
)

// TableID tells a table from every other that ever had its name.
type TableID [16]byte

// row is what a window's row says beside its state.
type row struct {
	off, n uint64 // bytes in the segment
	seg    SegmentID
	dir    uint32
	peer   Peer
	access Access
}

// rowWords is a row in shared memory.
type rowWords struct {
	state, off, n, place, access atomic.Uint64
	_                            [rowSize - 5*8]byte
}

// rowsOf are the rows of a table's memory, which must have room for them.
func rowsOf(mem []byte, windows int) []rowWords {
	rows := mem[tableRows : tableRows+windows*rowSize]
	return unsafe.Slice((*rowWords)(unsafe.Pointer(unsafe.SliceData(rows))), windows)
}

func (w *rowWords) put(r row) {
	w.off.Store(r.off)
	w.n.Store(r.n)
	w.place.Store(uint64(r.seg)<<32 | uint64(r.dir))
	w.access.Store(uint64(r.peer)<<32 | uint64(r.access))
}

func putTableHeader(mem []byte, windows int, id TableID) {
	le := binary.LittleEndian
	copy(mem[offMagic:], tableMagicText)
	le.PutUint32(mem[offVersion:], tableVersion)
	le.PutUint64(mem[offTableWindows:], uint64(windows))
	le.PutUint64(mem[offTableRows:], tableRows)
	le.PutUint64(mem[offTableEntries:], tableEntries)
	copy(mem[offTableID:], id[:])
}

// readTableHeader says how many windows the table has, once all of it makes sense.
func readTableHeader(name string, mem []byte) (windows int, id TableID, err error) {
	corrupt := func(what string, value uint64, reason string) (int, TableID, error) {
		return 0, id, &corruptError{Segment: name, What: what, Value: value, Reason: reason}
	}
	if len(mem) < tableRows {
		return corrupt("size", uint64(len(mem)), "too small for a table")
	}
	le := binary.LittleEndian
	n := le.Uint64(mem[offTableWindows:])
	switch {
	case string(mem[offMagic:offMagic+8]) != tableMagicText:
		return corrupt("magic", le.Uint64(mem[offMagic:]), "not a shared table")
	case le.Uint32(mem[offVersion:]) != tableVersion:
		return corrupt("version", uint64(le.Uint32(mem[offVersion:])), "another version of the layout")
	case le.Uint64(mem[offTableRows:]) != tableRows:
		return corrupt("offset of the rows", le.Uint64(mem[offTableRows:]), "not behind the directory")
	case le.Uint64(mem[offTableEntries:]) != tableEntries:
		return corrupt("entries", le.Uint64(mem[offTableEntries:]), "not those of one page")
	case n != uint64(len(mem)-tableRows)/rowSize:
		return corrupt("windows", n, "not what the segment holds")
	}
	copy(id[:], mem[offTableID:])
	return int(n), id, nil
}

// entry is one exported segment in the directory.
type entry struct {
	serial uint64
	size   uint64
	name   string
}

func entryAt(mem []byte, i uint32) []byte {
	return mem[tableDirectory+int(i)*entrySize:][:entrySize]
}

func (e entry) put(b []byte) {
	copy(b[offEntryText:], e.name)
	word64(b, offEntryName).Store(uint64(len(e.name)))
	word64(b, offEntrySize).Store(e.size)
	word64(b, offEntrySerial).Store(e.serial)
}

// readEntry takes a copy of an entry; ok is false where its name is longer than a name can be.
func readEntry(b []byte) (e entry, ok bool) {
	n := word64(b, offEntryName).Load()
	if n > maxName {
		return e, false
	}
	return entry{word64(b, offEntrySerial).Load(), word64(b, offEntrySize).Load(),
		string(b[offEntryText : offEntryText+n])}, true
}
