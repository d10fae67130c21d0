package builderunit

import (
	"errors"
	"fmt"

	"ringlet/internal/stopwatch"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// Pipeline of outcomes where the output must be safe before the scheduler learns of a MEP (Config.Durable):
//
//	1 enqueue  (sequential: finisher)   queues the result of each MEP that the sink has
//	2 flush    (sequential: committer)  makes all MEPs in the queue safe by one Sink.Flush
//	3 report   (sequential: committer)  reports them to the scheduler, so that readout units free their parts
//
// While the committer flushes, the finisher goes on, and the MEPs that it finishes meanwhile share the next flush. A
// flush costs the same for one MEP as for many, so batches grow by themselves where the disk is slow.

// committer makes MEPs safe before they are reported: one goroutine.
type committer struct {
	*Builder

	wake      chan struct{}       // capacity 1: the queue is not empty; nil: results are reported without a flush
	flushTime stopwatch.Stopwatch // in Sink.Flush

	// guarded by mu of the Builder
	queue      []MEPResult // results of MEPs in the sink that may not be safe yet
	spare      []MEPResult // used in turns with queue
	unreported int         // MEPs in queue, and in the batch that is being flushed or reported
}

// reportWhenSafe reports the results of MEPs that the sink has to the scheduler: now, or once they are safe. The caller
// keeps the slice.
func (b *Builder) reportWhenSafe(results []MEPResult) error {
	c := &b.commit
	if c.wake == nil {
		b.reportMu.Lock()
		defer b.reportMu.Unlock()
		return b.reportResultsLocked(results)
	}
	b.mu.Lock()
	c.queue = append(c.queue, results...)
	c.unreported += len(results)
	b.mu.Unlock()
	wakeUp(c.wake)
	return nil
}

// run makes MEPs safe and reports them until the unit is closed, and then once more: whatever ends the unit, MEPs in
// the sink are kept.
func (c *committer) run() {
	for open := true; open; {
		select {
		case <-c.finisherDone:
			open = false
		case <-c.wake:
		}
		if err := c.commitOnce(); err != nil {
			c.fail(err)
			return
		}
	}
}

// commitOnce makes the MEPs in the queue safe and reports them. MEPs that could not be made safe are not reported:
// another builder unit gets them, or they are abandoned with the run.
func (c *committer) commitOnce() error {
	c.mu.Lock()
	batch := c.queue
	c.queue, c.spare = c.spare[:0], batch
	c.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	c.flushTime.Start()
	err := c.cfg.Sink.Flush()
	c.flushTime.Stop()
	if err != nil {
		return err
	}
	c.reportMu.Lock() // taken before unreported is lowered, for Reset
	defer c.reportMu.Unlock()
	err = c.reportResultsLocked(batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreported -= len(batch) // the scheduler has learned of these MEPs, or never will
	return err
}

// Pipeline of a MEP that is given up, since the sink has no time for it (LHCb-EB §IV.B) or its region was rejected:
//
//	1 giveUpLocked (parallel: receivers, deciders)  the MEP is complete, but MaxWaitingMEPs MEPs wait already;
//	                                                or its region is rejected. Under mu
//	2 runReturner  (sequential: returner)           revokes the grants, frees the slot, reports to the scheduler
//
// The returner never touches the sink, so a sink that is stuck holds up MaxWaitingMEPs MEPs and no more.

// shedLocked lets the MEPs of the batch from the given index on wait for the finisher, up to MaxWaitingMEPs, and gives
// up the others. mu is held.
func (b *Builder) shedLocked(from int) {
	keep := from
	for _, l := range b.completedSlots[from:] {
		if limit := b.cfg.MaxWaitingMEPs; l.Progress == CompletedMEP {
			if limit > 0 && b.waitingMEPs >= limit {
				b.giveUpLocked(int(l.Slot), core.Discarded, MEPResult{CompletedAt: b.completedAt})
				continue
			}
			b.waitingMEPs++
		}
		b.completedSlots[keep] = l
		keep++
	}
	b.completedSlots = b.completedSlots[:keep]
}

// giveUpLocked queues a MEP for the returner, with an outcome and the rest of its result. mu is held.
func (b *Builder) giveUpLocked(slot int, outcome core.Outcome, r MEPResult) {
	mep := b.asm.SlotMEP(slot)
	r.Slot, r.MEP, r.Attempt, r.Outcome = uint32(slot), mep.MEP, uint8(mep.Attempt), outcome
	b.returns = append(b.returns, r)
	wakeUp(b.wakeReturner)
}

// runReturner gives up queued MEPs, all that there are at a time.
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
			if batch[i].Outcome == core.Discarded { // those of a region are revoked already
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

// returnSlots revokes windows, frees slots and reports their MEPs to the scheduler.
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
	if b.asm.isPreGranted {
		back = b.cfg.Slots.Withdraw
	}
	for i := range batch {
		slot := int(batch[i].Slot)
		if err := errors.Join(back(slot), b.cfg.Slots.Offer(slot)); err != nil {
			return fmt.Errorf("discarding the MEP in slot %d: %w", slot, err)
		}
	}
	b.reportMu.Lock() // taken before the slots count as free, for Reset
	defer b.reportMu.Unlock()
	b.mu.Lock()
	for i := range batch {
		if slot := int(batch[i].Slot); batch[i].Outcome == core.Rejected {
			b.asm.Reject(slot)
		} else {
			b.asm.discardSlot(slot)
		}
	}
	b.mu.Unlock()
	return b.reportResultsLocked(batch)
}

// wakeUp puts a mark into a channel of capacity one, unless it has one.
func wakeUp(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
