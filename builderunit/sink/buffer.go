package sink

import (
	"context"
	"errors"
	"time"

	"ringlet/shmem"
)

// Buffer is the sink that hands MEPs to other processes through a shared-memory buffer (LHCb-EB §IV.B). It copies them
// into the buffer (Write), or lends their slots (Lend).
//
// Write waits while the buffer is full. A builder unit that would rather discard than wait (LHCb-EB §IV.B) passes a
// ctx with a deadline, and counts the MEP as discarded when Write returns ctx's error. Readers that die are detached
// and counted, and writing goes on.
type Buffer struct {
	// immutable; the sink closes it
	w         *shmem.Writer
	lendSlots *shmem.Slots // the slots whose blocks it lends; nil: it copies
	maxLent   int          // how many blocks may be lent at a time; other buffers may lend from the same slots

	// owned by the goroutine that uses the sink
	result   Result
	closed   bool
	lent     int   // blocks that are lent now
	returned []int // scratch

	count counted[BufferStats]
}

// firstReaderTimeout is how long an output that no process has read waits for a first reader at its end. A reader that
// waits for the run looks for buffers twenty times a second, so a run of some milliseconds is over before the reader
// finds them.
const firstReaderTimeout = time.Second

// Write copies the MEP into the buffer. If the MEP is larger than the buffer takes, the error is a *SinkError around
// shmem.ErrTooLarge.
func (b *Buffer) Write(ctx context.Context, m Meta, mep []byte) error {
	err := b.writeEntry(ctx, m, mep, entryTypeMEP)
	if err == nil {
		b.result.add(m, len(mep))
	}
	return err
}

// Supersede tells readers that a MEP written here does not count: the builder unit was excluded before the outcome of
// the MEP was known, and another one delivers it. The goroutine that writes calls it.
func (b *Buffer) Supersede(ctx context.Context, m Meta) error {
	b.count.update(func(s *BufferStats) { s.SupersededMEPs++ })
	return b.writeEntry(ctx, m, nil, entryTypeSuperseded)
}

// writeEntry writes an entry: a MEP, or nothing, and its mark.
func (b *Buffer) writeEntry(ctx context.Context, m Meta, mep []byte, kind uint32) error {
	if b.closed {
		return wrapError(b.w.Name(), "write", errClosed)
	}
	n := len(mep) + markBytes
	place, err := b.reserve(ctx, n)
	if err != nil {
		return err
	}
	b.countOverwritten()
	copy(place.Data, mep)
	encodeMark(place.Data[len(mep):n], m)
	return wrapError(b.w.Name(), "commit a MEP", b.w.Commit(place, n, kind))
}

// LendMargin is how many bytes a slot needs after its MEP to be lent, for the mark.
const LendMargin = 32

// LendCapacity is the size in bytes of a buffer that lends: its entries have a few words.
const LendCapacity = 1 << 16

// Lends says that the buffer lends slots.
func (b *Buffer) Lends() bool { return b.lendSlots != nil }

// Lend lends readers a MEP at the beginning of a built slot; the slot gets another block in exchange. It waits while
// maxLent blocks are lent. Errors are as for Write.
func (b *Buffer) Lend(ctx context.Context, m Meta, slot int, mep []byte) error {
	if b.closed {
		return wrapError(b.w.Name(), "write", errClosed)
	}
	n := len(mep)
	for b.lent == b.maxLent {
		if err := b.reclaim(ctx); err != nil {
			return err
		}
	}
	place, err := b.reserve(ctx, shmem.LentEntrySize)
	if err != nil {
		return err
	}
	b.countOverwritten()
	slotBytes := b.lendSlots.BlockBytes(slot)
	encodeMark(slotBytes[n:n+markBytes], m)
	offset, err := b.lendSlots.Lend(slot)
	if err == nil {
		err = b.w.Lend(place, offset, n+markBytes, entryTypeMEP)
	}
	if err != nil {
		return wrapError(b.w.Name(), "lend a MEP", err)
	}
	b.lent++
	b.result.add(m, n)
	return nil
}

// reclaim waits until readers have returned a lent MEP, and takes the blocks of all returned MEPs back as spare ones.
func (b *Buffer) reclaim(ctx context.Context) error {
	err := b.retryDetachingDead(ctx, "wait for a MEP to come back", func() (err error) {
		b.returned, err = b.w.AwaitReturned(ctx, b.returned[:0])
		return err
	})
	for _, offset := range b.returned {
		b.lendSlots.Return(offset)
		b.lent--
	}
	return err
}

func (b *Buffer) reserve(ctx context.Context, n int) (place shmem.Place, err error) {
	err = b.retryDetachingDead(ctx, "reserve room for a MEP", func() (err error) {
		place, err = b.w.Reserve(ctx, n)
		return err
	})
	return place, err
}

// retryDetachingDead calls do, which waits until readers have acknowledged MEPs. If do fails because a reader has died,
// retryDetachingDead detaches the dead readers and calls do again, until do succeeds, fails otherwise, or ctx ends.
// step names do in errors.
func (b *Buffer) retryDetachingDead(ctx context.Context, step string, do func() error) error {
	for {
		err := do()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, shmem.ErrReaderDead):
			dead, err := b.w.DetachDead()
			if err != nil {
				return wrapError(b.w.Name(), "detach dead readers", err)
			}
			for _, d := range dead {
				b.count.update(func(s *BufferStats) { s.DeadReaders, s.LostMEPs = s.DeadReaders+1, s.LostMEPs+d.Unacked })
			}
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			return wrapError(b.w.Name(), step, err)
		}
	}
}

// Flush does nothing: readers can see a MEP when its Write has returned.
func (b *Buffer) Flush() error { return nil }

// BufferStats are the counters of a Buffer that are not in its Result.
type BufferStats struct {
	DeadReaders     uint64 `count:"output_readers_dead" help:"readers whose process died and that were detached"`
	LostMEPs        uint64 `count:"output_meps_lost" help:"MEPs given to readers that died before they acknowledged them"`
	SupersededMEPs  uint64 `count:"output_meps_superseded" help:"MEPs marked as superseded"`
	OverwrittenMEPs uint64 `count:"output_meps_missed" help:"MEPs overwritten before a reader that may lose had read them"`
	UnreadMEPs      uint64 `count:"output_meps_unread" help:"MEPs handed out that no reader came for"`
}

// Stats reads the counters, from any goroutine.
func (b *Buffer) Stats() BufferStats { return b.count.read() }

// countOverwritten updates how many MEPs were overwritten before readers that may lose had read them.
func (b *Buffer) countOverwritten() {
	b.count.update(func(s *BufferStats) { s.OverwrittenMEPs = b.w.Overwritten() })
}

// Finish marks the end of the run and closes the writing end. Readers that have the buffer open get every MEP, then
// shmem.ErrEndOfRun. If there never was a reader, Finish waits for firstReaderTimeout, and then counts the MEPs as
// unread.
func (b *Buffer) Finish() (Result, error) {
	if b.closed {
		return Result{}, wrapError(b.w.Name(), "finish", errClosed)
	}
	b.closed = true
	b.countOverwritten()
	if b.result.MEPs > 0 {
		ctx, stop := context.WithTimeout(context.Background(), firstReaderTimeout)
		defer stop()
		if b.w.AwaitReader(ctx) != nil {
			b.count.update(func(s *BufferStats) { s.UnreadMEPs = b.result.MEPs })
		}
	}
	if err := errors.Join(b.w.End(), b.w.Close()); err != nil {
		return Result{}, wrapError(b.w.Name(), "finish", err)
	}
	return b.result, nil
}

// Abort closes the writing end without the mark: readers get shmem.ErrWriterGone.
func (b *Buffer) Abort() error {
	if b.closed {
		return nil
	}
	b.closed = true
	return wrapError(b.w.Name(), "close", b.w.Close())
}
