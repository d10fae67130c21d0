package builderunit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// resetPollInterval is how often Reset checks whether readout units have quiesced and complete MEPs have their
// outcomes.
const resetPollInterval = 5 * time.Millisecond

// RecordQuiesced applies a readout unit's signal of kind placing.KindQuiesced: nothing that the unit sent before that
// many exclusions will come any more. An error says what is wrong with the signal, which then had no effect.
func (b *Builder) RecordQuiesced(rank int, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	exclusions, err := placing.ParseQuiesced(payload)
	ru, ok := b.ruByRank[rank]
	if err == nil && !ok {
		err = fmt.Errorf("rank %d reported an exclusion as quiesced, but holds no readout unit", rank)
	}
	if err != nil {
		return b.refuse(err)
	}
	b.quiescedExclusions[ru] = max(b.quiescedExclusions[ru], exclusions)
	return nil
}

// Reset frees every slot of a builder unit that was excluded that many times and whose MEPs other builder units have
// got. It waits until every readout unit that is not gone has quiesced for that exclusion: earlier announcements and
// writes would otherwise count for the next MEP. Then it gives up the incomplete MEPs, and waits for the complete ones.
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

// tryWithdraw gives up the incomplete MEPs. It returns how many complete ones are left, or how many readout units have
// not quiesced. With 0 no result is being reported either.
func (b *Builder) tryWithdraw(exclusions uint32) (remaining int, err error) {
	if !b.finisherGate.TryLock() {
		return 1, nil // a MEP is being finished, or the sink has it
	}
	defer b.finisherGate.Unlock()
	b.reportMu.Lock()
	defer b.reportMu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errClosed
	}
	for ru, n := range b.quiescedExclusions {
		if n < exclusions && b.asm.absent.lacksBelow[ru] != everyMEP {
			remaining++
		}
	}
	if remaining > 0 {
		return remaining, nil
	}
	remaining = b.commit.unreported
	remaining += b.asm.withdrawSlots(func(slot int) {
		err = errors.Join(err, b.revoke(b.asm.SlotMEP(slot).MEP, b.asm.appendMEPRefs(slot, nil)),
			reofferSlot(b.cfg.Slots, slot))
	})
	return remaining, err
}

// KeepValid frees every slot that waits for parts of a MEP without a valid token: a lost scheduler had issued that
// token, and the unit that has written for it is lost, too. Its windows are revoked, so nothing more comes.
func (b *Builder) KeepValid(tokens []core.PlacedToken) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	valid := map[core.Token]bool{}
	for _, t := range tokens {
		t.BU = 0
		valid[t.Token] = true
	}
	b.asm.withdrawInvalid(func(slot int, m MEP) bool {
		return valid[core.Token{MEP: m.MEP, Slot: uint32(slot), Attempt: uint8(m.Attempt)}]
	}, func(slot int) {
		err = errors.Join(err, b.revoke(b.asm.SlotMEP(slot).MEP, b.asm.appendMEPRefs(slot, nil)),
			reofferSlot(b.cfg.Slots, slot))
	})
	return err
}

// reofferSlot frees a slot that may be partly filled.
func reofferSlot(slots *shmem.Slots, slot int) error {
	if slots.State(slot) != shmem.SlotFilling {
		return nil
	}
	return errors.Join(slots.Abandon(slot), slots.Offer(slot))
}
