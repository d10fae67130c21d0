package builderunit

import "sync"

// Pipeline of outcomes where the output must be safe before it is reported to the scheduler (Config.Durable):
//
//	1 enqueue  (sequential: finisher)   what the sink has taken joins the queue
//	2 flush    (sequential: committer)  all that is in the queue is made safe by one Sink.Flush
//	3 report   (sequential: committer)  to the scheduler, so readout units release it
//
// While the committer flushes, the finisher goes on; what it finishes meanwhile shares the next flush. So a flush costs
// the same for one MEP as for many, and batches grow by themselves where the disk is slow.

// committer is what a Builder has where outcomes wait for a flush. The zero value is ready, but for wake.
type committer struct {
	wake chan struct{} // of one place: the queue is not empty

	mu                sync.Mutex  // guards what follows; never held while something blocks
	unsafeResults     []MEPResult // with the sink, and not safe yet as far as is known
	spare             []MEPResult // taken in turns with queue
	unreportedResults int         // MEPs in queue and in the batch that is flushed or reported
}

// enqueue takes results whose MEPs the sink has taken. The slice stays the caller's.
func (c *committer) enqueue(results []MEPResult) {
	c.mu.Lock()
	c.unsafeResults = append(c.unsafeResults, results...)
	c.unreportedResults += len(results)
	c.mu.Unlock()
	wakeUp(c.wake)
}

// nextBatch gives the committer what is to be made safe. It owns the slice until the next call.
func (c *committer) nextBatch() []MEPResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.unsafeResults
	c.unsafeResults, c.spare = c.spare[:0], batch
	return batch
}

// markReported says that the scheduler knows of n more, or never will.
func (c *committer) markReported(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unreportedResults -= n
}

// countUnreported is how many results have not been reported to the scheduler.
func (c *committer) countUnreported() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unreportedResults
}

// reportWhenSafe reports to the scheduler what became of MEPs that the sink has taken: now, or when they are safe.
func (b *Builder) reportWhenSafe(results []MEPResult) error {
	if b.commit.wake == nil {
		return b.reportResults(results)
	}
	b.commit.enqueue(results)
	return nil
}

// runCommitter makes outcomes safe and reports them until the unit is closed, and then once more: what the sink has
// taken is kept whatever ends the unit.
func (b *Builder) runCommitter() {
	for open := true; open; {
		select {
		case <-b.finisherDone:
			open = false
		case <-b.commit.wake:
		}
		if err := b.commitOnce(); err != nil {
			b.fail(err)
			return
		}
	}
}

// commitOnce makes what is in the queue safe and reports it. What could not be made safe is not reported: it is given
// to another builder unit, or abandoned with the run.
func (b *Builder) commitOnce() error {
	batch := b.commit.nextBatch()
	if len(batch) == 0 {
		return nil
	}
	b.flushTime.Start()
	err := b.cfg.Sink.Flush()
	b.flushTime.Stop()
	if err != nil {
		return err
	}
	b.reportMu.Lock() // from before they count as reported, for Reset
	defer b.reportMu.Unlock()
	defer b.commit.markReported(len(batch))
	return b.reportResultsLocked(batch)
}
