package builderunit

import (
	"errors"
	"fmt"

	"ringlet/shmem"
	"ringlet/tagnet"
)

// Pipeline of a MEP that is given up, since the sink has no time for it (LHCb-EB §IV.B) or its region was rejected:
//
//	1 giveUpLocked (parallel: receivers, who decides)  the MEP is whole, and as many as the backlog allows wait for the
//	                                                   finisher; or its region is rejected. Under mu
//	2 runReturner  (sequential: returner)              grants revoked, the slot is free, reported to the scheduler
//
// The returner never touches the sink, so a sink that is stuck holds up what the backlog allows and nothing more.

// shedLocked lets those MEPs of the batch, from the given index on, wait for the finisher that may, and the others not.
// Its caller holds mu.
func (b *Builder) shedLocked(from int) {
	keep := from
	for _, l := range b.completedSlots[from:] {
		if limit := b.cfg.MaxWaitingMEPs; l.Progress == CompletedMEP {
			if limit > 0 && b.waitingMEPs >= limit {
				b.giveUpLocked(int(l.Slot), tagnet.Discarded, MEPResult{CompletedAt: b.completedAt})
				continue
			}
			b.waitingMEPs++
		}
		b.completedSlots[keep] = l
		keep++
	}
	b.completedSlots = b.completedSlots[:keep]
}

// giveUpLocked has a MEP given up with an outcome, and what else its result says. Its caller holds mu.
func (b *Builder) giveUpLocked(slot int, outcome tagnet.Outcome, r MEPResult) {
	mep := b.asm.SlotMEP(slot)
	r.Slot, r.MEP, r.Attempt, r.Outcome = uint32(slot), mep.MEP, uint8(mep.Attempt), outcome
	b.returns = append(b.returns, r)
	wakeUp(b.wakeReturner)
}

// runReturner gives MEPs up, as many as there are.
func (b *Builder) runReturner() {
	var spare []MEPResult
	var refs []shmem.Ref
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wakeReturner:
		}
		b.mu.Lock()
		batch := b.returns
		b.returns, spare = spare[:0], batch
		refs = refs[:0]
		for i := range batch {
			if batch[i].Outcome == tagnet.Discarded { // of a region they are revoked
				refs = b.asm.appendMEPRefs(int(batch[i].Slot), refs)
			}
		}
		b.mu.Unlock()
		if err := b.returnSlots(batch, refs); err != nil {
			b.fail(err)
			return
		}
	}
}

// returnSlots closes slots to the network, gives them back and reports that to the scheduler.
func (b *Builder) returnSlots(batch []MEPResult, refs []shmem.Ref) error {
	if len(batch) == 0 {
		return nil
	}
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return fmt.Errorf("discarding MEPs: %w", err)
		}
	}
	back := b.cfg.Slots.Abandon
	if b.asm.isPreGranted() {
		back = b.cfg.Slots.Withdraw
	}
	for i := range batch {
		slot := int(batch[i].Slot)
		if err := errors.Join(back(slot), b.cfg.Slots.Offer(slot)); err != nil {
			return fmt.Errorf("discarding what is in slot %d: %w", slot, err)
		}
	}
	b.reportMu.Lock() // from before the slots count as free, for Reset
	defer b.reportMu.Unlock()
	b.mu.Lock()
	for i := range batch {
		if slot := int(batch[i].Slot); batch[i].Outcome == tagnet.Rejected {
			b.asm.Reject(slot)
		} else {
			b.asm.discardSlot(slot)
		}
	}
	b.mu.Unlock()
	return b.reportResultsLocked(batch)
}

// wakeUp leaves a mark in a channel of one place.
func wakeUp(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
