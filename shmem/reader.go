package shmem

import (
	"context"
	"errors"
	"os"
)

// Entry is what a Reader hands out. Data is valid until Ack, and must not be written to; that of a reader that may lose
// is valid until the next call of Next.
type Entry struct {
	Type uint32
	Data []byte

	pos    uint64
	ticket uint64
}

// Reader is a reading end of a buffer. There can be maxReaders of them, in any processes. Its methods are
// for one goroutine at a time.
type Reader struct {
	bufferEnd
	core  readerCore
	annex *Segment // nil where the buffer has none
}

// OpenReader attaches to the buffer dir/name. A reader of a broadcast buffer begins with the
// oldest entry that is still there. The errors are those of Open, or errReadersFull, errHostLayout, errLossySharing,
// *corruptError.
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

// attach takes the first place whose lock can be had and whose last reader was detached.
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
		// The last one died here; DetachDead is the writer's to do.
		if err := releaseByte(r.seg.file, int64(i)); err != nil {
			return r.fail("open", err)
		}
	}
	return r.fail("open", errReadersFull)
}

// Next hands out the next entry and waits for it. Several entries may be out at a time. After
// the last one it returns ErrEndOfRun, or ErrWriterGone where the writer closed or died before
// it marked the end; while it waits, ctx's error when ctx is done. Other errors: errDetached,
// errClosed, and *corruptError; of a reader that may lose also *OverwrittenError, after which it goes on.
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

// poll looks for an entry, and for the end where there is none.
func (r *Reader) poll() (Entry, bool, error) {
	ended := r.core.buffer.runState.Load() // first: what was published before the end counts
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

// Ack gives an entry back; its place is the writer's again. Entries may be acknowledged in any
// order, the room of one is free when those before it are acknowledged too. Errors: errNotOutstanding, errClosed.
func (r *Reader) Ack(e Entry) error {
	if r.closed {
		return r.fail("acknowledge to", errClosed)
	}
	return r.fail("acknowledge to", r.core.ack(e))
}

// Close detaches the reader. Entries it was given and has not acknowledged are counted as lost in the
// buffer; in sharing mode nobody gets them again. A second Close does nothing.
func (r *Reader) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	if s := r.core.words.state.Load(); s == readerActive || s == readerLossy {
		r.core.buffer.detachReader(r.core.index)
	}
	return r.release() // the lock of the place goes with the file
}

// release unmaps what the reader has open.
func (r *Reader) release() error {
	err := r.seg.Close()
	if r.annex != nil {
		err = errors.Join(err, r.annex.Close())
	}
	return err
}
