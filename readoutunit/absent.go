package readoutunit

import (
	"errors"
	"time"

	"ringlet/barrier"
	"ringlet/tagnet"
)

// maxBarrierTimeouts is how many time-outs of the barrier a readout unit waits for others that may be gone, where the
// run tolerates that: by then whoever watches them has decided.
const maxBarrierTimeouts = 6

// applyAbsences takes who among the readout units has gone or come back. The cycles that it concerns come behind it.
func (u *Unit) applyAbsences(absences []tagnet.Absence) error {
	for _, a := range absences {
		if int(a.RU) >= len(u.presentRUs) {
			continue
		}
		u.presentRUs[a.RU] = a.Rejoined
		var remaining []int
		for ru, takesPart := range u.presentRUs {
			if takesPart {
				remaining = append(remaining, ru)
			}
		}
		u.mu.Lock()
		u.order.BoundRound(a.FirstCycle)
		u.mu.Unlock()
		if err := u.cfg.Barrier.ChangeMembers(a.FirstCycle, remaining, !a.Rejoined); err != nil {
			return err
		}
		u.cfg.Log.Info("the readout units of the run have changed", "readout_unit", a.RU, "back", a.Rejoined, "from_mep",
			a.FirstMEP)
	}
	return nil
}

// roundStart is the number of the current round of phases.
func (u *Unit) roundStart() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order.RoundStart()
}

// enterBarrier enters the barrier, and goes on waiting there for readout units that the run may do without.
func (u *Unit) enterBarrier() (waited time.Duration, err error) {
	err = u.retryBarrier(func() error {
		_, more, err := u.cfg.Barrier.Enter(u.ctx)
		waited += more
		return err
	})
	return waited, err
}

// finishBarrier leaves the epochs that are still open, with the same retries, and tells who held them.
func (u *Unit) finishBarrier() (held []barrier.Straggler, err error) {
	err = u.retryBarrier(func() (err error) {
		held, err = u.cfg.Barrier.Finish(u.ctx)
		return err
	})
	return held, err
}

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
