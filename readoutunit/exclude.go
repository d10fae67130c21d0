package readoutunit

import (
	"errors"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

var errLinkDown = errors.New("the link is down")

// isWithdrawn tells whether the token of a cycle for a builder unit is withdrawn.
func (u *Unit) isWithdrawn(cycle uint64, bu int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order.IsWithdrawn(cycle, bu)
}

// applyWithdrawals takes the exclusions of builder units that came with tokens.
func (u *Unit) applyWithdrawals(withdrawals []tagnet.Withdrawal) {
	if len(withdrawals) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, w := range withdrawals {
		u.order.Withdraw(w)
	}
	u.confirmQuiesced()
	u.changed.Broadcast()
}

// confirmQuiesced tells which exclusions are over here: the builder unit, behind all that was sent to it before, and
// the scheduler. mu is held, which a signal never waits for.
func (u *Unit) confirmQuiesced() {
	for x, ok := u.order.NextQuiesced(); ok; x, ok = u.order.NextQuiesced() {
		var message [placing.QuiescedSize]byte
		if u.cfg.Network.Signal(u.cfg.BURanks[x.BU], placing.AppendQuiesced(message[:0], x.Count)) != nil {
			continue // the link is down, which who watches it is told
		}
		if u.cfg.Scheduler.ConfirmExclusion(x.Number) != nil {
			return // the stream is over, which the dispatcher learns
		}
	}
}

func (u *Unit) toleratesBULoss(bu int) bool {
	return bu < len(u.cfg.ToleratesBULoss) && u.cfg.ToleratesBULoss[bu]
}

// HandleLinkDown takes that the link to a rank is down. It reports whether the unit can go on without it.
func (u *Unit) HandleLinkDown(rank int) bool {
	bu, ok := u.buByRank[rank]
	return ok && u.tolerateLoss(bu, errLinkDown) == nil
}

// tolerateLoss takes an error of the link to a builder unit, and returns it unless the run tolerates the loss of that.
func (u *Unit) tolerateLoss(bu int, err error) error {
	if !u.toleratesBULoss(bu) {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order.MarkLost(bu)
	u.bursts.abandon(bu)
	u.freeBuffers()
	u.updateLinkFull(bu)
	u.changed.Broadcast()
	return nil
}

// isLost tells whether the link to a builder unit is down.
func (u *Unit) isLost(bu int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order.IsLost(bu)
}
