package builderunit

import (
	"errors"
	"time"

	"ringlet/shmem"
)

// errClosed is the error of calls after Close.
var errClosed = errors.New("the builder unit is closed")

// BuilderStats are the counters of a Builder.
type BuilderStats struct {
	Stats
	Suspensions      uint64          `help:"times it was suspended on purpose (debug.suspend-bus)"`
	SuspendedTime    time.Duration   `count:"suspended_us" help:"time suspended on purpose"`
	SinkTime         time.Duration   `count:"sink_us" help:"time in the output; 0 where everything is thrown away"`
	FlushTime        time.Duration   `count:"flush_us" help:"time making the output safe, where outcomes wait for that"`
	UnreportedMEPs   int             `count:"unsafe" kind:"level" help:"MEPs in the output that were not reported to the scheduler yet"`
	RejectedMessages uint64          `count:"rejected" help:"sizes and placements that do not parse, come from a stranger, or too late"`
	Slots            shmem.SlotStats `count:"slots_"`
}

// Stats returns the counters so far.
func (b *Builder) Stats() BuilderStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := BuilderStats{
		Suspensions:      b.suspensions,
		SuspendedTime:    b.suspended,
		SinkTime:         b.finisher.sinkTime.Total(),
		FlushTime:        b.commit.flushTime.Total(),
		UnreportedMEPs:   b.commit.unreported,
		RejectedMessages: b.rejectedMessages,
		Slots:            b.finalSlots,
	}
	s.Stats = b.asm.Stats()
	if !b.closed {
		s.Slots = b.cfg.Slots.Stats()
	}
	return s
}

// Close ends the unit, best after the links are down; later messages are refused. It interrupts a write to the sink if
// the sink allows that. MEPs in the sink are made safe, and reported to the scheduler if its session still lives. MEPs
// without an outcome are given up and counted as incomplete, all grants are revoked, and every slot is Free again for
// another Builder. The caller finishes the sink and the slots. A second caller waits too, and gets the same error: the
// slots may be taken away only after Close.
func (b *Builder) Close() error {
	b.closing.Do(func() { b.closeErr = b.shutDown() })
	return b.closeErr
}

func (b *Builder) shutDown() error {
	b.mu.Lock()
	b.closed = true
	b.finalSlots = b.cfg.Slots.Stats()
	b.cancel()
	b.mu.Unlock()
	b.wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revokeAll()
	for _, i := range b.asm.AppendUnfinished(nil) {
		b.asm.abandonSlot(i)
	}
	err := errors.Join(b.reclaimSlots(b.cfg.Slots.Len()), b.cfg.Table.Withdraw(b.segment))
	b.finalSlots = b.cfg.Slots.Stats()
	return err
}

// revokeAll ends every grant.
func (b *Builder) revokeAll() {
	for _, ref := range b.asm.appendAllRefs(nil) {
		_ = b.cfg.Table.Revoke(ref) // the error: the window was revoked before, when its MEP was complete or its peer died
	}
}

// reclaimSlots makes the first n slots Free, whatever their states.
func (b *Builder) reclaimSlots(n int) error {
	var errs []error
	for i := range n {
		errs = append(errs, b.cfg.Slots.ForceFree(i))
	}
	return errors.Join(errs...)
}
