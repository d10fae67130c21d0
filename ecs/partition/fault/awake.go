package fault

import "time"

// pauseThreshold is the time between two ticks beyond which the control has stood still: it ticks several times a
// second, on a busy machine a few times less.
const pauseThreshold = 2 * time.Second

// awakeClock tells the time in which the control was at work: one that was stopped for a while must not say that others
// were silent meanwhile. The zero awakeClock begins with its first tick.
type awakeClock struct {
	last   time.Time // the latest tick
	paused time.Duration
}

// tick takes the time, and returns it less all the time in which the control has stood still.
func (a *awakeClock) tick(now time.Time) time.Time {
	if gap := now.Sub(a.last); !a.last.IsZero() && gap >= pauseThreshold {
		a.paused += gap
	}
	if now.After(a.last) {
		a.last = now
	}
	return now.Add(-a.paused)
}

// now is the time of the latest tick, as that has returned it.
func (a *awakeClock) now() time.Time { return a.last.Add(-a.paused) }

// AwakeTime takes the time, and returns it less all the time in which the control itself stood still: what nobody
// looked at proves nothing. It is to be called several times a second while nodes are watched.
func (c *Core) AwakeTime(now time.Time) time.Time { return c.clock.tick(now) }
