package sink

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// The index of a part stands beside it, under its name with ".idx" (docs/design/006 draws it). Little-endian:
//
//	0   u64  magic "RNGLINDX"
//	8   u32  version, 1
//	12  u32  format of the part: 1 MEP, 2 MDF, 3 MFP
//	16  u64  bytes of the part
//	24  u64  number n of entries
//	32  u64  MEPs of the part without an entry, because it holds a higher attempt at the same
//	40  n entries of 32 bytes, in order of MEP, each MEP once:
//	      u64 MEP, u64 offset in the part, u64 length, u32 events, u32 attempt
//	…   u32  CRC-32C of all before
const (
	indexSuffix  = ".idx"
	indexMagic   = uint64(0x58444E494C474E52) // "RNGLINDX" in memory
	indexVersion = 1
	indexHeader  = 40
	entryBytes   = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry is where one MEP stands in a file.
type entry struct {
	mep     uint64
	offset  int64
	length  int64
	events  uint32
	attempt uint32
}

// order sorts entries by MEP and leaves of each MEP the highest attempt, of equal ones the last written. It says whether the
// entries were like that already.
func order(index []entry) (sorted []entry, inOrder bool) {
	inOrder = true
	for i := 1; i < len(index) && inOrder; i++ {
		inOrder = index[i-1].mep < index[i].mep
	}
	if inOrder {
		return index, true
	}
	slices.SortFunc(index, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.mep, b.mep), cmp.Compare(b.attempt, a.attempt), cmp.Compare(b.offset, a.offset))
	})
	return slices.CompactFunc(index, func(a, b entry) bool { return a.mep == b.mep }), false
}

// tally adds an entry, which must come in order, to the result.
func (r *Result) tally(e entry, next *uint64) {
	if e.mep > *next {
		if r.Missing == 0 {
			r.FirstMissing = *next
		}
		r.Missing += e.mep - *next
	}
	*next = e.mep + 1
	r.MEPs++
	r.Events += uint64(e.events)
	r.Bytes += uint64(e.length)
}

// writeIndex writes the index of a part of the given size. sorted comes from order.
func writeIndex(t *tempFile, format Format, size int64, superseded uint64, sorted []entry) error {
	crc := crc32.New(castagnoli)
	var b [max(indexHeader, entryBytes)]byte
	le := binary.LittleEndian
	le.PutUint64(b[0:], indexMagic)
	le.PutUint32(b[8:], indexVersion)
	le.PutUint32(b[12:], uint32(format))
	le.PutUint64(b[16:], uint64(size))
	le.PutUint64(b[24:], uint64(len(sorted)))
	le.PutUint64(b[32:], superseded)
	_, _ = crc.Write(b[:indexHeader]) // a hash does not fail
	if err := t.write(b[:indexHeader]); err != nil {
		return err
	}
	for _, e := range sorted {
		le.PutUint64(b[0:], e.mep)
		le.PutUint64(b[8:], uint64(e.offset))
		le.PutUint64(b[16:], uint64(e.length))
		le.PutUint32(b[24:], e.events)
		le.PutUint32(b[28:], e.attempt)
		_, _ = crc.Write(b[:entryBytes])
		if err := t.write(b[:entryBytes]); err != nil {
			return err
		}
	}
	return t.write(le.AppendUint32(nil, crc.Sum32()))
}

// indexReader gives the entries of an index one by one.
type indexReader struct {
	path   string
	f      *os.File
	r      *bufio.Reader
	crc    hash.Hash32
	format Format
	size   int64 // bytes of the part
	left   uint64
	// superseded is what the header says of MEPs without an entry
	superseded uint64
	before     entry
	any        bool
}

// openIndex opens the index of the part of the given size. What is in it is checked as it is read.
func openIndex(path string, partSize int64) (*indexReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &SinkError{Path: path, Op: "read the index", Cause: err}
	}
	x := &indexReader{path: path, f: f, r: bufio.NewReaderSize(f, 64<<10), crc: crc32.New(castagnoli), size: partSize}
	if err := x.header(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return x, nil
}

func (x *indexReader) header() error {
	st, err := x.f.Stat()
	if err != nil {
		return &SinkError{Path: x.path, Op: "read the index", Cause: err}
	}
	var b [indexHeader]byte
	if _, err := io.ReadFull(x.r, b[:]); err != nil {
		return x.corrupt()
	}
	_, _ = x.crc.Write(b[:])
	le := binary.LittleEndian
	x.format, x.left, x.superseded = Format(le.Uint32(b[12:])), le.Uint64(b[24:]), le.Uint64(b[32:])
	switch {
	case le.Uint64(b[0:]) != indexMagic, le.Uint32(b[8:]) != indexVersion, !x.format.valid(),
		le.Uint64(b[16:]) != uint64(x.size), x.left > uint64(st.Size())/entryBytes,
		st.Size() != indexHeader+int64(x.left)*entryBytes+4:
		return x.corrupt()
	}
	return nil
}

func (x *indexReader) corrupt() error {
	return &SinkError{Path: x.path, Op: "read the index", Cause: ErrCorrupt}
}

// next gives the next entry; ok is false behind the last, when the CRC has been checked.
func (x *indexReader) next() (e entry, ok bool, err error) {
	var b [entryBytes]byte
	le := binary.LittleEndian
	if x.left == 0 {
		if _, err := io.ReadFull(x.r, b[:4]); err != nil || le.Uint32(b[:]) != x.crc.Sum32() {
			return entry{}, false, x.corrupt()
		}
		return entry{}, false, nil
	}
	if _, err := io.ReadFull(x.r, b[:]); err != nil {
		return entry{}, false, x.corrupt()
	}
	_, _ = x.crc.Write(b[:])
	e = entry{
		mep: le.Uint64(b[0:]), offset: int64(le.Uint64(b[8:])), length: int64(le.Uint64(b[16:])),
		events: le.Uint32(b[24:]), attempt: le.Uint32(b[28:]),
	}
	if e.offset < 0 || e.length < 0 || e.length > x.size-e.offset || e.offset > x.size || x.any && e.mep <= x.before.mep {
		return entry{}, false, x.corrupt()
	}
	x.left--
	x.before, x.any = e, true
	return e, true, nil
}

func (x *indexReader) close() error { return x.f.Close() }
