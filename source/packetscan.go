package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"ringlet/event"
	"ringlet/event/placing"
)

// packetRow says where the MFPs of all sources stand for one range of events.
type packetRow struct {
	offset        int64  // bytes from the start of the file: of the MEP, or of the first MFP
	localOffset   int64  // bytes from there to the first MFP of this RU, in a file of MFPs
	record        int64  // index in the file
	skippedBefore uint32 // records left out directly before it
	eventCount    uint16 // events
}

// mfpShape is what all MFPs of one source have in common.
type mfpShape struct {
	source         uint16 // id in the file
	align, version uint8
}

func newShape(m event.MFP) mfpShape { return mfpShape{m.Source(), m.Align(), m.Version()} }

// packetCatalog is what one walk over a file of packets learns: all but localBytes and share is the same in every RU
// that reads the same file.
type packetCatalog struct {
	format     string
	rows       []packetRow
	shapes     []mfpShape // of the sources, in order of id
	localBytes []uint32
	totalBytes []uint32 // bytes of fragments by event: of this RU, and of all
	hasWide    bool     // some MFP is wide
	hasWorded  bool     // some MFP is worded
	share      share    // of this RU
	division   placing.Division
	omitted

	next   uint64 // id in the file of the event that the next row must begin with
	events uint64
}

// packetWalk goes from row to row. In a file of MEPs a row is a MEP; in a file of MFPs it is consecutive MFPs with the
// same events, in order of source.
type packetWalk struct {
	data    []byte
	format  string
	offset  int         // where the row begins
	size    int         // bytes of the row, or of the packet to be skipped
	index   int64       // index in the file of the row's first record
	records int64       // records in the row
	mfps    []event.MFP // MFPs of the row
}

// step goes to the next row. The error is io.EOF, or that of package event with its place in the file; then mfps holds
// the valid MFPs before the bad one.
func (w *packetWalk) step() error {
	w.offset += w.size
	w.index += w.records
	w.size, w.records, w.mfps = 0, 0, w.mfps[:0]
	switch {
	case w.offset == len(w.data):
		return io.EOF
	case w.format == event.FormatMEP:
		return w.mep()
	}
	for w.offset+w.size < len(w.data) {
		m, err := event.ParseMFP(w.data[w.offset+w.size:])
		if err != nil {
			err = event.LocateError(err, w.index+w.records, int64(w.offset+w.size))
			w.records++
			w.size += w.extent(w.data[w.offset+w.size:])
			return err
		}
		if len(w.mfps) > 0 && !continuesRow(w.mfps[len(w.mfps)-1], m) {
			return nil
		}
		w.mfps = append(w.mfps, m)
		w.records++
		w.size += len(m.Bytes())
	}
	return nil
}

// continuesRow says whether m has the same events as before and a higher source id.
func continuesRow(before, m event.MFP) bool {
	return m.FirstEvent() == before.FirstEvent() && m.NumFragments() == before.NumFragments() &&
		m.Source() > before.Source()
}

func (w *packetWalk) mep() error {
	w.records = 1
	p, err := event.ParseMEP(w.data[w.offset:])
	if err != nil {
		w.size = w.extent(w.data[w.offset:])
		return event.LocateError(err, w.index, int64(w.offset))
	}
	w.size = len(p.Bytes())
	for m, err := range p.MFPs() {
		if err != nil {
			return event.LocateError(err, w.index, int64(w.offset))
		}
		w.mfps = append(w.mfps, m)
	}
	return nil
}

// extent returns how many bytes the bad packet at the beginning of b takes: its own size, if another packet or the end
// of the file follows there, else up to the next place that looks like a packet.
func (w *packetWalk) extent(b []byte) int {
	if n, ok := w.claimedSize(b); ok {
		return n
	}
	for at := 1; ; at++ {
		n := w.findMagic(b[at:])
		if n < 0 {
			return len(b)
		}
		at += n
		if _, ok := w.claimedSize(b[at:]); ok {
			return at
		}
	}
}

// claimedSize returns the size in the header of the packet at the beginning of b. True: the size is possible, and a
// packet or the end of the file follows.
func (w *packetWalk) claimedSize(b []byte) (int, bool) {
	if len(b) < event.MEPFixedSize || event.DetectPacket(b) != w.format {
		return 0, false
	}
	n, size := int(binary.LittleEndian.Uint16(b[2:])), uint64(binary.LittleEndian.Uint32(b[4:]))
	least := event.MFPHeaderSize(n) // a wide one has more: ParseMFP looks closer
	if w.format == event.FormatMEP {
		least, size = event.MEPHeaderSize(n), size*event.MEPWordBytes
	}
	if size < uint64(least) || size > uint64(len(b)) {
		return 0, false
	}
	rest := b[size:]
	return int(size), len(rest) == 0 || event.DetectPacket(rest) == w.format
}

// findMagic returns the offset in b of the first magic number of a packet of the file's format; -1 if there is none.
func (w *packetWalk) findMagic(b []byte) int {
	if w.format == event.FormatMEP {
		return bytes.Index(b, magicBytes(event.MEPMagic))
	}
	const high = byte(event.MFPMagic >> 8) // that of WideMFPMagic, too
	for at := 1; at < len(b); at++ {
		n := bytes.IndexByte(b[at:], high)
		if n < 0 {
			break
		}
		at += n
		if event.DetectPacket(b[at-1:]) == w.format {
			return at - 1
		}
	}
	return -1
}

func magicBytes(magic uint16) []byte { return binary.LittleEndian.AppendUint16(nil, magic) }

// scanPackets walks the rows of data and checks the headers and tables of all MFPs. It ends at the end of the data,
// after c.Events events, at the first bad record with StopAtBadRecord, or with ctx, whose error it returns.
func scanPackets(ctx context.Context, data []byte, format string, c ReplayConfig) (*packetCatalog, error) {
	cat := &packetCatalog{format: format}
	walk := packetWalk{data: data, format: format}
	look := contextPoller{ctx: ctx}
	for c.Events == 0 || cat.events < c.Events {
		err := walk.step()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(walk.mfps) > 0 && walk.mfps[0].IsEndOfRun() {
			continue
		}
		if err == nil {
			err = cat.check(&walk, c.OnBadRecord)
		}
		if err != nil && c.OnBadRecord == StopAtBadRecord {
			cat.badRecord = newBadRecordError(c.Path, err)
			break
		}
		if err != nil {
			cat.tailRecords += uint32(walk.records)
			cat.tailBytes += int64(walk.size)
		} else if err := cat.add(&walk, c); err != nil {
			return nil, err
		}
		if over := look.advance(walk.size); over != nil {
			return nil, over
		}
	}
	return cat, nil
}

// check says why a row cannot be replayed.
func (c *packetCatalog) check(w *packetWalk, mode OnBadRecord) error {
	refuse := func(kind error, field string, at int, reason string, args ...any) error {
		return &event.FormatError{
			Format: c.format,
			Field:  field,
			Record: w.index,
			Offset: int64(w.offset + at),
			Err:    kind,
			Reason: fmt.Sprintf(reason, args...),
		}
	}
	if len(w.mfps) == 0 {
		return refuse(event.ErrRange, "number of MFPs", 2, "the MEP has none")
	}
	first, n := w.mfps[0].FirstEvent(), w.mfps[0].NumFragments()
	if n == 0 {
		return refuse(event.ErrRange, "number of fragments", 2, "an MFP without events, and no mark of the end of a run")
	}
	for _, m := range w.mfps {
		if m.FirstEvent() != first || m.NumFragments() != n {
			return refuse(event.ErrOrder, "event range", 0, "source %d has %d events from %d, source %d has %d from %d",
				m.Source(), m.NumFragments(), m.FirstEvent(), w.mfps[0].Source(), n, first)
		}
	}
	if len(c.shapes) == 0 {
		if c.format == event.FormatMFP && c.tailRecords > 0 {
			return refuse(event.ErrOrder, "source id", 0, "what stands before it is damaged, so that nothing tells whether "+
				"the events from %d have more sources", first)
		}
		c.next = first
	} else if err := c.sameSources(w, refuse); err != nil {
		return err
	}
	switch {
	case first < c.next:
		return refuse(event.ErrOrder, "first event id", 8, "event %d again: the file is past event %d", first, c.next-1)
	case first > c.next && mode == StopAtBadRecord:
		return refuse(event.ErrOrder, "first event id", 8, "events %d to %d are not in the file", c.next, first-1)
	}
	return nil
}

// sameSources refuses a row whose sources, or their alignment or version, differ from those of the rows before.
func (c *packetCatalog) sameSources(w *packetWalk, refuse func(error, string, int, string, ...any) error) error {
	for i, m := range w.mfps {
		switch {
		case i >= len(c.shapes) || m.Source() < c.shapes[i].source:
			return refuse(event.ErrOrder, "source id", 0, "the events from %d have a source %d, which the file does not "+
				"begin with", m.FirstEvent(), m.Source())
		case m.Source() > c.shapes[i].source:
			return refuse(event.ErrOrder, "source id", 0, "the events from %d lack the MFP of source %d", m.FirstEvent(),
				c.shapes[i].source)
		case newShape(m) != c.shapes[i]:
			return refuse(event.ErrRange, "align", 0, "source %d has align %d and version %d, and began with %d and %d",
				m.Source(), m.Align(), m.Version(), c.shapes[i].align, c.shapes[i].version)
		}
	}
	if len(w.mfps) < len(c.shapes) {
		return refuse(event.ErrOrder, "source id", 0, "the events from %d lack the MFP of source %d",
			w.mfps[0].FirstEvent(), c.shapes[len(w.mfps)].source)
	}
	return nil
}

// add appends a row to the catalogue.
func (c *packetCatalog) add(w *packetWalk, cfg ReplayConfig) error {
	if len(c.shapes) == 0 {
		for _, m := range w.mfps {
			c.shapes = append(c.shapes, newShape(m))
		}
		var err error
		if c.division, err = divide(len(c.shapes), cfg.RUs, cfg.Division, cfg.Path); err != nil {
			return err
		}
		c.share = newShare(c.division, cfg.RU)
	}
	n := w.mfps[0].NumFragments()
	if c.events+uint64(n) > maxRecords {
		return newTooManyError(cfg.Path)
	}
	if first := w.mfps[0].FirstEvent(); first > c.next && c.tailRecords == 0 {
		c.tailRecords = 1 // SkipBadRecord counts a gap in the numbers as one record, however long it is
	}
	row := packetRow{
		offset:        int64(w.offset),
		record:        w.index,
		skippedBefore: c.closeGap(),
		eventCount:    uint16(n),
	}
	c.localBytes, c.totalBytes = append(c.localBytes, make([]uint32, n)...), append(c.totalBytes, make([]uint32, n)...)
	for i, m := range w.mfps {
		c.hasWide, c.hasWorded = c.hasWide || m.IsWide(), c.hasWorded || m.IsWorded()
		m.AddPaddedSizes(c.totalBytes[c.events:])
		if _, local := c.share.localStream(i); local {
			m.AddPaddedSizes(c.localBytes[c.events:])
		} else if i < c.share.firstSource {
			row.localOffset += int64(len(m.Bytes()))
		}
	}
	if slices.Contains(c.totalBytes[c.events:], math.MaxUint32) {
		return &ConfigError{"input", fmt.Sprintf("%s cannot be replayed: one of the events from %d has 4 GiB or more",
			cfg.Path, w.mfps[0].FirstEvent())}
	}
	c.rows = append(c.rows, row)
	c.next = w.mfps[0].FirstEvent() + uint64(n)
	c.events += uint64(n)
	return nil
}
