package readoutunit

import (
	"context"
	"fmt"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/readoutunit/source"
	"ringlet/transport/link"
)

// conduct goes through the phases of cycle after cycle.
func (u *Unit) conduct() error {
	for {
		more, err := u.awaitCycle()
		if err != nil || !more {
			return err
		}
		if err := u.send(); err != nil {
			return err
		}
		if !u.cfg.Free {
			if err := u.hold(); err != nil {
				return err
			}
		}
		u.mu.Lock()
		u.schedule.Advance()
		u.over = time.Now()
		u.changed.Broadcast()
		u.mu.Unlock()
		u.phases.Add(1)
	}
}

// wait blocks, under mu, until ok reports true or the unit is closed.
func (u *Unit) wait(ok func() bool) error {
	for !ok() {
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		u.changed.Wait()
	}
	return nil
}

// awaitCycle waits for a phase to begin. It reports false when there will be none.
func (u *Unit) awaitCycle() (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.wait(func() bool { return u.schedule.Ready() || u.ended })
	if u.began.IsZero() {
		u.began = time.Now()
	}
	return err == nil && u.schedule.Ready(), err
}

// send writes this phase's MFPs into the slot at this phase's place and, unless phases are free, waits until they are there.
func (u *Unit) send() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, ok := u.schedule.Current()
	if !ok {
		u.dummies.Add(1)
		return nil
	}
	start := time.Now()
	if err := u.wait(func() bool { return u.schedule.At(n).Stage == Granted }); err != nil {
		return err
	}
	u.grants += time.Since(start)
	t := u.schedule.At(n)
	data, err := u.cfg.Retention.Lend(t.MEP)
	if err != nil {
		return err
	}
	if len(data) != int(t.Size) {
		u.cfg.Retention.Return(t.MEP)
		return fmt.Errorf("builder unit %d granted %d bytes for MEP %d, whose MFPs have %d", t.BU, t.Size, t.MEP, len(data))
	}
	t.Stage = Sent
	w := link.Write{Ref: t.Ref, Data: data, Imm: uint64(t.Slot), Cookie: n}
	mep, bu := t.MEP, t.BU // the transfer moves when the schedule is compacted
	u.mu.Unlock()
	err = u.cfg.Network.Write(u.cfg.BURanks[bu], w)
	u.mu.Lock()
	if err != nil {
		return fmt.Errorf("writing MEP %d to builder unit %d: %w", mep, bu, err)
	}
	if u.cfg.Free {
		return nil
	}
	// The fence: each phase has one write, so its outcome is all there is to wait for.
	return u.wait(func() bool { return u.schedule.At(n).Stage == Done })
}

// hold enters the barrier and counts the time in it.
func (u *Unit) hold() error {
	_, waited, err := u.cfg.Barrier.Enter(u.ctx)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inside += waited
	return u.barriers.RecordValue(min(maxMicros, max(1, waited.Microseconds())))
}

// Drain waits until every token that came has been served and its write has its outcome, or until ctx ends.
func (u *Unit) Drain(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.changed.Broadcast()
	})
	defer stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	for !u.ended || u.atWork() {
		if ctx.Err() != nil {
			return fmt.Errorf("%d writes of the readout unit have no outcome: %w", u.transfers(), context.Cause(ctx))
		}
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		u.changed.Wait()
	}
	return nil
}

// atWork reports whether there is a cycle to serve, or a write without an outcome. mu is held.
func (u *Unit) atWork() bool {
	if u.quota != nil {
		return u.quota.core.Busy()
	}
	return u.schedule.Ready() || u.schedule.Open() > 0
}

// transfers is the number of tokens that came and have no outcome. mu is held.
func (u *Unit) transfers() int {
	if u.quota != nil {
		return u.quota.core.Transfers()
	}
	return u.schedule.Open()
}

// held is how many blocks are kept, and the most bytes that ever were.
func (u *Unit) held() (blocks, high int) {
	if u.quota != nil {
		return u.cfg.Rooms.Held()
	}
	blocks, _, high = u.cfg.Retention.Held()
	return blocks, high
}

// Stats of a Unit.
type Stats struct {
	Source       source.Stats
	MFPsRead     uint64
	Tokens       uint64 // tokens that came
	Writes       uint64 // writes that were placed
	BytesWritten uint64
	Refused      uint64 // grants that made no sense
	BadRecords   uint64 // records that ended the input: none or one
	Phases       uint64
	Dummies      uint64 // phases without a token at this unit's place
	Retained     int    // blocks held
	RetainedHigh int    // most bytes held
	Open         int    // transfers without an outcome
	InBarrier    time.Duration
	ForGrants    time.Duration
	Conducting   time.Duration  // from the first phase to the last
	Barriers     *hdr.Histogram // time in the barrier per epoch, µs; a copy
}

// Stats returns the counters so far.
func (u *Unit) Stats() Stats {
	blocks, high := u.held()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := Stats{
		Source: u.cfg.Source.Stats(), MFPsRead: u.mfps.Load(), Tokens: u.tokens.Load(), Writes: u.written.Load(),
		BytesWritten: u.bytesWritten.Load(), Refused: u.refused.Load(), Phases: u.phases.Load(), Dummies: u.dummies.Load(),
		Retained: blocks, RetainedHigh: high, Open: u.transfers(), InBarrier: u.inside, ForGrants: u.grants,
		Barriers: hdr.Import(u.barriers.Export()),
	}
	if u.badSource.Load() != nil {
		s.BadRecords = 1
	}
	if !u.over.IsZero() {
		s.Conducting = u.over.Sub(u.began)
	}
	return s
}
