package shmem

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
)

// Place is room in a buffer, handed out by a Writer. It ends by Commit or Cancel.
type Place struct {
	// Data is the room, as long as it was asked for, at an address that is a multiple of 16.
	// Its content is arbitrary.
	Data []byte

	size    int // len(Data) as handed out
	pos     uint64
	ticket  uint64
	ordinal uint32
}

// Writer is the writing end of a buffer, and its creator. There is one for each buffer. Except
// Stats, its methods are for one goroutine at a time.
type Writer struct {
	// immutable after CreateWriter
	seg     *Segment
	errFull error // made once: a full buffer is no reason to allocate

	// owned by one goroutine
	core   writerCore
	closed bool

	// atomic
	entries, bytes, cancelled, full, waits atomic.Uint64
}

// CreateWriter makes the buffer dir/name with room for capacity bytes (rounded up to pages) of
// entries and their headers. The errors are those of Create, or errBadMode, errHost.
//
// Source: seed 002, row L8: "request a chunk of memory of a given size … acknowledge the write
// as completed".
func CreateWriter(name string, capacity int, mode Mode, opts ...Option) (*Writer, error) {
	fail := func(err error) (*Writer, error) {
		return nil, &bufferError{Op: "create", Segment: name, Err: err}
	}
	switch {
	case !hostFits():
		return fail(errHost)
	case mode != Broadcast && mode != Sharing:
		return fail(errBadMode)
	case capacity <= 0 || capacity > 1<<62:
		return fail(errBadSize)
	}
	size := bufferHeader + roundUp(capacity, PageSize)
	seg, err := create(name, size, func(s *Segment) error {
		initRing(s.mem, mode, uint32(os.Getpid()))
		_, err := claim(s.file, writerByte)
		return err
	}, opts)
	if err != nil {
		return nil, err
	}
	r, err := openRing(name, seg.Bytes())
	if err != nil {
		return nil, errors.Join(err, seg.Close())
	}
	w := &Writer{seg: seg, core: writerCore{ring: r, out: newLedger()}}
	w.errFull = w.fail("reserve in", errBufferFull)
	return w, nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Name is the buffer's name.
func (w *Writer) Name() string { return w.seg.Name() }

// maxEntry is the largest entry that Reserve gives a place for, bytes.
func (w *Writer) maxEntry() int { return w.core.ring.maxEntry() }

// Reserve hands out a place of n bytes and waits for it while the buffer is full. Several places
// may be out at a time. While it waits it returns ctx's error when ctx is done, and ErrReaderDead
// when a reader has died: DetachDead, then try again. Other errors: ErrTooLarge, errEnded,
// errBadEntry, errClosed, all in a *bufferError, and *corruptError.
func (w *Writer) Reserve(ctx context.Context, n int) (Place, error) {
	if err := ctx.Err(); err != nil {
		return Place{}, w.fail("reserve in", err)
	}
	p, err := w.tryReserve(n)
	if !errors.Is(err, errBufferFull) {
		return p, err
	}
	w.waits.Add(1)
	var got Place
	err = w.core.ring.room.await(ctx, func() (ok bool, err error) {
		got, ok, err = w.core.reserve(n)
		return ok, err
	}, w.readersLive)
	if err != nil {
		return Place{}, w.fail("reserve in", err)
	}
	return got, nil
}

// tryReserve is Reserve without waiting: ErrFull when there is no room. It is for a writer that
// discards what its readers are too slow for (seed 002, row L11).
func (w *Writer) tryReserve(n int) (Place, error) {
	if w.closed {
		return Place{}, w.fail("reserve in", errClosed)
	}
	p, ok, err := w.core.reserve(n)
	if err != nil {
		return Place{}, w.fail("reserve in", err)
	}
	if !ok {
		w.full.Add(1)
		return Place{}, w.errFull
	}
	return p, nil
}

// Commit makes the first n bytes of the place an entry of the given type. Readers get entries in the
// order of their places; an entry waits for those before it. Errors: errNotOut, errBadEntry, errClosed.
func (w *Writer) Commit(p Place, n int, entryType uint32) error {
	if w.closed {
		return w.fail("commit to", errClosed)
	}
	if err := w.core.commit(p, n, entryType); err != nil {
		return w.fail("commit to", err)
	}
	w.entries.Add(1)
	w.bytes.Add(uint64(n))
	return nil
}

// cancel gives the place back without an entry.
func (w *Writer) cancel(p Place) error {
	if w.closed {
		return w.fail("cancel in", errClosed)
	}
	if err := w.core.cancel(p); err != nil {
		return w.fail("cancel in", err)
	}
	w.cancelled.Add(1)
	return nil
}

// End marks the end of the run: readers get ErrEndOfRun after the last entry. It refuses with
// errOutstanding while a place is out.
func (w *Writer) End() error {
	switch {
	case w.closed:
		return w.fail("end", errClosed)
	case !w.core.out.empty():
		return w.fail("end", errOutstanding)
	}
	w.core.end(runEnded)
	return nil
}

// Drain waits until every entry committed is acknowledged. In a broadcast buffer that never had
// a reader, and in a sharing buffer without one, that is when ctx is done. Errors as for Reserve.
func (w *Writer) Drain(ctx context.Context) error {
	if w.closed {
		return w.fail("drain", errClosed)
	}
	if err := w.core.ring.room.await(ctx, w.core.drained, w.readersLive); err != nil {
		return w.fail("drain", err)
	}
	return nil
}

// waitReaders waits until at least n readers are attached: readers of a broadcast buffer that are there
// before the first entry get every entry.
func (w *Writer) waitReaders(ctx context.Context, n int) error {
	if w.closed {
		return w.fail("wait for readers of", errClosed)
	}
	enough := func() (bool, error) { return w.readers() >= n, nil }
	if err := w.core.ring.room.await(ctx, enough, func() error { return nil }); err != nil {
		return w.fail("wait for readers of", err)
	}
	return nil
}

// readers is the number of readers attached, dead ones included; 0 after Close.
func (w *Writer) readers() int {
	n := 0
	if w.closed {
		return n
	}
	for i := range w.core.ring.readers {
		if w.core.ring.readers[i].state.Load() == readerActive {
			n++
		}
	}
	return n
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
	for i := range w.core.ring.readers {
		gone, err := w.readerDead(i)
		if err != nil {
			return dead, w.fail("detach readers of", err)
		}
		if gone {
			pid := int(w.core.ring.readers[i].pid.Load())
			dead = append(dead, DeadReader{Index: i, PID: pid, Unacked: w.core.ring.leave(i)})
		}
	}
	return dead, nil
}

// readerDead: the place is taken, but nobody holds the lock that its reader would hold. It looks
// twice: the first time a reader may be leaving, which frees the place and then the lock, while
// the next one takes the lock and then the place.
func (w *Writer) readerDead(i int) (bool, error) {
	for range 2 {
		if w.core.ring.readers[i].state.Load() == readerFree {
			return false, nil
		}
		if live, err := claimed(w.seg.file, int64(i)); live || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (w *Writer) readersLive() error {
	for i := range w.core.ring.readers {
		if dead, err := w.readerDead(i); err != nil || dead {
			return errors.Join(err, ErrReaderDead)
		}
	}
	return nil
}

// WriterStats is a reading of a Writer's counters.
type WriterStats struct {
	Entries   uint64 // committed
	Bytes     uint64 // of their data
	Cancelled uint64 // places given back without an entry
	Full      uint64 // tryReserve without room, and Reserve that had to wait
	Waits     uint64 // Reserve that had to wait
}

// Stats reads the counters, from any goroutine.
func (w *Writer) Stats() WriterStats {
	return WriterStats{
		Entries: w.entries.Load(), Bytes: w.bytes.Load(), Cancelled: w.cancelled.Load(),
		Full: w.full.Load(), Waits: w.waits.Load(),
	}
}

// Lost is the number of entries given to readers that closed or died without acknowledging them;
// 0 after Close.
func (w *Writer) Lost() uint64 {
	if w.closed {
		return 0
	}
	return w.core.ring.lost.Load()
}

// Close takes the buffer away: its name is gone, readers that have it open can read what was committed,
// then they get ErrEndOfRun, or ErrWriterGone where End was not called. A second Close does
// nothing.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if !w.core.ended {
		w.core.end(runLeft)
	}
	return w.seg.Close()
}

func (w *Writer) fail(op string, err error) error {
	var corrupt *corruptError
	if errors.As(err, &corrupt) {
		return err
	}
	return &bufferError{Op: op, Segment: w.seg.Name(), Err: err}
}
