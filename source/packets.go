package source

import (
	"encoding/binary"
	"math"

	"ringlet/event"
)

// The way of an MFP through a replay of packets, all in the goroutine that calls Next:
//
//  1. pick (sequential): the stretches of rows that have the next events, up to the packing factor
//  2. copyMFP (sequential), where a row has exactly the events of the block: each MFP of this RU's sources is copied as
//     it stands, and given its new number of source and event
//     packMFP (sequential), everywhere else: fragments are copied, from stretch to stretch, into MFPs of the run's
//     packing
//  3. CRC-32C of each MFP (if asked)
//
// The caller owns the buffer; the mapping is read only. Next allocates nothing.

// packetFile gives the MFPs of a file of MEPs or of MFPs; each readout unit gives those of its share of the sources.
type packetFile struct {
	replayLoop

	// immutable after it was opened
	cat     *packetCatalog
	isEudaq bool // the file is one of EUDAQ, and has no packets
}

func (r *packetFile) rowCount() int { return len(r.cat.rows) }

func (r *packetFile) rowAt(row int) (int, uint32) {
	return int(r.cat.rows[row].eventCount), r.cat.rows[row].skippedBefore
}

func (r *packetFile) fill(dst []byte, b *Block) error {
	first := r.batch[0]
	singleRow := len(r.batch) == 1 && first.eventCount == r.cat.rows[first.row].eventCount
	for s := range r.sourceCount {
		var size int
		var ok bool
		if singleRow {
			size, ok = r.copyMFP(dst[b.Size:], first.row, s)
		} else {
			size, ok = r.packMFP(dst[b.Size:], b.Events, s)
		}
		if !ok {
			return r.rowChanged(first.row)
		}
		source := uint16(r.firstSource + s)
		mfp := dst[b.Size : b.Size+size]
		binary.LittleEndian.PutUint64(mfp[mfpFirstAt:], b.FirstEvent)
		binary.LittleEndian.PutUint16(mfp[mfpSourceAt:], source)
		b.listMFP(dst, source, size, r.cfg.CRC)
	}
	return nil
}

// mfpSourceAt is the offset in bytes of the source id in an MFP's header (docs/format/mfp.md).
const mfpSourceAt = 16

// copyMFP copies the MFP of stream s of a row unchanged. False: the file is not what it was at open.
func (r *packetFile) copyMFP(dst []byte, row int32, s int) (int, bool) {
	b, ok := r.findMFP(row, s)
	if !ok || len(b) > len(dst) {
		return 0, false
	}
	// The copy is parsed, not the mapping, since another process may write to the file meanwhile.
	m, err := event.ParseMFP(dst[:copy(dst, b)])
	ok = err == nil && int(m.Size()) == len(b) && m.NumFragments() == int(r.cat.rows[row].eventCount) &&
		r.matchesShape(m, s)
	return len(b), ok
}

// packMFP makes the MFP of stream s, with n events, from the stretches of the batch. False: the file is not what it
// was at open.
func (r *packetFile) packMFP(dst []byte, n, s int) (int, bool) {
	wide, worded := r.widestMFP(s)
	size, tables, width := event.MFPHeaderSize(n), event.MFPTables, 2
	if wide {
		size, tables, width = event.WideMFPHeaderSize(n), event.WideMFPTables, 4
	}
	if worded {
		size = event.WordedMFPHeaderSize(n)
	}
	if size > len(dst) {
		return 0, false
	}
	types, sizes := tables(dst, n)
	clear(types[n:])
	clear(sizes[width*n:])
	done := 0
	for _, at := range r.batch {
		b, ok := r.findMFP(at.row, s)
		if !ok {
			return 0, false
		}
		m, err := event.ParseMFP(b)
		if err != nil || m.NumFragments() != int(r.cat.rows[at.row].eventCount) || !r.matchesShape(m, s) {
			return 0, false
		}
		bytes, ok := m.CopyFragments(types[done:], sizes[width*done:], dst[size:], int(at.from), int(at.eventCount), wide)
		if !ok {
			return 0, false
		}
		for i := 0; worded && i < int(at.eventCount); i++ {
			event.PutWords(event.WordsTable(dst, n), done+i, m.Words(int(at.from)+i))
		}
		size += bytes
		done += int(at.eventCount)
	}
	if size > math.MaxUint32 {
		return 0, false
	}
	shape := r.cat.shapes[r.firstSource+s]
	event.PutMFPHeader(dst, event.MFPHeader{
		NumFragments: n,
		Size:         uint32(size),
		Align:        shape.align,
		Version:      shape.version,
		Wide:         wide,
		Worded:       worded,
	})
	return size, true
}

// widestMFP says whether an MFP of stream s, from which the batch takes fragments, is wide, and whether one is worded.
func (r *packetFile) widestMFP(s int) (wide, worded bool) {
	for i := 0; r.cat.hasWide && i < len(r.batch) && !worded; i++ {
		if b, ok := r.findMFP(r.batch[i].row, s); ok {
			magic := binary.LittleEndian.Uint16(b)
			worded = magic == event.WordedMFPMagic
			wide = wide || worded || magic == event.WideMFPMagic
		}
	}
	return wide, worded
}

// matchesShape says whether an MFP has the source id, alignment and version of stream s.
func (r *packetFile) matchesShape(m event.MFP, s int) bool {
	return newShape(m) == r.cat.shapes[r.firstSource+s]
}

// findMFP returns the MFP of stream s of a row. False: the file is not what it was at open.
func (r *packetFile) findMFP(row int32, s int) ([]byte, bool) {
	rest := r.file.data[r.cat.rows[row].offset:]
	if r.cat.format == event.FormatMEP {
		m, i := len(r.cat.shapes), r.firstSource+s
		at := event.MEPHeaderSize(m) - 4*(m-i) // of the entry in the table of offsets, which stands last in the header
		offset := uint64(binary.LittleEndian.Uint32(rest[at:])) * event.MEPWordBytes
		return sizedMFP(rest[min(offset, uint64(len(rest))):])
	}
	rest = rest[r.cat.rows[row].localOffset:]
	for range s {
		b, ok := sizedMFP(rest)
		if !ok {
			return nil, false
		}
		rest = rest[len(b):]
	}
	return sizedMFP(rest)
}

// sizedMFP returns the MFP at the beginning of b, cut to the size in its header.
func sizedMFP(b []byte) ([]byte, bool) {
	if len(b) < event.MFPFixedSize {
		return nil, false
	}
	size := binary.LittleEndian.Uint32(b[mfpSizeAt:])
	if size < event.MFPFixedSize || uint64(size) > uint64(len(b)) {
		return nil, false
	}
	return b[:size:size], true
}

// rowChanged returns the error of a row that is not what it was when the file was opened.
func (r *packetFile) rowChanged(row int32) error {
	at := &r.cat.rows[row]
	return r.changedError(at.record, at.offset, "its MFPs are not those found at open")
}
