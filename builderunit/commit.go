package builderunit

import "ringlet/internal/stopwatch"

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
