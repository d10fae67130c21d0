package sink

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Part is one builder's share of an output: a file that a File with FileConfig.Part has finished.
type Part struct {
	Path string // its index stands beside it
}

// Merge makes the output dst of the parts, in order of MEP, and removes them. It reads each part once, from front to back as
// far as its MEPs are in order, and holds a window of each in memory, whatever their size. Of several attempts at one MEP the
// highest is taken. MEPs that are in no part are counted in the result and are not an error.
//
// When it fails, or ctx ends, dst is as it was, the parts are still there, and the temporary file is gone. The error is a
// *SinkError or that of ctx.
func Merge(ctx context.Context, parts []Part, dst string) (r Result, err error) {
	heads := make([]*partHead, 0, len(parts))
	defer func() {
		for _, h := range heads {
			err = errors.Join(err, h.close())
		}
	}()
	var format Format
	for _, p := range parts {
		h, err := openPart(p.Path)
		if err != nil {
			return Result{}, err
		}
		heads = append(heads, h)
		r.Superseded += h.index.superseded
		if format == 0 {
			format = h.index.format
		}
		if h.index.format != format {
			return Result{}, &SinkError{Path: p.Path, Op: "merge it: it is " + h.index.format.String() + ", the others are " + format.String(), Cause: ErrCorrupt}
		}
	}
	out, err := createTemp(dst)
	if err != nil {
		return Result{}, err
	}
	r.Path, r.Reordered = dst, len(parts) > 1
	if err = mergeInto(ctx, out, heads, &r); err == nil {
		err = out.commit()
	}
	if err != nil {
		return Result{}, errors.Join(err, out.remove())
	}
	return r, RemoveParts(parts)
}

// mergeInto copies MEP after MEP, always the lowest that any part has next.
func mergeInto(ctx context.Context, out *tempFile, heads []*partHead, r *Result) error {
	next := uint64(0)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		best := lowest(heads)
		if best == nil {
			return nil
		}
		e := best.entry
		if err := best.data.copy(out, e); err != nil {
			return err
		}
		r.tally(e, &next)
		for _, h := range heads {
			if h.done || h.entry.mep != e.mep {
				continue
			}
			if h != best {
				r.Superseded++
			}
			if err := h.step(); err != nil {
				return err
			}
		}
	}
}

// lowest is the part whose next MEP has the lowest number, and of those the highest attempt; nil when all are done.
func lowest(heads []*partHead) (best *partHead) {
	for _, h := range heads {
		if h.done {
			continue
		}
		if best == nil || h.entry.mep < best.entry.mep || h.entry.mep == best.entry.mep && h.entry.attempt > best.entry.attempt {
			best = h
		}
	}
	return best
}

// RemoveParts removes parts and their indexes; those that are not there are no error.
func RemoveParts(parts []Part) error {
	var errs []error
	for _, p := range parts {
		for _, path := range []string{p.Path + indexSuffix, p.Path} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, &SinkError{Path: path, Op: "remove it", Cause: err})
			}
		}
	}
	return errors.Join(errs...)
}

// RemoveUnfinished removes whatever failed or killed processes left of an output to dst that bus builder units had parts of:
// parts, their indexes, and temporary files. No process may be writing to dst at the time.
func RemoveUnfinished(dst string, bus int) error {
	_, err := RemoveTemporaries(dst) // the parts and their indexes among them
	for bu := range bus {
		part := PartPath(dst, bu)
		for _, path := range []string{part, part + indexSuffix} {
			_, rmErr := RemoveTemporaries(path)
			err = errors.Join(err, rmErr)
		}
	}
	return err
}

// partHead is how far a part is merged.
type partHead struct {
	f     *os.File
	index *indexReader
	data  window
	entry entry // the next
	done  bool
}

func openPart(path string) (*partHead, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &SinkError{Path: path, Op: "read the part", Cause: err}
	}
	h := &partHead{f: f}
	st, err := f.Stat()
	if err == nil {
		h.data = window{r: f, size: st.Size()}
		h.index, err = openIndex(path+indexSuffix, st.Size())
	}
	if err == nil {
		err = h.step()
	}
	if err != nil {
		_ = h.close()
		return nil, err
	}
	return h, nil
}

func (h *partHead) step() error {
	e, ok, err := h.index.next()
	h.entry, h.done = e, !ok
	return err
}

func (h *partHead) close() error {
	err := h.f.Close()
	if h.index != nil {
		err = errors.Join(err, h.index.close())
	}
	return err
}

// windowBytes is what is read at once of a file whose MEPs are nearly in order.
const windowBytes = 1 << 20

// window reads pieces of a file and keeps what lies around the last one.
type window struct {
	r    io.ReaderAt
	size int64 // of the file
	buf  []byte
	at   int64 // offset of buf
}

// copy appends the bytes of e to out.
func (w *window) copy(out *tempFile, e entry) error {
	for offset, end := e.offset, e.offset+e.length; offset < end; {
		piece, err := w.read(offset, end-offset)
		if err != nil {
			return out.fail("read back what was written", err)
		}
		if err := out.write(piece); err != nil {
			return err
		}
		offset += int64(len(piece))
	}
	return nil
}

// read gives at least one and at most n of the bytes at offset, valid until the next call.
func (w *window) read(offset, n int64) ([]byte, error) {
	if offset < w.at || offset >= w.at+int64(len(w.buf)) {
		if w.buf == nil {
			w.buf = make([]byte, windowBytes)
		}
		w.buf, w.at = w.buf[:min(windowBytes, w.size-offset)], offset
		if got, err := w.r.ReadAt(w.buf, offset); got < len(w.buf) {
			w.buf = w.buf[:0]
			return nil, errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
	have := w.buf[offset-w.at:]
	return have[:min(n, int64(len(have)))], nil
}
