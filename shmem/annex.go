package shmem

import (
	"context"
	"encoding/binary"
)

// An annex is a second segment of a buffer: the writer lends parts of it to the readers, where they lie, in place of
// copying them into the buffer. The entry then holds where its data are. docs/format/buffer.md has the layout.

// LentEntrySize is the size of the place of an entry whose data lie in the annex: u64 offset, u64 length.
const LentEntrySize = 16

// lentBit in the stride of a header says that the entry holds where its data are.
const lentBit = 1

// WithAnnex has CreateWriter make a buffer that may lend parts of another segment of this process. Readers open that
// segment with the buffer, so its name must be there as long as the buffer's.
func WithAnnex(s *Segment) Option { return func(o *options) { o.annex = s } }

// strideBytes is the way from this header to the next, bytes.
func (h header) strideBytes() uint64 { return uint64(h.stride &^ lentBit) }

// isLent says that the data of the entry lie in the annex.
func (h header) isLent() bool { return h.stride&lentBit != 0 }

// lentEntry is what the writer knows of an entry that it lent.
type lentEntry struct {
	pos    uint64 // where the entry's header is in the buffer
	offset int    // where the entry's data begin in the annex
}

// Lend makes n bytes of the annex, from offset, an entry of the given type, whose place p has LentEntrySize. The bytes
// are the readers' until AwaitReturned gives the offset back. Errors: errNotOutstanding, errBadEntry, errClosed.
func (w *Writer) Lend(p Place, offset, n int, entryType uint32) error {
	if w.closed {
		return w.fail("lend to", errClosed)
	}
	return w.fail("lend to", w.core.lend(p, offset, n, entryType))
}

// AwaitReturned appends the offsets of what was lent and no reader wants any more, each once, in the order of lending.
// It waits for the first. Errors as for Reserve; errNotOutstanding where nothing is lent.
func (w *Writer) AwaitReturned(ctx context.Context, dst []int) ([]int, error) {
	if err := w.checkOpen(ctx); err != nil {
		return dst, w.fail("take back from", err)
	}
	if len(w.core.lent) == 0 {
		return dst, w.fail("take back from", errNotOutstanding)
	}
	back := dst
	err := w.core.buffer.spaceBell.Await(ctx, 0, func() (ok bool, err error) {
		back, err = w.core.collectReturned(back)
		return len(back) > len(dst), err
	}, w.checkReadersLive)
	return back, w.fail("take back from", err)
}

// lend makes the place an entry whose data lie in the annex.
func (w *writerCore) lend(p Place, offset, n int, kind uint32) error {
	if !w.outstanding.contains(p.ticket, p.pos) {
		return errNotOutstanding
	}
	annex := len(w.buffer.annex)
	if n < 0 || offset < 0 || offset > annex || n > annex-offset || p.reservedSize != LentEntrySize || kind == padType {
		return errBadEntry
	}
	binary.LittleEndian.PutUint64(p.Data, uint64(offset))
	binary.LittleEndian.PutUint64(p.Data[8:], uint64(n))
	*w.buffer.headerAt(p.pos) = header{
		length:  LentEntrySize,
		kind:    kind,
		stride:  uint32(strideOf(LentEntrySize)) | lentBit,
		ordinal: p.ordinal,
	}
	w.lent = append(w.lent, lentEntry{pos: p.pos, offset: offset})
	w.finish(p)
	return nil
}

// collectReturned appends the offsets of what is lent below the floor. Places may be committed in another order than
// they were handed out, so it looks at all.
func (w *writerCore) collectReturned(dst []int) ([]int, error) {
	need := uint64(0) // over the first that was lent
	for i, l := range w.lent {
		if i == 0 || l.pos < need {
			need = l.pos + 1
		}
	}
	if err := w.refreshFloor(need); err != nil {
		return dst, err
	}
	kept := w.lent[:0]
	for _, l := range w.lent {
		if l.pos < w.floor {
			dst = append(dst, l.offset)
		} else {
			kept = append(kept, l)
		}
	}
	w.lent = kept
	return dst, nil
}

// lentBytes is the data of an entry that holds where they are. The entry is read once, and believed only so far as it
// lies in the annex.
func (r *ringBuffer) lentBytes(pos uint64, h header) ([]byte, error) {
	if h.length != LentEntrySize {
		return nil, r.corruptAtError(pos, "length", uint64(h.length), "an entry of the annex has 16 bytes")
	}
	place := r.dataAt(pos, LentEntrySize)
	offset, n := binary.LittleEndian.Uint64(place), binary.LittleEndian.Uint64(place[8:])
	annex := uint64(len(r.annex))
	switch {
	case offset > annex:
		return nil, r.corruptAtError(pos, "offset", offset, "beyond the annex")
	case n > annex-offset:
		return nil, r.corruptAtError(pos, "size", n, "leads past the end of the annex")
	}
	return r.annex[offset : offset+n : offset+n], nil
}

// entryBytes is the data of the entry whose checked header is at pos; nil for a pad.
func (r *ringBuffer) entryBytes(pos uint64, h header) ([]byte, error) {
	switch {
	case h.kind == padType:
		return nil, nil
	case h.isLent():
		return r.lentBytes(pos, h)
	}
	return r.dataAt(pos, uint64(h.length)), nil
}

// annexName is the name of the annex, as the header has it; empty where there is none.
func (r *ringBuffer) annexName() string {
	name := r.bufferWords.annex // read once
	for i, c := range name {
		if c == 0 {
			return string(name[:i])
		}
	}
	return string(name[:])
}

// openAnnex maps the annex of a buffer that was opened, where there is one.
func (r *ringBuffer) openAnnex(opts []Option) (*Segment, error) {
	size := r.format.annex // read once
	if size == 0 {
		return nil, nil
	}
	seg, err := Open(r.annexName(), opts...)
	if err != nil {
		return nil, err
	}
	r.annex = seg.Bytes()
	if uint64(len(r.annex)) != size {
		_ = seg.Close()
		return nil, &corruptError{
			Segment: r.name,
			What:    "size of the annex",
			Value:   size,
			Reason:  "not that of the segment of its name",
		}
	}
	return seg, nil
}
