package builderunit

import (
	"errors"
	"fmt"

	"ringlet/internal/stopwatch"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// Pipeline of outcomes where the output must be safe before it is reported to the scheduler (Config.Durable):
//
//	1 enqueue  (sequential: finisher)   what the sink has taken joins the queue
//	2 flush    (sequential: committer)  all that is in the queue is made safe by one Sink.Flush
//	3 report   (sequential: committer)  to the scheduler, so readout units release it
//
// While the committer flushes, the finisher goes on; what it finishes meanwhile shares the next flush. So a flush costs
// the same for one MEP as for many, and batches grow by themselves where the disk is slow.

// committer makes outcomes safe, where they wait for a flush: one goroutine.
type committer struct {
	*Builder

	wake      chan struct{}       // of one place: the queue is not empty; nil: outcomes do not wait
	flushTime stopwatch.Stopwatch // in Sink.Flush

	// guarded by mu of the Builder
	queue      []MEPResult // with the sink, and not safe yet as far as is known
	spare      []MEPResult // taken in turns with queue
	unreported int         // MEPs in queue and in the batch that is flushed or reported
}

// reportWhenSafe reports to the scheduler what became of MEPs that the sink has taken: now, or when they are safe. The
// slice stays the caller's.
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

// run makes outcomes safe and reports them until the unit is closed, and then once more: what the sink has
// taken is kept whatever ends the unit.
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

// commitOnce makes what is in the queue safe and reports it. What could not be made safe is not reported: it is given
// to another builder unit, or abandoned with the run.
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
	c.reportMu.Lock() // from before they count as reported, for Reset
	defer c.reportMu.Unlock()
	err = c.reportResultsLocked(batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreported -= len(batch) // the scheduler knows of them, or never will
	return err
}

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

// giveUpLocked has a MEP given up with an outcome, and what else its result says. Its caller holds mu.
func (b *Builder) giveUpLocked(slot int, outcome core.Outcome, r MEPResult) {
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
			if batch[i].Outcome == core.Discarded { // of a region they are revoked
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
	if b.asm.isPreGranted {
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
		if slot := int(batch[i].Slot); batch[i].Outcome == core.Rejected {
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
