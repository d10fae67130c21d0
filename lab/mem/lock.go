package mem

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"ringlet/memory"
)

// A lock is a word: 0, or the ticket of its holder. Notices of its page wake the guests that wait for it.

// ticket is a number for one acquisition of a lock: the guest's rank in the upper byte, and random bits.
func (g *Guest) ticket() uint64 { return uint64(g.place.rank)<<56 | rand.Uint64()>>8 }

func readWord(ctx context.Context, im *memory.Import, off int64) (uint64, error) {
	var b [8]byte
	err := im.Read(ctx, off, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// acquire takes a lock, and returns how often it has waited. If the outcome of a swap is unknown, for example after a
// break of the link, acquire swaps again: if the first swap was executed, the second finds this ticket in the word.
func acquire(ctx context.Context, im *memory.Import, off int64, ticket uint64) (waited int, err error) {
	for known := uint64(0); ; waited++ {
		holder, err := im.CompareAndSwap(ctx, off, 0, ticket)
		switch {
		case memory.OutcomeOf(err) == memory.Unknown && ctx.Err() == nil:
			continue
		case memory.OutcomeOf(err) == memory.Unknown:
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkTimeout)
			defer cancel()
			_, _ = im.CompareAndSwap(after, off, ticket, 0) // release it: the swap may have been executed
			return waited, err
		case err != nil:
			return waited, err
		case holder == 0 || holder == ticket:
			return waited, nil
		}
		// known was read before the swap. If the holder has released the lock since, its notice ends this wait at once.
		if known, err = im.Wait(ctx, off, known); err != nil {
			return waited, fmt.Errorf("the lock at %d is held by %s: %w", off, rankName(int(holder>>56)), err)
		}
	}
}

// release frees a lock, and wakes the guests that wait for it.
func release(ctx context.Context, im *memory.Import, off int64, ticket uint64) error {
	holder, err := im.CompareAndSwap(ctx, off, ticket, 0)
	switch {
	case err != nil:
		return err
	case holder != ticket:
		return fmt.Errorf("another guest has overwritten the lock at %d while it was held: its word is %#x", off, holder)
	}
	_, err = im.Notify(ctx, off)
	return err
}

// Lock takes the lock at an offset, holds it for a while, and releases it.
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
		case <-ctx.Done(): // the lock is released all the same
		}
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkTimeout)
		defer cancel()
		return g.timed(func() error { return release(after, im, off, ticket) },
			func() string { return fmt.Sprintf("unlock %s@%s [%d]", segment, im.Node(), off) })
	})
}
