package readoutunit

// The goroutines of a unit: the reader fills retention buffers, the dispatcher takes tokens from the scheduler, the
// conductor writes. unit.go draws the whole pipeline.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/internal/netyield"
	"ringlet/source"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// runReader fills the retention buffers and reports to the scheduler how far it has come. It waits until an eighth of
// the buffers is free: it reports once for each fill, and each report costs a message. It ends with the input, or when
// the scheduler has drained the run.
func (u *Unit) runReader() error {
	var actions []Action
	buffers := u.cfg.Retention
	least := max(1, buffers.Len()/8)
	var up core.Update
	for !up.InputEnded {
		u.bufferWait.Start()
		first, strip, sizes, err := u.awaitBuffers(least)
		u.bufferWait.Stop()
		if err != nil {
			return err
		}
		u.sourceTime.Start()
		run, ended := u.source.NextBlocks(u.ctx, strip, sizes[:min(len(sizes), least)])
		u.sourceTime.Stop()
		if run.Blocks > 0 {
			if run.MEP != first {
				return fmt.Errorf("the source gave MEP %d where %d follows", run.MEP, first)
			}
			u.mu.Lock()
			buffers.commit(run.Blocks)
			u.live.NoteRetained(buffers.used())
			u.mu.Unlock()
			u.mfpsRead.Add(uint64(run.Blocks * u.cfg.Streams))
			up.ReadBelow, up.Events = run.MEP+uint64(run.Blocks), up.Events+run.Events
			if u.cfg.Push {
				if actions, err = u.request(&Input{Kind: MEPsRead, MEP: up.ReadBelow}, actions); err != nil {
					return err
				}
			}
		}
		if up.InputEnded = ended != nil; up.InputEnded && !u.endsProperly(ended) {
			return fmt.Errorf("reading the source: %w", ended)
		}
		if err := u.cfg.Scheduler.Update(up); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// awaitBuffers waits until least buffers are free, and returns free ones.
func (u *Unit) awaitBuffers(least int) (first uint64, s source.BufferStrip, sizes []uint32, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.ctx.Err() == nil {
		if first, s, sizes, ok := u.cfg.Retention.reserve(least); ok {
			return first, s, sizes, nil
		}
		u.freed.Wait()
	}
	return 0, s, nil, context.Cause(u.ctx)
}

// runDispatcher takes tokens and news from the scheduler.
func (u *Unit) runDispatcher() error {
	var t tagnet.Tokens
	var actions []Action
	for {
		var err error
		if t, err = u.cfg.Scheduler.Next(u.ctx); errors.Is(err, io.EOF) {
			return u.notify(&Input{Kind: TokensOver})
		}
		if err != nil {
			return err
		}
		if u.live != nil {
			u.applyCuts(&t)
		}
		if actions, err = u.request(&Input{Kind: TokensCame, Tokens: &t}, actions); err != nil {
			return err
		}
		if err := u.notify(&Input{Kind: Announced}); err != nil {
			return err
		}
	}
}

// request passes an input to the core, and requests the windows that follow from it.
func (u *Unit) request(in *Input, actions []Action) (_ []Action, err error) {
	u.mu.Lock()
	actions, err = u.step(in, actions)
	u.changed.Broadcast()
	u.mu.Unlock()
	if err != nil {
		return actions, err
	}
	u.announceMu.Lock()
	defer u.announceMu.Unlock()
	for i := range actions {
		if a := &actions[i]; a.Kind == Announce {
			err = u.announce(a)
		} else {
			err = u.requestWindows(a.BU)
		}
		if err != nil {
			return actions, err
		}
	}
	return actions, nil
}

// announce sends one builder unit the sizes for one token, in as many messages as needed.
func (u *Unit) announce(a *Action) error {
	n, m := u.cfg.Streams, &u.announcement
	m.RU, m.StreamCount, m.Slot, m.Attempt, m.MEP = uint16(u.cfg.RU), uint16(n), a.Token.Slot, uint32(a.Token.Attempt),
		a.Token.MEP
	for first := 0; first < n; first += len(m.Entries) {
		m.FirstStream, m.Entries = uint16(first), m.Entries[:0]
		for i := first; i < min(n, first+placing.MaxEntries); i++ {
			m.Entries = append(m.Entries, placing.ReadEntry(a.Part, i))
		}
		u.message = m.Append(u.message[:0])
		if err := u.cfg.Network.Signal(u.cfg.BURanks[a.BU], u.message); err != nil {
			return u.tolerateLoss(a.BU, fmt.Errorf("announcing MEP %d to builder unit %d: %w", a.Token.MEP, a.BU, err))
		}
	}
	return nil
}

// requestWindows requests the pre-granted windows of a builder unit.
func (u *Unit) requestWindows(bu int) error {
	u.message = placing.AppendWindowRequest(u.message[:0])
	if err := u.cfg.Network.Signal(u.cfg.BURanks[bu], u.message); err != nil {
		return u.tolerateLoss(bu, fmt.Errorf("asking builder unit %d for its windows: %w", bu, err))
	}
	return nil
}

// runConductor carries out the core's actions for the conductor: writes and the ends of phases.
func (u *Unit) runConductor() error {
	for {
		a, err := u.await()
		if err != nil {
			return err
		}
		switch a.Kind {
		case Write:
			err = u.write(&a)
		case Yield:
			netyield.Yield()
		case AwaitPhase:
			err = u.awaitPhase(&a)
		case EnterBarrier:
			err = u.enterBarrier(&a)
		case FinishBarrier:
			err = u.finishBarrier()
		case Leave:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write passes a burst to the network. A carrier may report the outcome before WriteMany returns.
func (u *Unit) write(a *Action) error {
	if err := u.cfg.Network.WriteMany(u.cfg.BURanks[a.BU], a.Pieces, a.Number); err != nil {
		return u.tolerateLoss(a.BU, fmt.Errorf("writing %d parts to builder unit %d: %w", len(a.Pieces), a.BU, err))
	}
	return nil
}

// awaitPhase waits for the time of a phase.
func (u *Unit) awaitPhase(a *Action) error {
	timer := time.NewTimer(untilPhase(time.Duration(time.Now().UnixNano()), u.cfg.PhaseTime, int(a.Number), a.Count))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-u.ctx.Done():
		return context.Cause(u.ctx)
	}
}

// enterBarrier enters the barrier, with retries while the run may go on without readout units that are late.
func (u *Unit) enterBarrier(a *Action) error {
	if err := u.retryBarrier(func() error { return u.cfg.Barrier.BeginRound(u.ctx, a.Number) }); err != nil {
		return err
	}
	u.cfg.Barrier.SetOffer(uint32(a.Count))
	var waited time.Duration
	if err := u.retryBarrier(func() error {
		_, more, err := u.cfg.Barrier.Enter(u.ctx)
		waited += more
		return err
	}); err != nil {
		return err
	}
	return u.notify(&Input{Kind: BarrierPassed, Waited: waited, Held: u.cfg.Barrier.LastStraggler(), Now: time.Now()})
}

// finishBarrier leaves the epochs that are still open, with the same retries.
func (u *Unit) finishBarrier() error {
	var held []barrier.Straggler
	if err := u.retryBarrier(func() (err error) {
		held, err = u.cfg.Barrier.Finish(u.ctx)
		return err
	}); err != nil {
		return err
	}
	return u.notify(&Input{Kind: BarrierFinished, Finished: held, Now: time.Now()})
}

// maxBarrierTimeouts is how many time-outs of the barrier a readout unit waits for late readout units if the run
// tolerates their loss: by then the control or the links have decided whether they are lost.
const maxBarrierTimeouts = 6

// retryBarrier calls wait again after a time-out if the run may go on without the late readout units; with push without
// limit, since a late unit may wait for its input: the loss of its link ends the wait.
func (u *Unit) retryBarrier(wait func() error) (err error) {
	for n := 0; n < maxBarrierTimeouts || u.cfg.Push; n++ {
		var late *barrier.TimeoutError
		if err = wait(); !u.cfg.ToleratesReadoutLoss && !u.cfg.Push || !errors.As(err, &late) {
			break
		}
	}
	return err
}

// await is called by the conductor. It waits until the core has an action for the conductor to carry out, and adds the
// time to the stopwatch of what the conductor waits for. The error is the core's, or the cause of the context's end.
func (u *Unit) await() (a Action, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.ctx.Err() == nil {
		if u.actions, err = u.step(&Input{Kind: ConductorFree, Now: time.Now()}, u.actions); err != nil {
			return a, err
		}
		if a = u.actions[0]; a.Kind != Wait {
			return a, nil
		}
		if a.Within > 0 && !u.alarmed {
			u.alarmed = true
			u.alarm.Reset(a.Within)
		}
		u.waits[a.Turn].Start()
		u.changed.Wait()
		u.waits[a.Turn].Stop()
	}
	return a, context.Cause(u.ctx)
}
