package readoutunit

import (
	"errors"
	"time"

	"ringlet/barrier"
	"ringlet/tagnet"
)

// barrierTries is how many time-outs of the barrier a readout unit waits for others that may be gone, where the run
// bears that: by then whoever watches them has decided.
const barrierTries = 6

// change takes who among the readout units has gone or come back. The cycles that it concerns come behind it.
func (u *Unit) change(all []tagnet.Absence) error {
	for _, a := range all {
		if int(a.RU) >= len(u.present) {
			continue
		}
		u.present[a.RU] = a.Back
		var left []int
		for ru, is := range u.present {
			if is {
				left = append(left, ru)
			}
		}
		u.mu.Lock()
		u.order.Bound(a.Cycle)
		u.mu.Unlock()
		if err := u.cfg.Barrier.Change(a.Cycle, left, !a.Back); err != nil {
			return err
		}
		u.cfg.Log.Info("the readout units of the run have changed", "readout_unit", a.RU, "back", a.Back, "from_mep", a.MEP)
	}
	return nil
}

// round is the number of the current round of phases.
func (u *Unit) round() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order.Round()
}

// meet enters the barrier, and goes on waiting there for readout units that the run may do without.
func (u *Unit) meet() (waited time.Duration, err error) {
	for range barrierTries {
		var more time.Duration
		_, more, err = u.cfg.Barrier.Enter(u.ctx)
		waited += more
		var late *barrier.TimeoutError
		if !u.cfg.BearsReadout || !errors.As(err, &late) {
			break
		}
	}
	return waited, err
}
