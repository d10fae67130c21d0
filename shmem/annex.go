package shmem

import (
	"context"
	"encoding/binary"
)

// An annex is a second segment of a buffer: the writer lends parts of it to the readers instead of copying them into
// the buffer. A lent entry holds only the offset and length of its data in the annex. docs/format/buffer.md draws it.

// LentEntrySize is the size of the place for a lent entry, bytes: u64 offset, u64 length.
const LentEntrySize = 16

// lentBit in a header's stride says that the entry is lent.
const lentBit = 1

// WithAnnex has CreateWriter make a buffer that may lend parts of another segment of this process. Readers open that
// segment with the buffer, so its name must exist as long as the buffer's.
func WithAnnex(s *Segment) Option { return func(o *options) { o.annex = s } }

// strideBytes is the distance from this header to the next, bytes.
func (h header) strideBytes() uint64 { return uint64(h.stride &^ lentBit) }

// isLent reports whether the entry's data lie in the annex.
func (h header) isLent() bool { return h.stride&lentBit != 0 }

// lentEntry is the writer's record of an entry that it lent.
type lentEntry struct {
	pos    uint64 // of the header
	offset int    // of the data, in the annex
}

// Lend makes n bytes of the annex, from offset, an entry of the given type in place p, which has LentEntrySize bytes.
// The writer must not change these bytes until AwaitReturned returns the offset. Errors: errNotOutstanding,
// errBadEntry, errClosed.
func (w *Writer) Lend(p Place, offset, n int, entryType uint32) error {
	if w.closed {
		return w.fail("lend to", errClosed)
	}
	return w.fail("lend to", w.core.lend(p, offset, n, entryType))
}

// AwaitReturned appends the offsets of lent data that every reader has acknowledged, each once, in the order of
// lending. It waits until there is one. Errors as for Reserve; errNotOutstanding if no data are lent.
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

// collectReturned appends the offsets of data whose entries lie below the floor. Places may be committed in another
// order than they were reserved, so it looks at all entries.
func (w *writerCore) collectReturned(dst []int) ([]int, error) {
	need := uint64(0) // the end of the first lent entry's header
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

// lentBytes returns the data of a lent entry. It reads offset and length once, and returns only bytes inside the annex.
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

// entryBytes returns the data of the entry whose checked header is at pos; nil for a pad.
func (r *ringBuffer) entryBytes(pos uint64, h header) ([]byte, error) {
	switch {
	case h.kind == padType:
		return nil, nil
	case h.isLent():
		return r.lentBytes(pos, h)
	}
	return r.dataAt(pos, uint64(h.length)), nil
}

// annexName is the annex's name in the header; empty if there is none.
func (r *ringBuffer) annexName() string {
	name := r.bufferWords.annex // copied once: another process may change it
	for i, c := range name {
		if c == 0 {
			return string(name[:i])
		}
	}
	return string(name[:])
}

// openAnnex maps the annex of an opened buffer; it returns nil if there is none.
func (r *ringBuffer) openAnnex(opts []Option) (*Segment, error) {
	size := r.format.annex // loaded once: another process may change it
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
			Reason:  "the segment of its name has another size",
		}
	}
	return seg, nil
}
