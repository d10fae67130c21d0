package shmem

import (
	"context"
	"errors"
	"os"
)

// Place is room in a buffer, handed out by a Writer. It ends by Commit.
type Place struct {
	// Data is the room, as long as it was asked for, at an address that is a multiple of 16.
	// Its content is arbitrary.
	Data []byte

	reservedSize int // len(Data) as handed out
	pos          uint64
	ticket       uint64
	ordinal      uint32
}

// bufferEnd is what both ends of a buffer are.
type bufferEnd struct {
	seg    *Segment
	closed bool
}

// fail is the error of a step: none if err is none, and one that says the segment as it is.
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

// checkOpen says errClosed after Close, or that ctx is done.
func (e *bufferEnd) checkOpen(ctx context.Context) error {
	if e.closed {
		return errClosed
	}
	return ctx.Err()
}

// Writer is the writing end of a buffer, and its creator. There is one for each buffer. Its methods are for one
// goroutine at a time.
type Writer struct {
	bufferEnd
	core writerCore
}

// CreateWriter makes the buffer dir/name with room for capacity bytes (rounded up to pages) of
// entries and their headers. The errors are those of Create, or errBadMode, errHostLayout.
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

// Reserve hands out a place of n bytes and waits for it while the buffer is full. Several places
// may be out at a time. While it waits it returns ctx's error when ctx is done, and ErrReaderDead
// when a reader has died: DetachDead, then try again. Other errors: ErrTooLarge, errEnded,
// errBadEntry, errClosed, and *corruptError.
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

// TryReserve is Reserve without waiting: false says that there is no room now. Errors: ErrTooLarge, errEnded,
// errBadEntry, errClosed, and *corruptError.
func (w *Writer) TryReserve(n int) (Place, bool, error) {
	if w.closed {
		return Place{}, false, w.fail("reserve in", errClosed)
	}
	p, ok, err := w.core.reserve(n)
	return p, ok, w.fail("reserve in", err)
}

// Commit makes the first n bytes of the place an entry of the given type. Readers get entries in the
// order of their places; an entry waits for those before it. Errors: errNotOutstanding, errBadEntry, errClosed.
func (w *Writer) Commit(p Place, n int, entryType uint32) error {
	if w.closed {
		return w.fail("commit to", errClosed)
	}
	return w.fail("commit to", w.core.commit(p, n, entryType))
}

// End marks the end of the run: readers get ErrEndOfRun after the last entry. It refuses with
// errOutstanding while a place is out.
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

// AwaitReader waits until a first reader is there or has been there. Errors: ctx's, errClosed.
func (w *Writer) AwaitReader(ctx context.Context) error {
	err := w.checkOpen(ctx)
	if err == nil {
		err = w.core.buffer.spaceBell.Await(ctx, 0, func() (bool, error) { return w.core.hadReader(), nil },
			func() error { return nil })
	}
	return w.fail("wait for a reader of", err)
}

// DeadReader is a reader whose process died.
type DeadReader struct {
	Index   int
	PID     int    // as the reader saw it; another container may number otherwise
	Unacked uint64 // entries it had been given and had not acknowledged; at most one too many
}

// DetachDead frees what readers hold whose process has died, and counts their unacknowledged
// entries as lost. In sharing mode nobody gets those again. Readers that live stay.
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

// readerDead: the place is taken, but nobody holds the lock that its reader would hold. It looks
// twice: the first time a reader may be leaving, which frees the place and then the lock, while
// the next one takes the lock and then the place.
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

// Close takes the buffer away: its name is gone, readers that have it open can read what was committed,
// then they get ErrEndOfRun, or ErrWriterGone where End was not called. A second Close does
// nothing.
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
