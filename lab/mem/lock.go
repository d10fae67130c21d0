package mem

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"ringlet/memory"
)

// A lock is a word: 0, or a number of whoever has it. Notices of its page wake those that wait.

// ticket is a number that nobody else takes a lock with: the guest's rank in the upper byte.
func (g *Guest) ticket() uint64 { return uint64(g.place.rank)<<56 | rand.Uint64()>>8 }

func readWord(ctx context.Context, im *memory.Import, off int64) (uint64, error) {
	var b [8]byte
	err := im.Read(ctx, off, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// acquire takes a lock, and returns how often it has waited. Where it is unknown whether the word was swapped, the next
// swap, which starts when the outcome of the first is known, finds the ticket: nobody else has it.
func acquire(ctx context.Context, im *memory.Import, off int64, ticket uint64) (waited int, err error) {
	for known := uint64(0); ; waited++ {
		holder, err := im.CompareAndSwap(ctx, off, 0, ticket)
		switch {
		case memory.OutcomeOf(err) == memory.Unknown && ctx.Err() == nil:
			continue
		case memory.OutcomeOf(err) == memory.Unknown:
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkTimeout)
			defer cancel()
			_, _ = im.CompareAndSwap(after, off, ticket, 0) // it may have come after all
			return waited, err
		case err != nil:
			return waited, err
		case holder == 0 || holder == ticket:
			return waited, nil
		}
		// A notice since known, which was before the swap, ends the wait at once: so none is missed.
		if known, err = im.Wait(ctx, off, known); err != nil {
			return waited, fmt.Errorf("the lock at %d is held by %s: %w", off, rankName(int(holder>>56)), err)
		}
	}
}

// release gives a lock back, and wakes who waits.
func release(ctx context.Context, im *memory.Import, off int64, ticket uint64) error {
	holder, err := im.CompareAndSwap(ctx, off, ticket, 0)
	switch {
	case err != nil:
		return err
	case holder != ticket:
		return fmt.Errorf("the lock at %d was taken away: its word is %#x", off, holder)
	}
	_, err = im.Notify(ctx, off)
	return err
}

// Lock takes the lock at an offset, keeps it for a while, and gives it back.
func (g *Guest) Lock(ctx context.Context, segment string, off int64, hold time.Duration) error {
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		ticket, waited := g.ticket(), 0
		err := g.timed(func() (err error) { waited, err = acquire(ctx, im, off, ticket); return err }, func() string {
			return fmt.Sprintf("lock %s@%s [%d] by %s, after %d waits", segment, im.Node(), off, rankName(g.place.rank), waited)
		})
		if err != nil {
			return err
		}
		select {
		case <-time.After(hold):
		case <-ctx.Done(): // it is given back all the same
		}
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkTimeout)
		defer cancel()
		return g.timed(func() error { return release(after, im, off, ticket) },
			func() string { return fmt.Sprintf("unlock %s@%s [%d]", segment, im.Node(), off) })
	})
}
