package readoutunit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringlet/barrier"
	"ringlet/internal/netyield"
)

// runConductor writes, phase by phase.
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

// write gives a burst to the network. A carrier may tell the outcome before it returns.
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

// enterBarrier enters the barrier, and goes on waiting there for readout units that the run may do without.
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
	return u.notify(&Input{Kind: BarrierFinished, Finished: held})
}

// maxBarrierTimeouts is how many time-outs of the barrier a readout unit waits for others that may be gone, where the
// run tolerates that: by then whoever watches them has decided.
const maxBarrierTimeouts = 6

// retryBarrier waits at the barrier again where that has waited in vain for readout units that the run may do without.
func (u *Unit) retryBarrier(wait func() error) (err error) {
	for range maxBarrierTimeouts {
		var late *barrier.TimeoutError
		if err = wait(); !u.cfg.ToleratesReadoutLoss || !errors.As(err, &late) {
			break
		}
	}
	return err
}

// await waits until the core has something to do for the conductor, and counts what it waits for.
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
		u.waits[a.Turn].Start()
		u.changed.Wait()
		u.waits[a.Turn].Stop()
	}
	return a, context.Cause(u.ctx)
}
