package shmem

import (
	"context"
	"errors"
	"os"
)

// Entry is an entry that a Reader has returned. Data must not be written to. It is valid until Ack; a lossy reader's
// until the next call of Next.
type Entry struct {
	Type uint32
	Data []byte

	pos    uint64
	ticket uint64
}

// Reader is a reading end of a buffer. A buffer can have maxReaders of them, in any processes. Its methods are for one
// goroutine at a time.
type Reader struct {
	bufferEnd
	core  readerCore
	annex *Segment // nil if the buffer has none
}

// OpenReader attaches to the buffer dir/name. A reader of a broadcast buffer begins with the oldest entry in it. The
// errors are those of Open, or errReadersFull, errHostLayout, errLossySharing, *corruptError.
//
// Source: LHCb-EB §III.B: "request the next element … acknowledge the read as completed".
func OpenReader(name string, opts ...Option) (*Reader, error) {
	if !hostSupported() {
		return nil, stepError(errHostLayout, "open buffer %s", name)
	}
	seg, err := Open(name, opts...)
	if err != nil {
		return nil, err
	}
	ring, err := openBuffer(name, seg.Bytes())
	if err != nil {
		return nil, errors.Join(err, seg.Close())
	}
	annex, err := ring.openAnnex(opts)
	if err != nil {
		return nil, errors.Join(err, seg.Close())
	}
	r := &Reader{bufferEnd{seg: seg}, readerCore{buffer: ring, outstanding: newOutstanding()}, annex}
	r.core.isLossy = applyOptions(opts).lossyReader
	if err := r.attach(); err != nil {
		return nil, errors.Join(err, r.release())
	}
	return r, nil
}

// attach takes the first reader's place that is free and whose lock no process holds.
func (r *Reader) attach() error {
	for i := range r.core.buffer.readers {
		ours, err := claimByte(r.seg.file, int64(i))
		if err != nil {
			return r.fail("open", err)
		}
		if !ours {
			continue
		}
		if r.core.buffer.readers[i].state.Load() == readerFree {
			return r.core.join(i, uint32(os.Getpid()))
		}
		// The last reader died here; only the writer frees the place, by DetachDead.
		if err := releaseByte(r.seg.file, int64(i)); err != nil {
			return r.fail("open", err)
		}
	}
	return r.fail("open", errReadersFull)
}

// Next waits for the next entry and returns it. Several entries may be unacknowledged at a time. After the last one
// Next returns ErrEndOfRun, or ErrWriterGone if the writer closed or died before it marked the end; while waiting,
// ctx's error when ctx is done. Other errors: errDetached, errClosed, *corruptError, and for a lossy reader
// *OverwrittenError, after which it goes on.
func (r *Reader) Next(ctx context.Context) (Entry, error) {
	if err := r.checkOpen(ctx); err != nil {
		return Entry{}, r.fail("read", err)
	}
	if e, ok, err := r.poll(); ok || err != nil {
		return e, r.fail("read", err)
	}
	var got Entry
	err := r.core.buffer.entriesBell.Await(ctx, 0, func() (ok bool, err error) {
		got, ok, err = r.poll()
		return ok, err
	}, r.checkWriterLive)
	return got, r.fail("read", err)
}

// poll returns an entry if there is one, or else the end of the run if it is marked.
func (r *Reader) poll() (Entry, bool, error) {
	ended := r.core.buffer.runState.Load() // loaded first: entries published before the end still count
	e, ok, err := r.core.next()
	if !ok && err == nil && ended != runInProgress {
		err = r.core.overwrittenAtEnd()
	}
	if !ok && err == nil {
		switch ended {
		case runInProgress:
		case runEnded:
			err = ErrEndOfRun
		case runAbandoned:
			err = ErrWriterGone
		default:
			err = &corruptError{
				Segment: r.seg.Name(),
				What:    "ended",
				Value:   ended,
				Reason:  "unknown",
			}
		}
	}
	return e, ok, err
}

func (r *Reader) checkWriterLive() error {
	live, err := isByteClaimed(r.seg.file, writerByte)
	if err == nil && !live {
		err = ErrWriterGone
	}
	return err
}

// Ack gives an entry back. Entries may be acknowledged in any order; the writer can use an entry's space again when all
// earlier ones are acknowledged, too. Errors: errNotOutstanding, errClosed.
func (r *Reader) Ack(e Entry) error {
	if r.closed {
		return r.fail("acknowledge to", errClosed)
	}
	return r.fail("acknowledge to", r.core.ack(e))
}

// Close detaches the reader. The buffer counts entries that it has not acknowledged as lost; in sharing mode no other
// reader gets them. A second Close does nothing.
func (r *Reader) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	if s := r.core.words.state.Load(); s == readerActive || s == readerLossy {
		r.core.buffer.detachReader(r.core.index)
	}
	return r.release() // closing the file drops the lock of the place
}

// release unmaps the reader's segments.
func (r *Reader) release() error {
	err := r.seg.Close()
	if r.annex != nil {
		err = errors.Join(err, r.annex.Close())
	}
	return err
}
