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
	// immutable; the sink closes it
	w *shmem.Writer

	// owned by the goroutine that uses the sink
	result Result
	closed bool

	// atomic
	deadReaders, lost, superseded atomic.Uint64
}

// Write copies the MEP into the buffer. A MEP larger than the buffer takes is a *SinkError around shmem.ErrTooLarge.
func (b *Buffer) Write(ctx context.Context, m Meta, mep []byte) error {
	err := b.commit(ctx, m, mep, entryMEP)
	if err == nil {
		b.result.add(m, len(mep))
	}
	return err
}

// Supersede tells readers that a MEP which was written here does not count: the builder unit was excluded before its
// outcome was known, and another one delivers the MEP. It is called from the goroutine that writes.
func (b *Buffer) Supersede(ctx context.Context, m Meta) error {
	b.superseded.Add(1)
	return b.commit(ctx, m, nil, entrySuperseded)
}

// commit writes an entry: a MEP, or nothing, and its mark.
func (b *Buffer) commit(ctx context.Context, m Meta, mep []byte, kind uint32) error {
	if b.closed {
		return failed(b.w.Name(), "write", errClosed)
	}
	n := len(mep) + markBytes
	place, err := b.reserve(ctx, n)
	if err != nil {
		return err
	}
	copy(place.Data, mep)
	putMark(place.Data[len(mep):n], m)
	return failed(b.w.Name(), "commit a MEP", b.w.Commit(place, n, kind))
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
				return shmem.Place{}, failed(b.w.Name(), "detach dead readers", err)
			}
			for _, d := range dead {
				b.deadReaders.Add(1)
				b.lost.Add(d.Unacked)
			}
		case ctx.Err() != nil:
			return shmem.Place{}, ctx.Err()
		default:
			return shmem.Place{}, failed(b.w.Name(), "reserve room for a MEP", err)
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
		return Result{}, failed(b.w.Name(), "finish", errClosed)
	}
	b.closed = true
	if err := errors.Join(b.w.End(), b.w.Close()); err != nil {
		return Result{}, failed(b.w.Name(), "finish", err)
	}
	return b.result, nil
}

// Abort closes the writing end without the mark: readers get shmem.ErrWriterGone.
func (b *Buffer) Abort() error {
	if b.closed {
		return nil
	}
	b.closed = true
	return failed(b.w.Name(), "close", b.w.Close())
}
