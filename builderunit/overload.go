package builderunit

import (
	"errors"
	"fmt"

	"ringlet/shmem"
)

// Pipeline of a MEP that the sink has no time for (LHCb-EB §IV.B):
//
//	1 PlacedMany  (parallel: receivers)     the MEP is whole, and as many as the backlog allows wait for the finisher:
//	                                        it is shed, under mu
//	2 discard     (sequential: discarder)   grants revoked, the slot is free, reported to the scheduler
//
// The discarder never touches the sink, so a sink that is stuck holds up what the backlog allows and nothing more.

// sinkQueue is the pure core of the policy: how many whole MEPs wait for the sink, the one that it has included.
type sinkQueue struct {
	limit   int // 0: any number
	waiting int
}

// admit reports whether one more may wait.
func (l *sinkQueue) admit() bool {
	if l.limit > 0 && l.waiting >= l.limit {
		return false
	}
	l.waiting++
	return true
}

// release says that n are done with.
func (l *sinkQueue) release(n int) { l.waiting -= n }

// shedLocked lets those MEPs of the batch, from the given index on, wait for the finisher that may, and the others not.
// Its caller holds mu.
func (b *Builder) shedLocked(from int) {
	keep := from
	for _, l := range b.completedSlots[from:] {
		if l.Progress == CompletedMEP && !b.sinkQueue.admit() {
			b.slotsToDiscard = append(b.slotsToDiscard, l.Slot)
			continue
		}
		b.completedSlots[keep] = l
		keep++
	}
	if b.completedSlots = b.completedSlots[:keep]; len(b.slotsToDiscard) > 0 {
		wakeUp(b.wakeDiscarder)
	}
}

// runDiscarder gives up MEPs that were turned away, as many as there are.
func (b *Builder) runDiscarder() {
	var results []MEPResult
	var spare []uint32
	var refs []shmem.Ref
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.wakeDiscarder:
		}
		b.mu.Lock()
		slots, at := b.slotsToDiscard, b.completedAt
		b.slotsToDiscard, spare = spare[:0], slots
		results, refs = results[:0], refs[:0]
		for _, i := range slots {
			mep := b.asm.SlotMEP(int(i))
			results = append(results, MEPResult{
				Slot:        int(i),
				MEP:         mep.MEP,
				Attempt:     mep.Attempt,
				Outcome:     Discarded,
				CompletedAt: at,
			})
			refs = b.asm.appendMEPRefs(int(i), refs)
		}
		b.mu.Unlock()
		if err := b.discardMEPs(slots, refs, results); err != nil {
			b.fail(err)
			return
		}
	}
}

// discardMEPs closes slots to the network, gives them back and reports that to the scheduler.
func (b *Builder) discardMEPs(slots []uint32, refs []shmem.Ref, results []MEPResult) error {
	for _, ref := range refs {
		if err := b.cfg.Table.Revoke(ref); err != nil {
			return fmt.Errorf("discarding MEPs: %w", err)
		}
	}
	back := b.cfg.Slots.Abandon
	if b.asm.isPreGranted() {
		back = b.cfg.Slots.Withdraw
	}
	for _, i := range slots {
		if err := errors.Join(back(int(i)), b.cfg.Slots.Offer(int(i))); err != nil {
			return fmt.Errorf("discarding what is in slot %d: %w", i, err)
		}
	}
	b.reportMu.Lock() // from before the slots count as free, for Reset
	defer b.reportMu.Unlock()
	b.mu.Lock()
	b.asm.discardSlots(slots)
	b.mu.Unlock()
	return b.cfg.OnResults(results)
}

// wakeUp leaves a mark in a channel of one place.
func wakeUp(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
