package fault

import "time"

// pauseThreshold is the time between two ticks beyond which the control has stood still: it ticks several times a
// second, on a busy machine a few times less.
const pauseThreshold = 2 * time.Second

// awakeClock tells the time in which the control was at work: one that was stopped for a while must not say that others
// were silent meanwhile. The zero awakeClock begins with its first tick.
type awakeClock struct {
	lastTick    time.Time // the latest tick
	pausedTotal time.Duration
}

// tick takes the time, and returns it less all the time in which the control has stood still.
func (a *awakeClock) tick(now time.Time) time.Time {
	if gap := now.Sub(a.lastTick); !a.lastTick.IsZero() && gap >= pauseThreshold {
		a.pausedTotal += gap
	}
	if now.After(a.lastTick) {
		a.lastTick = now
	}
	return now.Add(-a.pausedTotal)
}

// now is the time of the latest tick, as that has returned it.
func (a *awakeClock) now() time.Time { return a.lastTick.Add(-a.pausedTotal) }

// AwakeTime takes the time, and returns it less all the time in which the control itself stood still: what nobody
// looked at proves nothing. It is to be called several times a second while nodes are watched.
func (c *Core) AwakeTime(now time.Time) time.Time { return c.clock.tick(now) }
