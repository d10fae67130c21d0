package builderunit

import (
	"errors"
	"time"

	"ringlet/shmem"
)

// errClosed is returned for an announcement that comes after Close.
var errClosed = errors.New("the builder unit is closed")

// BuilderStats are the counters of a Builder.
type BuilderStats struct {
	Stats
	Suspensions      uint64          `help:"times it was suspended on purpose (debug.suspend-bus)"`
	SuspendedTime    time.Duration   `count:"suspended_us" help:"time suspended on purpose"`
	SinkTime         time.Duration   `count:"sink_us" help:"time in the output; 0 where everything is thrown away"`
	FlushTime        time.Duration   `count:"flush_us" help:"time making the output safe, where outcomes wait for that"`
	UnreportedMEPs   int             `count:"unsafe" kind:"level" help:"MEPs in the output that the scheduler has not been told of"`
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

// Close ends the unit, best after the links are down; what comes later is refused. A write to the sink under way is
// interrupted if the sink lets it. What the sink has taken is made safe, and reported to the scheduler if it still
// listens. MEPs without an outcome are given up and counted as incomplete, all grants are revoked, and every slot is
// Free again: another Builder may be made of them. The sink and the slots stay the caller's to finish. Whoever calls it
// while it is under way waits too, and has the same error: the slots may be taken away after it, and not before.
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
		_ = b.cfg.Table.Revoke(ref) // one that is revoked already was on its way to the sink, or its dead peer's
	}
}

// reclaimSlots makes the first n slots Free, whoever owns them.
func (b *Builder) reclaimSlots(n int) error {
	var errs []error
	for i := range n {
		errs = append(errs, b.cfg.Slots.ForceFree(i))
	}
	return errors.Join(errs...)
}
