package partition

import (
	"errors"
	"time"

	"ringlet/node/config"
	"ringlet/node/fsm"
)

// mayRecover decides whether the partition may recover automatically once more: at most bound.MaxTimes within
// bound.Within. It also returns the earlier recoveries that still count.
func mayRecover(bound config.RecoveryBound, before []time.Time, now time.Time) (again bool, counting []time.Time) {
	for _, t := range before {
		if now.Sub(t) < bound.Within {
			counting = append(counting, t)
		}
	}
	return len(counting) < bound.MaxTimes, counting
}

// recoveryUser is the user of a run that automatic recovery begins.
const recoveryUser = "automatic recovery"

// recoverAutomatically begins a new run after a fault, as often as the configuration allows, and publishes that. It
// stops when a user gives a command.
func (c *conductor) recoverAutomatically() {
	l := c.currentState().loadedConfig
	if l == nil {
		return
	}
	bound := l.cfg.RecoveryLimit()
	c.updateState(func(s *partitionState) {
		pending := &s.pendingCommand
		pending.user, pending.stopRequested, pending.abandon, pending.joinDeadline = recoveryUser, false, false, time.Time{}
	})
	if bound.MaxTimes == 0 {
		return
	}
	for c.recoverOnce(bound) {
		changed := c.cfg.Members.MembersChanged()
		select {
		case <-changed: // a node may have come back
		case <-time.After(recoverRetryDelay):
		case <-c.ctx.Done():
			return
		}
		if c.currentState().pendingCommand.user != recoveryUser { // a user has given a command meanwhile
			return
		}
	}
}

// recoverRetryDelay is how long recovery waits for a node to come back before it tries again: Kubernetes and systemd
// restart a process in less.
const recoverRetryDelay = 15 * time.Second

// recoverOnce tries once if that is allowed, and says whether to try again.
func (c *conductor) recoverOnce(bound config.RecoveryBound) (again bool) {
	c.recoveryMu.Lock()
	allowed, counting := mayRecover(bound, c.recoveryTimes, time.Now())
	if allowed {
		counting = append(counting, time.Now())
	}
	c.recoveryTimes = counting
	c.recoveryMu.Unlock()
	if !allowed {
		c.publishf(severityError, "recovery", partitionComponent,
			"the partition has tried to recover %d times in %v and does not try again by itself: find the cause, then recover",
			bound.MaxTimes, bound.Within)
		return false
	}
	c.publishf(severityWarning, "recovery", partitionComponent,
		"recovering by itself, for the %d. time of at most %d in %v",
		len(counting),
		bound.MaxTimes, bound.Within)
	for _, command := range []fsm.Command{fsm.Recover, fsm.Configure, fsm.Start} {
		if fsm.EffectOf(c.runner.Status().State, command) == fsm.CommandRefused {
			continue // the last attempt failed in a later command
		}
		if err := c.runner.Command(c.ctx, command); err != nil {
			what := err.Error()
			var why fsm.Cause
			if errors.As(err, &why) {
				what += ". " + c.causeMessage(why).GetAdvice()
			}
			c.publishf(severityError, "recovery", partitionComponent, "the recovery failed: %s", what)
			return c.ctx.Err() == nil
		}
	}
	return false
}
