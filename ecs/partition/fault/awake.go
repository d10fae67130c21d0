package fault

import "time"

// awakeClock tells the time without the pauses in which the control itself was stopped, by SIGSTOP for example or by a
// virtual machine that was suspended: the control must not take nodes for silent whose reports it did not read. It
// begins with its first tick.
type awakeClock struct {
	// time between two ticks beyond which the control has stood still: it ticks several times a second, on a busy machine
	// a few times less
	pauseThreshold time.Duration

	lastTick    time.Time // the latest tick
	pausedTotal time.Duration
	resumedAt   time.Time // when the latest pause ended, awake time; zero: there was none
}

// tick returns the time less all pauses of the control up to now.
func (a *awakeClock) tick(now time.Time) time.Time {
	if gap := now.Sub(a.lastTick); !a.lastTick.IsZero() && gap >= a.pauseThreshold {
		a.pausedTotal += gap
		a.resumedAt = now.Add(-a.pausedTotal)
	}
	if now.After(a.lastTick) {
		a.lastTick = now
	}
	return now.Add(-a.pausedTotal)
}

// now is what the latest tick returned.
func (a *awakeClock) now() time.Time { return a.lastTick.Add(-a.pausedTotal) }

// AwakeTime returns the time less all pauses of the control itself (see awakeClock). Call it several times a second
// while nodes are watched.
func (c *Core) AwakeTime(now time.Time) time.Time { return c.clock.tick(now) }
