package readoutunit

import (
	"context"
	"fmt"
	"time"

	"ringlet/barrier"
	"ringlet/internal/netyield"
	"ringlet/readoutunit/source"
)

// runConductor takes action after action as the order says.
func (u *Unit) runConductor() error {
	var phase phase
	for {
		action, n, err := u.awaitAction()
		switch {
		case err != nil:
			return err
		case action == WaitToken:
			return u.leavePhases()
		}
		if err := u.enterPhase(&phase); err != nil {
			return err
		}
		if action == Send {
			err = u.sendBurst(&phase, n)
		} else {
			err = u.advancePhase(&phase)
		}
		if err != nil {
			return err
		}
	}
}

// phase is what the conductor knows of the phase it is in.
type phase struct {
	begun time.Time // zero: it has not begun
	parts int       // that were sent in it
}

// waitFor blocks, under mu, until ok reports true or the unit is closed.
func (u *Unit) waitFor(ok func() bool) error {
	for !ok() {
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		u.changed.Wait()
	}
	return nil
}

// awaitAction waits for something to do. WaitToken says that there will be nothing any more.
func (u *Unit) awaitAction() (action Action, n uint64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var start time.Time // of a wait for a grant
	waiting := false    // for tokens
	err = u.waitFor(func() bool {
		action, n = u.order.NextAction()
		if action == WaitGrant && start.IsZero() {
			start = time.Now()
		}
		if now := action == WaitToken && !u.cyclesEnded; now != waiting {
			waiting = now
			u.tokenWait.SetRunning(now)
		}
		return action == Send && u.bursts.canOpen(int(u.order.TransferAt(n).BU)) || action == AdvancePhase ||
			action == WaitToken && u.cyclesEnded
	})
	if !start.IsZero() {
		u.grantWait += time.Since(start)
	}
	if waiting {
		u.tokenWait.Stop()
	}
	if u.firstPhaseAt.IsZero() {
		u.firstPhaseAt = time.Now()
	}
	return action, n, err
}

// sendBurst writes this unit's parts for the transfer at a place and for those that may go along, if that is the action
// still: its builder unit may have been excluded since the conductor looked.
func (u *Unit) sendBurst(p *phase, n uint64) error {
	if p.parts > 0 { // not behind a burst: the others may wait at the barrier for this unit
		netyield.Yield()
	}
	b, err := u.fillBurst(n)
	if b == nil || err != nil {
		return err
	}
	p.parts += len(b.Places)
	return u.writeBurst(b)
}

// fillBurst makes the burst that is to be written now; nil says that there is none any more.
func (u *Unit) fillBurst(n uint64) (*burst, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if action, now := u.order.NextAction(); action != Send || now != n {
		return nil, nil
	}
	bu := int(u.order.TransferAt(n).BU)
	retained, b, preGranted := u.cfg.Retention.heldSpan(), u.bursts.open(bu), u.order.UsesPreGrants()
	b.Places = u.order.Serve(n, maxBurst, b.Places)
	for _, n := range b.Places {
		t := u.order.TransferAt(n)
		part, err := u.cfg.Retention.lookUp(retained, t.MEP)
		if err != nil {
			return nil, err
		}
		if !preGranted { // the sizes went ahead
			if part = part[u.entriesSize():]; len(part) != int(t.GrantedBytes) {
				return nil, fmt.Errorf("builder unit %d granted %d bytes for MEP %d, and its MFPs here have %d",
					bu, t.GrantedBytes, t.MEP, len(part))
			}
		}
		b.add(t, part)
	}
	u.bursts.markSent(b)
	u.updateLinkFull(bu)
	u.lastPhaseAt = time.Now()
	u.timeline.recordBegin(u.phasesPassed.Load(), bu, u.order.TransferAt(b.Places[0]).MEP, len(b.Places))
	return b, nil
}

// updateLinkFull tells the order whether the link to a builder unit takes more. mu is held.
func (u *Unit) updateLinkFull(bu int) {
	full := !u.bursts.canOpen(bu)
	if full {
		u.timesLinkFull++
	}
	u.order.SetLinkFull(bu, full)
}

// writeBurst gives a burst to the network. No lock is held meanwhile: a carrier may tell the outcome before it returns,
// so what the burst has is looked at before.
func (u *Unit) writeBurst(b *burst) error {
	bu, pieces := b.BU, b.Pieces
	if err := u.cfg.Network.WriteMany(u.cfg.BURanks[bu], pieces, uint64(b.id)); err != nil {
		return u.tolerateLoss(bu, fmt.Errorf("writing %d parts to builder unit %d: %w", len(pieces), bu, err))
	}
	return nil
}

// enterPhase begins a phase; where phases end with time, when its time comes.
func (u *Unit) enterPhase(p *phase) error {
	if !p.begun.IsZero() {
		return nil
	}
	if u.cfg.PhaseTime > 0 {
		current, total := u.cfg.Order.(*Shift).progress()
		timer := time.NewTimer(untilPhase(time.Duration(time.Now().UnixNano()), u.cfg.PhaseTime, current, total))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-u.ctx.Done():
			return context.Cause(u.ctx)
		}
	}
	p.begun = time.Now()
	return nil
}

// advancePhase ends a phase, when the others do.
func (u *Unit) advancePhase(p *phase) error {
	if p.parts == 0 {
		u.dummyPhases.Add(1)
		u.recordDummy()
	}
	cycles := u.offeredCycles(p)
	switch {
	case u.cfg.PhaseTime > 0:
		if time.Since(p.begun) > u.cfg.PhaseTime {
			u.phaseOverruns.Add(1)
		}
	case !u.cfg.UnheldPhases:
		var err error
		if cycles, err = u.passBarrier(cycles); err != nil {
			return err
		}
	}
	*p = phase{}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order.AdvancePhase(cycles)
	u.timeline.recordReleased(u.phasesPassed.Load())
	u.lastPhaseAt = time.Now()
	u.changed.Broadcast()
	u.phasesPassed.Add(1)
	return nil
}

// offeredCycles is how many cycles the next round should have, as far as this unit knows at the end of a phase. Where a
// barrier holds the phases, that is no more than make one worth it.
func (u *Unit) offeredCycles(p *phase) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.order.CyclesAhead()
	if u.cfg.UnheldPhases || u.cfg.PhaseTime > 0 {
		return n
	}
	u.pacer.record(u.order.RoundStart(), p.parts, time.Since(p.begun))
	return u.pacer.boundCycles(n)
}

// passBarrier enters the barrier, and counts the time in it and who held it. It returns how many cycles the next round
// has: the least that any readout unit offers.
func (u *Unit) passBarrier(cycles int) (int, error) {
	if err := u.retryBarrier(func() error { return u.cfg.Barrier.BeginRound(u.ctx, u.roundStart()) }); err != nil {
		return 0, err
	}
	u.cfg.Barrier.SetOffer(uint32(cycles))
	waited, err := u.enterBarrier()
	if err != nil {
		return 0, err
	}
	held := u.cfg.Barrier.LastStraggler()
	if held.Rank != barrier.Nobody {
		cycles = int(held.MinOffer)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.barrierStats.recordWait(waited); err != nil {
		return 0, err
	}
	return cycles, u.barrierStats.recordHolder(held)
}

// leavePhases leaves the phases that others are still in, now that there will be no other one.
func (u *Unit) leavePhases() error {
	var held []barrier.Straggler
	if !u.cfg.UnheldPhases && u.cfg.PhaseTime == 0 {
		var err error
		if held, err = u.finishBarrier(); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, h := range held {
		if err := u.barrierStats.recordHolder(h); err != nil {
			return err
		}
	}
	u.conductorDone = true
	u.changed.Broadcast()
	return nil
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
	for !u.conductorDone || u.hasWork() {
		if ctx.Err() != nil {
			return fmt.Errorf("%d writes of the readout unit have no outcome: %w",
				u.order.OpenTransfers()+u.order.OrphanedWrites(),
				context.Cause(ctx))
		}
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		u.changed.Wait()
	}
	return nil
}

// hasWork reports whether there is a cycle to serve, or a write without an outcome. mu is held.
func (u *Unit) hasWork() bool {
	action, _ := u.order.NextAction()
	return action != WaitToken || u.order.OpenTransfers() > 0 || u.order.OrphanedWrites() > 0
}

// recordDummy notes a phase in which nothing was sent.
func (u *Unit) recordDummy() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.timeline.recordBegin(u.phasesPassed.Load(), Dummy, 0, 0)
}

// Timeline returns the last steps, oldest first.
func (u *Unit) Timeline() []TimelineStep {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.timeline.steps()
}

// Stats of a Unit.
type Stats struct {
	Source            source.Stats `count:""`
	MFPsRead          uint64       `count:"mfps_read" help:"MFPs taken from the source"`
	TokensReceived    uint64       `count:"tokens" help:"tokens that came"`
	PartsWritten      uint64       `count:"writes" help:"parts of MEPs that builder units have in place"`
	BytesWritten      uint64       `unit:"bytes" help:"bytes of writes confirmed by builder units"`
	UnrequestedTokens uint64       `count:"unasked" help:"tokens whose part nobody asked for (--roi)"`
	RefusedGrants     uint64       `count:"refused" help:"grants that made no sense"`
	BadRecords        uint64       `count:"bad_input" kind:"level" help:"1: the input ended with a bad record"`
	Broken            int          `count:"sources_broken" kind:"level" help:"live sources that cannot go on"`
	InputFailed       uint64       `count:"let_down" kind:"level" help:"1: the input ended since a live source cannot go on, or lacks what the run needs"`
	PhasesPassed      uint64       `count:"phases" help:"phases gone through"`
	DummyPhases       uint64       `count:"dummies" help:"phases with nothing to write"`
	PhaseOverruns     uint64       `count:"overruns" help:"phases that took longer than phase-end allows"`
	BypassedTags      uint64       `count:"bypassed" help:"tags passed on unserved since the unit was busy; they come round again"`
	RetainedBlocks    int          `count:"retained" kind:"level" help:"blocks held now"`
	RetainedBytesHigh int          `count:"retained_bytes_high" unit:"bytes" kind:"max" help:"bytes of the most retention buffers that were ever in use"`
	OpenTransfers     int          `count:"open" kind:"level" help:"transfers without an outcome; 0 after a run"`
	OrphanedWrites    int          `count:"left_writes" help:"writes under way to builder units that are excluded"`
	BuildersLost      int          `help:"builder units to which the link is down"`
	TimesLinkFull     uint64       `count:"links_full" help:"times that so much was under way to a builder unit that it took no more"`
	RelocatedWrites   uint64       `count:"writes_moved" help:"writes under way whose bytes were copied, since their builder unit held them up"`
	WithdrawalStats
	RejectionStats
	Live           map[string]source.LiveStats `count:"input_"` // by source id
	BytesByBU      []uint64                    // BytesWritten by builder unit
	GrantWait      time.Duration               `count:"grant_us" help:"time waiting for grants"`
	TokenWait      time.Duration               `count:"token_us" help:"time with nothing to serve, waiting for tokens"`
	SourceTime     time.Duration               `count:"source_us" help:"time the reader was in its source"`
	BufferWait     time.Duration               `count:"room_us" help:"time the reader waited until something it holds was released"`
	ConductingTime time.Duration               `count:"conducting_us" help:"time from the first phase to the last"`
	BarrierStats                               // a copy
}

// Stats returns the counters so far.
func (u *Unit) Stats() Stats {
	blocks, high := u.cfg.Retention.usage()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := Stats{
		Source:            u.cfg.Source.Stats(),
		MFPsRead:          u.mfpsRead.Load(),
		TokensReceived:    u.tokensReceived.Load(),
		PartsWritten:      u.partsWritten.Load(),
		BytesWritten:      u.bytesWritten.Load(),
		RefusedGrants:     u.refusedGrants.Load(),
		PhasesPassed:      u.phasesPassed.Load(),
		DummyPhases:       u.dummyPhases.Load(),
		PhaseOverruns:     u.phaseOverruns.Load(),
		RetainedBlocks:    blocks,
		RetainedBytesHigh: high,
		OpenTransfers:     u.order.OpenTransfers(),
		GrantWait:         u.grantWait,
		TimesLinkFull:     u.timesLinkFull,
		RelocatedWrites:   u.relocatedWrites,
		BarrierStats:      u.barrierStats.clone(),
		TokenWait:         u.tokenWait.Total(),
		SourceTime:        u.sourceTime.Total(),
		BufferWait:        u.bufferWait.Total(),
		BytesByBU:         make([]uint64, len(u.bytesByBU)),
	}
	for bu := range u.bytesByBU {
		s.BytesByBU[bu] = u.bytesByBU[bu].Load()
	}
	s.UnrequestedTokens, s.OrphanedWrites = u.order.UnrequestedTransfers(), u.order.OrphanedWrites()
	s.WithdrawalStats = u.order.WithdrawalStats()
	s.WithdrawnTokens, s.FailedWrites = s.WithdrawnTokens+u.failedOrphanWrites.Load(),
		s.FailedWrites+u.failedOrphanWrites.Load()
	s.RejectionStats = u.rejections.Stats()
	s.RejectionStats.FreedMFPs = s.RejectionStats.FreedMEPs * uint64(u.cfg.Streams)
	for bu := range u.cfg.BURanks {
		if u.order.IsLost(bu) {
			s.BuildersLost++
		}
	}
	if u.badRecord.Load() != nil {
		s.BadRecords = 1
	}
	if u.tagOrder != nil {
		s.BypassedTags = u.tagOrder.BypassedTags()
	}
	s.Live = u.liveStats()
	for _, in := range s.Live {
		if in.Failed {
			s.Broken++
		}
	}
	if u.inputFailure.Load() != nil {
		s.InputFailed = 1
	}
	if !u.lastPhaseAt.IsZero() {
		s.ConductingTime = u.lastPhaseAt.Sub(u.firstPhaseAt)
	}
	return s
}
