package readoutunit

import (
	"errors"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

var errLost = errors.New("the link is down")

// void tells whether the token of a cycle for a builder unit is withdrawn.
func (u *Unit) void(cycle uint64, bu int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order.Void(cycle, bu)
}

// withdraw takes the exclusions of builder units that came with tokens.
func (u *Unit) withdraw(all []tagnet.Withdrawal) {
	if len(all) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, w := range all {
		u.order.Withdraw(w)
	}
	u.settle()
	u.changed.Broadcast()
}

// settle tells which exclusions are over here: the builder unit, behind all that was sent to it before, and the
// scheduler. mu is held, which a signal never waits for.
func (u *Unit) settle() {
	for x, ok := u.order.Settled(); ok; x, ok = u.order.Settled() {
		var message [placing.QuiescedSize]byte
		if u.cfg.Network.Signal(u.cfg.BURanks[x.BU], placing.AppendQuiesced(message[:0], x.Times)) != nil {
			continue // the link is down, which who watches it is told
		}
		if u.cfg.Scheduler.Settle(x.Number) != nil {
			return // the stream is over, which the dispatcher learns
		}
	}
}

func (u *Unit) expendable(bu int) bool { return bu < len(u.cfg.Expendable) && u.cfg.Expendable[bu] }

// Lost takes that the link to a rank is down. It reports whether the unit can go on without it.
func (u *Unit) Lost(rank int) bool {
	bu, ok := u.byRank[rank]
	return ok && u.bear(bu, errLost) == nil
}

// bear takes an error of the link to a builder unit, and returns it unless the run bears the loss of that.
func (u *Unit) bear(bu int, err error) error {
	if !u.expendable(bu) {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order.Lose(bu)
	u.bursts.Lose(bu)
	u.letGo()
	u.heed(bu)
	u.changed.Broadcast()
	return nil
}

// lost tells whether the link to a builder unit is down.
func (u *Unit) lost(bu int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order.Lost(bu)
}
