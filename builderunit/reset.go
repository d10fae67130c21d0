package builderunit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringlet/event/placing"
	"ringlet/shmem"
)

// resetPollInterval is how often Reset looks whether readout units have quiesced, and MEPs that are whole have got
// their outcome.
const resetPollInterval = 5 * time.Millisecond

// RecordQuiesced takes a readout unit's signal of kind placing.KindQuiesced: nothing of its time before so many
// exclusions comes any more. An error says what was wrong with it; it had no effect.
func (b *Builder) RecordQuiesced(rank int, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	exclusions, err := placing.ParseQuiesced(payload)
	ru, ok := b.ruByRank[rank]
	if err == nil && !ok {
		err = fmt.Errorf("rank %d reported an exclusion as quiesced, and holds no readout unit", rank)
	}
	if err != nil {
		return b.refuse(err)
	}
	b.quiescedExclusions[ru] = max(b.quiescedExclusions[ru], exclusions)
	return nil
}

// Reset makes every slot free, for a builder unit that was excluded so many times and whose MEPs have been given to
// others. It waits until every readout unit has quiesced for that: what they announced and wrote before would else be
// taken for the next MEP's. Then it gives up the MEPs that are not whole, and waits for those that are.
func (b *Builder) Reset(ctx context.Context, exclusions uint32) error {
	for {
		remaining, err := b.tryWithdraw(exclusions)
		if err != nil || remaining == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(resetPollInterval):
		}
	}
}

// tryWithdraw gives up the MEPs that are not whole, and returns how many are, or how many readout units are still to
// quiesce. When there are none, none is being reported either.
func (b *Builder) tryWithdraw(exclusions uint32) (remaining int, err error) {
	if !b.finisherGate.TryLock() {
		return 1, nil // a MEP is being finished, or the sink holds it up
	}
	defer b.finisherGate.Unlock()
	b.reportMu.Lock()
	defer b.reportMu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errClosed
	}
	for _, n := range b.quiescedExclusions {
		if n < exclusions {
			remaining++
		}
	}
	if remaining > 0 {
		return remaining, nil
	}
	remaining = b.commit.unreported
	remaining += b.asm.withdrawSlots(func(slot int) {
		err = errors.Join(err, b.revoke(b.asm.SlotMEP(slot).MEP, b.asm.appendMEPRefs(slot, nil)), b.reofferSlot(slot))
	})
	return remaining, err
}

// reofferSlot makes a slot that may be filled in part free for the next MEP.
func (b *Builder) reofferSlot(slot int) error {
	if b.cfg.Slots.State(slot) != shmem.SlotFilling {
		return nil
	}
	return errors.Join(b.cfg.Slots.Abandon(slot), b.cfg.Slots.Offer(slot))
}
