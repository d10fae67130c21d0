package shmem

import (
	"context"
	"errors"
	"os"
)

// Place is reserved space in a buffer. Commit makes it an entry.
type Place struct {
	// Data is the reserved space, at an address that is a multiple of 16. Its content is arbitrary.
	Data []byte

	reservedSize int // length of Data when reserved
	pos          uint64
	ticket       uint64
	ordinal      uint32
}

// bufferEnd is what writer and readers have in common.
type bufferEnd struct {
	seg    *Segment
	closed bool
}

// fail wraps the error of a step; nil stays nil, and errors that name the segment stay as they are.
func (e *bufferEnd) fail(step string, err error) error {
	if err == nil {
		return nil
	}
	var corrupt *corruptError
	var lost *OverwrittenError
	if errors.As(err, &corrupt) || errors.As(err, &lost) {
		return err
	}
	return stepError(err, "%s buffer %s", step, e.seg.Name())
}

// checkOpen returns errClosed after Close, or ctx's error when ctx is done.
func (e *bufferEnd) checkOpen(ctx context.Context) error {
	if e.closed {
		return errClosed
	}
	return ctx.Err()
}

// Writer is the writing end of a buffer, and its creator; a buffer has one. Its methods are for one goroutine at a
// time.
type Writer struct {
	bufferEnd
	core writerCore
}

// CreateWriter makes the buffer dir/name with space for capacity bytes (rounded up to pages) of entries and their
// headers. The errors are those of Create, or errBadMode, errHostLayout.
//
// Source: LHCb-EB §III.B: "request a chunk of memory of a given size … acknowledge the write
// as completed".
func CreateWriter(name string, capacity int, mode Mode, opts ...Option) (*Writer, error) {
	fail := func(err error) (*Writer, error) {
		return nil, stepError(err, "create buffer %s", name)
	}
	switch {
	case !hostSupported():
		return fail(errHostLayout)
	case mode != Broadcast && mode != Sharing:
		return fail(errBadMode)
	case capacity <= 0 || capacity > 1<<62:
		return fail(errBadSize)
	}
	size, annex := bufferHeader+roundUp(capacity, PageSize), applyOptions(opts).annex
	seg, err := create(name, size, func(s *Segment) error {
		initBuffer(s.mem, mode, uint32(os.Getpid()), annex)
		_, err := claimByte(s.file, writerByte)
		return err
	}, opts)
	if err != nil {
		return nil, err
	}
	r, err := openBuffer(name, seg.Bytes())
	if err != nil {
		return nil, errors.Join(err, seg.Close())
	}
	if annex != nil {
		r.annex = annex.Bytes()
	}
	return &Writer{bufferEnd{seg: seg}, writerCore{buffer: r, outstanding: newOutstanding()}}, nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Name is the buffer's name.
func (w *Writer) Name() string { return w.seg.Name() }

// Reserve waits for space and returns a place of n bytes. Several places may be reserved at a time. While waiting it
// returns ctx's error when ctx is done, and ErrReaderDead when a reader has died: call DetachDead, then try again.
// Other errors: ErrTooLarge, errEnded, errBadEntry, errClosed, and *corruptError.
func (w *Writer) Reserve(ctx context.Context, n int) (Place, error) {
	if err := w.checkOpen(ctx); err != nil {
		return Place{}, w.fail("reserve in", err)
	}
	if p, ok, err := w.core.reserve(n); ok || err != nil {
		return p, w.fail("reserve in", err)
	}
	var got Place
	err := w.core.buffer.spaceBell.Await(ctx, 0, func() (ok bool, err error) {
		got, ok, err = w.core.reserve(n)
		return ok, err
	}, w.checkReadersLive)
	return got, w.fail("reserve in", err)
}

// TryReserve is Reserve without waiting: false means that there is no space now. Errors: ErrTooLarge, errEnded,
// errBadEntry, errClosed, and *corruptError.
func (w *Writer) TryReserve(n int) (Place, bool, error) {
	if w.closed {
		return Place{}, false, w.fail("reserve in", errClosed)
	}
	p, ok, err := w.core.reserve(n)
	return p, ok, w.fail("reserve in", err)
}

// Commit makes the first n bytes of the place an entry of the given type. Readers get entries in the order of their
// places, so an entry waits until earlier places are committed. Errors: errNotOutstanding, errBadEntry, errClosed.
func (w *Writer) Commit(p Place, n int, entryType uint32) error {
	if w.closed {
		return w.fail("commit to", errClosed)
	}
	return w.fail("commit to", w.core.commit(p, n, entryType))
}

// End marks the end of the run: readers get ErrEndOfRun after the last entry. While a place is reserved it refuses with
// errOutstanding.
func (w *Writer) End() error {
	switch {
	case w.closed:
		return w.fail("end", errClosed)
	case !w.core.outstanding.isEmpty():
		return w.fail("end", errOutstanding)
	}
	w.core.end(runEnded)
	return nil
}

// AwaitReader waits until the buffer has, or has had, a reader. Errors: ctx's, errClosed.
func (w *Writer) AwaitReader(ctx context.Context) error {
	err := w.checkOpen(ctx)
	if err == nil {
		err = w.core.buffer.spaceBell.Await(ctx, 0, func() (bool, error) { return w.core.hadReader(), nil },
			func() error { return nil })
	}
	return w.fail("wait for a reader of", err)
}

// DeadReader is a reader whose process has died.
type DeadReader struct {
	Index   int
	PID     int    // in the reader's own container, whose numbers may differ
	Unacked uint64 // entries delivered and not acknowledged; at most one too many
}

// DetachDead frees the entries of readers whose process has died, and counts their unacknowledged entries as lost. In
// sharing mode no other reader gets these. Living readers stay attached.
func (w *Writer) DetachDead() ([]DeadReader, error) {
	if w.closed {
		return nil, w.fail("detach readers of", errClosed)
	}
	var dead []DeadReader
	for i := range w.core.buffer.readers {
		gone, err := w.readerDead(i)
		if err != nil {
			return dead, w.fail("detach readers of", err)
		}
		if gone {
			pid := int(w.core.buffer.readers[i].pid.Load())
			dead = append(dead, DeadReader{Index: i, PID: pid, Unacked: w.core.buffer.detachReader(i)})
		}
	}
	return dead, nil
}

// readerDead reports whether the reader's place is taken while no process holds its lock. It looks twice: at the first
// look one reader may be leaving, which frees the place and then the lock, while the next one takes the lock and then
// the place.
func (w *Writer) readerDead(i int) (bool, error) {
	for range 2 {
		if w.core.buffer.readers[i].state.Load() == readerFree {
			return false, nil
		}
		if live, err := isByteClaimed(w.seg.file, int64(i)); live || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (w *Writer) checkReadersLive() error {
	for i := range w.core.buffer.readers {
		if dead, err := w.readerDead(i); err != nil || dead {
			return errors.Join(err, ErrReaderDead)
		}
	}
	return nil
}

// Close removes the buffer's name. Readers that have it open can read what was committed; then they get ErrEndOfRun, or
// ErrWriterGone if End was not called. A second Close does nothing.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if !w.core.endMarked {
		w.core.end(runAbandoned)
	}
	return w.seg.Close()
}
