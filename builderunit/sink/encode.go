package sink

import (
	"fmt"

	"ringlet/event"
	"ringlet/recording"
)

// The way of a MEP to a file, one goroutine:
//
//  1. as MEP: written unchanged, straight from the slot if it is large
//  2. as MFP: each of its MFPs, in the same way
//  3. as MDF: a cursor per MFP walks the events; each event's fragments are appended to the file's buffer as one
//     record; the checksums of a batch of records are computed together, several at a time, before the buffer may be
//     written. Replayed records bring their checksums.
//
// The bytes of the MEP stay the caller's. The encoder reuses its cursors and slices for each MEP.

// encoder writes MEPs in a format. Its slices are scratch memory.
type encoder struct {
	mfps      []event.MFP
	cursors   []event.FragmentCursor
	fragments [][]byte
	sources   []event.SourceFragment
	rebuilder event.Rebuilder
}

func (e *encoder) write(out *stream, format recording.Format, m Meta, mep []byte) error {
	if err := e.parse(m, mep); err != nil {
		return out.fail(fmt.Sprintf("write MEP %d", m.MEP), err)
	}
	switch format {
	case recording.FormatMDF:
		return e.writeRecords(out, m)
	case recording.FormatMFP:
		for i := range e.mfps {
			if err := out.write(e.mfps[i].Bytes()); err != nil {
				return err
			}
		}
		return nil
	default:
		return out.write(mep)
	}
}

// parse finds the MFPs of a MEP and compares them with m.
func (e *encoder) parse(m Meta, mep []byte) error {
	packet, err := event.ParseMEP(mep)
	if err != nil {
		return err
	}
	if len(packet.Bytes()) != len(mep) {
		return fmt.Errorf("%w: it has %d bytes, %d were given", ErrMeta, len(packet.Bytes()), len(mep))
	}
	e.mfps = e.mfps[:0]
	for i := range packet.NumMFPs() {
		p, err := packet.MFP(i)
		if err != nil {
			return err
		}
		if p.NumFragments() != m.Events || p.FirstEvent() != m.FirstEvent {
			return fmt.Errorf("%w: source %d has %d from %d, not %d from %d", ErrMeta, p.Source(), p.NumFragments(),
				p.FirstEvent(), m.Events, m.FirstEvent)
		}
		e.mfps = append(e.mfps, p)
	}
	return nil
}

// minSealBytes is how many bytes of records are appended before their checksums are computed: several records for each
// lane of event.MDFChecksums, and few enough to stay in the processor's cache. A batch of fewer than minSealRecords
// records grows up to maxSealBytes bytes.
const (
	minSealBytes   = 64 << 10
	minSealRecords = 8
	maxSealBytes   = 1 << 20
)

// writeRecords appends one MDF record per event. After an error the output ends with a whole record that has its
// checksum.
func (e *encoder) writeRecords(out *stream, m Meta) error {
	e.beginEvents()
	b := unsealedRecords{start: len(out.buf)}
	for i := range m.Events {
		id, before := m.FirstEvent+uint64(i), len(out.buf)
		sealed, err := e.appendRecord(out, m, id)
		if err != nil {
			_ = b.seal(out, m, before) // the first error is reported
			return out.fail(fmt.Sprintf("write event %d of MEP %d as an MDF record", id, m.MEP), err)
		}
		if sealed { // a replayed record keeps the checksum that it has, or has not
			err = b.seal(out, m, before)
			b.start = len(out.buf)
		} else if b.count++; b.isFull(len(out.buf)) {
			err = b.seal(out, m, len(out.buf))
		}
		if err == nil && b.count == 0 {
			err = out.flushIfFull()
			b.start = len(out.buf)
		}
		if err != nil {
			return err
		}
	}
	if err := b.seal(out, m, len(out.buf)); err != nil {
		return err
	}
	return out.flushIfFull()
}

// beginEvents sets a cursor before the first event of each MFP.
func (e *encoder) beginEvents() {
	e.cursors, e.fragments, e.sources = e.cursors[:0], e.fragments[:0], e.sources[:0]
	for i := range e.mfps {
		p := &e.mfps[i]
		e.cursors = append(e.cursors, p.Cursor())
		e.fragments = append(e.fragments, nil)
		e.sources = append(e.sources, event.SourceFragment{Version: p.Version(), Source: p.Source()})
	}
}

// unsealedRecords are the records at the end of a buffer that have no checksum yet.
type unsealedRecords struct {
	start int // offset of the first one
	count int // how many there are
}

// isFull says that the batch is large enough to compute its checksums.
func (b *unsealedRecords) isFull(end int) bool {
	size := end - b.start
	return size >= minSealBytes && b.count >= minSealRecords || size >= maxSealBytes
}

// seal computes the checksums of the records in the batch: those from the last call up to offset end of the buffer.
func (b *unsealedRecords) seal(out *stream, m Meta, end int) error {
	if err := event.SealRecords(out.buf[b.start:end]); err != nil {
		return out.fail(fmt.Sprintf("compute checksums of MEP %d", m.MEP), err)
	}
	b.start, b.count = end, 0
	return nil
}

// appendRecord appends the record of the event to which all cursors step next. sealed says that the record has its
// checksum already, as a replayed one does.
func (e *encoder) appendRecord(out *stream, m Meta, id uint64) (sealed bool, err error) {
	for i := range e.cursors {
		c := &e.cursors[i]
		c.Next()
		e.fragments[i] = c.Data()
		e.sources[i].Type, e.sources[i].Data = c.Type(), c.Data()
		sealed = sealed || c.Type() == event.FragmentContainer
	}
	if sealed {
		out.buf, err = e.rebuilder.Append(out.buf, e.fragments)
		return true, err
	}
	out.buf, err = event.AppendRecordUnsealed(out.buf, event.MDFHeader{
		Run: m.Run, Orbit: uint32(id / event.BunchesPerOrbit), Bunch: uint32(id % event.BunchesPerOrbit),
	}, e.sources)
	return false, err
}
