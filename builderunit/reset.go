package builderunit

import (
	"context"
	"errors"
	"time"

	"ringlet/shmem"
)

// resetEvery is how often Reset looks whether MEPs that are whole have got their outcome.
const resetEvery = 5 * time.Millisecond

// Reset makes every slot free: it gives up the MEPs that are not whole and waits for those that are. It is for a builder unit whose MEPs have been given
// to others, when nobody writes to it any more.
func (b *Builder) Reset(ctx context.Context) error {
	for {
		left, err := b.withdraw()
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(resetEvery):
		}
	}
}

// withdraw gives up the MEPs that are not whole, and returns how many are. When there are none, none is being told of either.
func (b *Builder) withdraw() (left int, err error) {
	b.gate.Lock()
	defer b.gate.Unlock()
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, ErrClosed
	}
	if b.quota != nil {
		return b.quota.asm.Withdraw(), nil
	}
	left = b.asm.Withdraw(func(slot int) {
		err = errors.Join(err, b.revoke(b.asm.Slot(slot).MEP, b.asm.Refs(slot, nil)), b.offerAgain(slot))
	})
	return left, err
}

// offerAgain makes a slot that may be filled in part free for the next MEP.
func (b *Builder) offerAgain(slot int) error {
	info, err := b.cfg.Slots.Info(slot)
	if err != nil || info.State != shmem.SlotFilling {
		return err
	}
	return errors.Join(b.cfg.Slots.Abandon(slot), b.cfg.Slots.Offer(slot))
}
