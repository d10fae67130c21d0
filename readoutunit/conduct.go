package readoutunit

import (
	"context"
	"fmt"
	"time"

	"ringlet/barrier"
	"ringlet/internal/netyield"
	"ringlet/readoutunit/source"
)

// conduct takes turn after turn as the order says.
func (u *Unit) conduct() error {
	var phase phase
	for {
		turn, n, err := u.await()
		switch {
		case err != nil:
			return err
		case turn == ForToken:
			return u.part()
		}
		if err := u.enter(&phase); err != nil {
			return err
		}
		if turn == Send {
			err = u.send(&phase, n)
		} else {
			err = u.pass(&phase)
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

// await waits for something to do. ForToken says that there will be nothing any more.
func (u *Unit) await() (turn Turn, n uint64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var start time.Time // of a wait for a grant
	waiting := false    // for tokens
	err = u.wait(func() bool {
		turn, n = u.order.Turn()
		if turn == ForGrant && start.IsZero() {
			start = time.Now()
		}
		if now := turn == ForToken && !u.ended; now != waiting {
			waiting = now
			u.forTokens.Set(now)
		}
		return turn == Send && u.bursts.room(int(u.order.At(n).BU)) || turn == Pass || turn == ForToken && u.ended
	})
	if !start.IsZero() {
		u.grants += time.Since(start)
	}
	if waiting {
		u.forTokens.Stop()
	}
	if u.began.IsZero() {
		u.began = time.Now()
	}
	return turn, n, err
}

// send writes this unit's parts for the transfer at a place and for those that may go along, if that is the turn still:
// its builder unit may have been excluded since the conductor looked.
func (u *Unit) send(p *phase, n uint64) error {
	if p.parts > 0 { // not behind a burst: the others may wait at the barrier for this unit
		netyield.Yield()
	}
	b, err := u.fill(n)
	if b == nil || err != nil {
		return err
	}
	p.parts += len(b.Places)
	return u.write(b)
}

// fill makes the burst that is to be written now; nil says that there is none any more.
func (u *Unit) fill(n uint64) (*burst, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if turn, now := u.order.Turn(); turn != Send || now != n {
		return nil, nil
	}
	bu := int(u.order.At(n).BU)
	held, b, stands := u.cfg.Retention.span(), u.bursts.open(bu), u.order.Stands()
	b.Places = u.order.Serve(n, maxBurst, b.Places)
	for _, n := range b.Places {
		t := u.order.At(n)
		part, err := u.cfg.Retention.lookUp(held, t.MEP)
		if err != nil {
			return nil, err
		}
		if !stands { // the sizes went ahead
			if part = part[u.lead():]; len(part) != int(t.Size) {
				return nil, fmt.Errorf("builder unit %d granted %d bytes for MEP %d, and its MFPs here have %d",
					bu, t.Size, t.MEP, len(part))
			}
		}
		b.add(t, part)
	}
	u.bursts.send(b)
	u.heed(bu)
	u.over = time.Now()
	u.timeline.begin(u.phases.Load(), bu, u.order.At(b.Places[0]).MEP, len(b.Places))
	return b, nil
}

// heed tells the order whether the link to a builder unit takes more. mu is held.
func (u *Unit) heed(bu int) {
	full := !u.bursts.room(bu)
	if full {
		u.full++
	}
	u.order.Full(bu, full)
}

// write gives a burst to the network. No lock is held meanwhile: a carrier may tell the outcome before it returns, so
// what the burst has is looked at before.
func (u *Unit) write(b *burst) error {
	bu, pieces := b.BU, b.Pieces
	if err := u.cfg.Network.WriteMany(u.cfg.BURanks[bu], pieces, uint64(b.id)); err != nil {
		return u.bear(bu, fmt.Errorf("writing %d parts to builder unit %d: %w", len(pieces), bu, err))
	}
	return nil
}

// enter begins a phase; where phases end with time, when its time comes.
func (u *Unit) enter(p *phase) error {
	if !p.begun.IsZero() {
		return nil
	}
	if u.cfg.PhaseTime > 0 {
		at, of := u.cfg.Order.(*Shift).progress()
		timer := time.NewTimer(untilPhase(time.Duration(time.Now().UnixNano()), u.cfg.PhaseTime, at, of))
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

// pass ends a phase, when the others do.
func (u *Unit) pass(p *phase) error {
	if p.parts == 0 {
		u.dummies.Add(1)
		u.idle()
	}
	cycles := u.offer(p)
	switch {
	case u.cfg.PhaseTime > 0:
		if time.Since(p.begun) > u.cfg.PhaseTime {
			u.overruns.Add(1)
		}
	case !u.cfg.Free:
		var err error
		if cycles, err = u.hold(cycles); err != nil {
			return err
		}
	}
	*p = phase{}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order.Passed(cycles)
	u.timeline.released(u.phases.Load())
	u.over = time.Now()
	u.changed.Broadcast()
	u.phases.Add(1)
	return nil
}

// offer is how many cycles the next round should have, as far as this unit knows at the end of a phase. Where a barrier
// holds the phases, that is no more than make one worth it.
func (u *Unit) offer(p *phase) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.order.Ahead()
	if u.cfg.Free || u.cfg.PhaseTime > 0 {
		return n
	}
	u.pace.wrote(u.order.Round(), p.parts, time.Since(p.begun))
	return u.pace.bound(n)
}

// hold enters the barrier, and counts the time in it and who held it. It returns how many cycles the next round has:
// the least that any readout unit offers.
func (u *Unit) hold(cycles int) (int, error) {
	if err := u.patiently(func() error { return u.cfg.Barrier.Round(u.ctx, u.round()) }); err != nil {
		return 0, err
	}
	u.cfg.Barrier.Offer(uint32(cycles))
	waited, err := u.meet()
	if err != nil {
		return 0, err
	}
	held := u.cfg.Barrier.Held()
	if held.Rank != barrier.Nobody {
		cycles = int(held.Least)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.waits.record(waited); err != nil {
		return 0, err
	}
	return cycles, u.waits.holder(held)
}

// part leaves the phases that others are still in, now that there will be no other one.
func (u *Unit) part() error {
	var held []barrier.Held
	if !u.cfg.Free && u.cfg.PhaseTime == 0 {
		var err error
		if held, err = u.finish(); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, h := range held {
		if err := u.waits.holder(h); err != nil {
			return err
		}
	}
	u.parted = true
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
	for !u.parted || u.atWork() {
		if ctx.Err() != nil {
			return fmt.Errorf("%d writes of the readout unit have no outcome: %w", u.order.Open()+u.order.LeftWrites(),
				context.Cause(ctx))
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
	turn, _ := u.order.Turn()
	return turn != ForToken || u.order.Open() > 0 || u.order.LeftWrites() > 0
}

// idle notes a phase in which nothing was sent.
func (u *Unit) idle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.timeline.begin(u.phases.Load(), Dummy, 0, 0)
}

// Timeline returns the last steps, oldest first.
func (u *Unit) Timeline() []Step {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.timeline.steps()
}

// Stats of a Unit.
type Stats struct {
	Source       source.Stats `count:""`
	MFPsRead     uint64       `count:"mfps_read" help:"MFPs taken from the source"`
	Tokens       uint64       `help:"tokens that came"`
	Writes       uint64       `help:"parts of MEPs that builder units have in place"`
	BytesWritten uint64       `unit:"bytes" help:"bytes of writes confirmed by builder units"`
	Unasked      uint64       `help:"tokens whose part nobody asked for (--roi)"`
	Refused      uint64       `help:"grants that made no sense"`
	BadRecords   uint64       `count:"bad_input" kind:"level" help:"1: the input ended with a bad record"`
	Broken       int          `count:"sources_broken" kind:"level" help:"live sources that cannot go on"`
	LetDown      uint64       `count:"let_down" kind:"level" help:"1: the input ended since a live source cannot go on, or lacks what the run needs"`
	Phases       uint64       `help:"phases gone through"`
	Dummies      uint64       `help:"phases with nothing to write"`
	Overruns     uint64       `help:"phases that took longer than phase-end allows"`
	Bypassed     uint64       `help:"tags passed on unserved since the unit was busy; they come round again"`
	Retained     int          `kind:"level" help:"blocks held now"`
	RetainedHigh int          `count:"retained_bytes_high" unit:"bytes" kind:"max" help:"bytes of the most retention buffers that were ever in use"`
	Open         int          `kind:"level" help:"transfers without an outcome; 0 after a run"`
	LeftWrites   int          `help:"writes under way to builder units that are excluded"`
	BuildersLost int          `help:"builder units to which the link is down"`
	LinksFull    uint64       `help:"times that so much was under way to a builder unit that it took no more"`
	WritesMoved  uint64       `help:"writes under way whose bytes were copied, since their builder unit held them up"`
	Leftovers
	RejectionStats
	Live       map[string]source.LiveStats `count:"input_"` // by source id
	BytesTo    []uint64                    // BytesWritten by builder unit
	ForGrants  time.Duration               `count:"grant_us" help:"time waiting for grants"`
	ForTokens  time.Duration               `count:"token_us" help:"time with nothing to serve, waiting for tokens"`
	ForSource  time.Duration               `count:"source_us" help:"time the reader was in its source"`
	ForRoom    time.Duration               `count:"room_us" help:"time the reader waited until something it holds was released"`
	Conducting time.Duration               `help:"time from the first phase to the last"`
	Waits                                  // a copy
}

// Stats returns the counters so far.
func (u *Unit) Stats() Stats {
	blocks, high := u.cfg.Retention.held()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := Stats{
		Source:       u.cfg.Source.Stats(),
		MFPsRead:     u.mfps.Load(),
		Tokens:       u.tokens.Load(),
		Writes:       u.written.Load(),
		BytesWritten: u.bytesWritten.Load(),
		Refused:      u.refused.Load(),
		Phases:       u.phases.Load(),
		Dummies:      u.dummies.Load(),
		Overruns:     u.overruns.Load(),
		Retained:     blocks,
		RetainedHigh: high,
		Open:         u.order.Open(),
		ForGrants:    u.grants,
		LinksFull:    u.full,
		WritesMoved:  u.moved,
		Waits:        u.waits.copied(),
		ForTokens:    u.forTokens.Read(),
		ForSource:    u.forSource.Read(),
		ForRoom:      u.forRoom.Read(),
		BytesTo:      make([]uint64, len(u.bytesTo)),
	}
	for bu := range u.bytesTo {
		s.BytesTo[bu] = u.bytesTo[bu].Load()
	}
	s.Unasked, s.LeftWrites, s.Leftovers = u.order.Unasked(), u.order.LeftWrites(), u.order.Leftovers()
	s.Withdrawn, s.Failed = s.Withdrawn+u.leftFailed.Load(), s.Failed+u.leftFailed.Load()
	s.RejectionStats = u.rejected.Stats()
	s.RejectionStats.MFPs = s.RejectionStats.MEPs * uint64(u.cfg.Streams)
	for bu := range u.cfg.BURanks {
		if u.order.Lost(bu) {
			s.BuildersLost++
		}
	}
	if u.badSource.Load() != nil {
		s.BadRecords = 1
	}
	if u.ring != nil {
		s.Bypassed = u.ring.Bypassed()
	}
	s.Live = u.liveStats()
	for _, in := range s.Live {
		if in.Failed {
			s.Broken++
		}
	}
	if u.letDown.Load() != nil {
		s.LetDown = 1
	}
	if !u.over.IsZero() {
		s.Conducting = u.over.Sub(u.began)
	}
	return s
}
