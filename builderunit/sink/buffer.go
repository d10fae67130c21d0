package sink

import (
	"context"
	"errors"
	"sync/atomic"

	"ringlet/shmem"
)

// Buffer is the sink that hands MEPs to other processes through a shared-memory buffer (seed 002, L12).
//
// Write waits while the buffer is full. A builder that would rather discard than wait (L11) gives a ctx with a deadline
// and counts the MEP as discarded when Write returns it. Readers that die are detached and counted, and writing goes
// on.
type Buffer struct {
	// immutable after bufferOn
	w *shmem.Writer

	// owned by the goroutine that uses the sink
	result Result
	closed bool

	// atomic
	deadReaders, lost, superseded atomic.Uint64
}

// bufferOn makes a sink of w and owns it: Finish and Abort close it.
func bufferOn(w *shmem.Writer) *Buffer {
	return &Buffer{w: w, result: Result{Path: w.Name()}}
}

// Write copies the MEP into the buffer. A MEP larger than the buffer takes is a *SinkError around shmem.ErrTooLarge.
func (b *Buffer) Write(ctx context.Context, m Meta, mep []byte) error {
	if b.closed {
		return &SinkError{Path: b.w.Name(), Op: "write", Cause: errClosed}
	}
	if err := b.commit(ctx, markOf(m), mep, entryMEP); err != nil {
		return err
	}
	b.result.MEPs++
	b.result.Events += uint64(m.Events)
	b.result.Bytes += uint64(len(mep))
	return nil
}

// Supersede tells readers that a MEP which was written here does not count: the builder unit was excluded before its
// outcome was known, and another one delivers the MEP. It is called from the goroutine that writes.
func (b *Buffer) Supersede(ctx context.Context, m Meta) error {
	if b.closed {
		return &SinkError{Path: b.w.Name(), Op: "mark a MEP as superseded", Cause: errClosed}
	}
	b.superseded.Add(1)
	return b.commit(ctx, markOf(m), nil, entrySuperseded)
}

// commit writes an entry: a MEP, or nothing, and its mark.
func (b *Buffer) commit(ctx context.Context, m mark, mep []byte, kind uint32) error {
	n := len(mep) + markBytes
	place, err := b.reserve(ctx, n)
	if err != nil {
		return err
	}
	copy(place.Data, mep)
	m.put(place.Data[len(mep):n])
	if err := b.w.Commit(place, n, kind); err != nil {
		return &SinkError{Path: b.w.Name(), Op: "commit a MEP", Cause: err}
	}
	return nil
}

func (b *Buffer) reserve(ctx context.Context, n int) (shmem.Place, error) {
	for {
		place, err := b.w.Reserve(ctx, n)
		switch {
		case err == nil:
			return place, nil
		case errors.Is(err, shmem.ErrReaderDead):
			dead, err := b.w.DetachDead()
			if err != nil {
				return shmem.Place{}, &SinkError{Path: b.w.Name(), Op: "detach dead readers", Cause: err}
			}
			for _, d := range dead {
				b.deadReaders.Add(1)
				b.lost.Add(d.Unacked)
			}
		case ctx.Err() != nil:
			return shmem.Place{}, ctx.Err()
		default:
			return shmem.Place{}, &SinkError{Path: b.w.Name(), Op: "reserve room for a MEP", Cause: err}
		}
	}
}

// Flush does nothing: what Write has returned for is with the readers.
func (b *Buffer) Flush() error { return nil }

// BufferStats are the counters of a Buffer that no Result has.
type BufferStats struct {
	DeadReaders uint64 `count:"output_readers_dead" help:"readers whose process died and that were detached"`
	LostMEPs    uint64 `count:"output_meps_lost" help:"MEPs that they had been given and had not acknowledged"`
	Superseded  uint64 `count:"output_meps_superseded" help:"MEPs that were marked as superseded"`
}

// Stats reads the counters, from any goroutine.
func (b *Buffer) Stats() BufferStats {
	return BufferStats{DeadReaders: b.deadReaders.Load(), LostMEPs: b.lost.Load(), Superseded: b.superseded.Load()}
}

// Finish marks the end of the run and closes the writing end. Readers that have the buffer open get every MEP written,
// then shmem.ErrEndOfRun.
func (b *Buffer) Finish() (Result, error) {
	if b.closed {
		return Result{}, &SinkError{Path: b.w.Name(), Op: "finish", Cause: errClosed}
	}
	b.closed = true
	if err := errors.Join(b.w.End(), b.w.Close()); err != nil {
		return Result{}, &SinkError{Path: b.w.Name(), Op: "finish", Cause: err}
	}
	return b.result, nil
}

// Abort closes the writing end without the mark: readers get shmem.ErrWriterGone.
func (b *Buffer) Abort() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if err := b.w.Close(); err != nil {
		return &SinkError{Path: b.w.Name(), Op: "close", Cause: err}
	}
	return nil
}
