package builderunit

import "sync"

// Pipeline of outcomes where the output must be safe before the scheduler hears of it (Config.Lasting):
//
//	1 hold     (sequential: finisher)   what the sink has taken joins the queue
//	2 flush    (sequential: committer)  all that is in the queue is made safe by one Sink.Flush
//	3 tell     (sequential: committer)  the scheduler is told, so readout units let go
//
// While the committer flushes, the finisher goes on; what it finishes meanwhile shares the next flush. So a flush costs
// the same for one MEP as for many, and batches grow by themselves where the disk is slow.

// committer is what a Builder has where outcomes wait for a flush. The zero value is ready, but for wake.
type committer struct {
	wake chan struct{} // of one place: the queue is not empty

	mu      sync.Mutex // guards what follows; never held while something blocks
	queue   []Result   // with the sink, and not safe yet as far as is known
	spare   []Result   // taken in turns with queue
	pending int        // MEPs in queue and in the batch that is flushed or told
}

// hold takes results whose MEPs the sink has taken. The slice stays the caller's.
func (c *committer) hold(results []Result) {
	c.mu.Lock()
	c.queue = append(c.queue, results...)
	c.pending += len(results)
	c.mu.Unlock()
	poke(c.wake)
}

// take gives the committer what is to be made safe. It owns the slice until the next call.
func (c *committer) take() []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.queue
	c.queue, c.spare = c.spare[:0], batch
	return batch
}

// told says that the scheduler knows of n more, or never will.
func (c *committer) told(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending -= n
}

// untold is how many results the scheduler has not been told of.
func (c *committer) untold() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending
}

// outcome tells the scheduler what became of MEPs that the sink has taken: now, or when they are safe.
func (b *Builder) outcome(results []Result) error {
	if b.commit.wake == nil {
		return b.tell(results)
	}
	b.commit.hold(results)
	return nil
}

// committing makes outcomes safe and tells of them until the unit is closed, and then once more: what the sink has
// taken is kept whatever ends the unit.
func (b *Builder) committing() {
	for open := true; open; {
		select {
		case <-b.finished:
			open = false
		case <-b.commit.wake:
		}
		if err := b.commitOnce(); err != nil {
			b.fail(err)
			return
		}
	}
}

// commitOnce makes what is in the queue safe and tells of it. What could not be made safe is not told of: it is given
// to another builder unit, or abandoned with the run.
func (b *Builder) commitOnce() error {
	batch := b.commit.take()
	if len(batch) == 0 {
		return nil
	}
	b.flushing.Start()
	err := b.cfg.Sink.Flush()
	b.flushing.Stop()
	if err != nil {
		return err
	}
	b.telling.Lock() // from before they count as told, for Reset
	defer b.telling.Unlock()
	defer b.commit.told(len(batch))
	return b.report(batch)
}
