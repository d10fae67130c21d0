package standstill

import "time"

const (
	// Least is the shortest wait after which a unit goes on without another one: above what healthy units wait on a busy
	// machine, and below what an operator sees as a standstill (a choice, 2026-11-29).
	Least = 200 * time.Millisecond
	// Tick is how often a unit that waits looks at the time.
	Tick = 25 * time.Millisecond

	// factor: a wait is too long when it takes this many times the longest wait seen lately.
	factor = 4
	// windowWaits is how many waits make a window; the longest of this window and of the last one counts.
	windowWaits = 256
	// coldLimit is the limit until the owner has seen enough.
	coldLimit = 5 * Least
)

// Detector decides for one unit. The zero Detector is ready, and cold.
type Detector struct {
	// Warm is set by the owner once it has seen enough waits for them to count.
	Warm bool

	waiting     bool
	lastLook    time.Duration // time of the last look
	waited      time.Duration // in this wait
	longest     [2]time.Duration
	windowCount int
}

// Wait notes that the unit waits at the time now, since any zero that does not change. It returns true when the unit
// has waited for too long.
func (d *Detector) Wait(now time.Duration) (over bool) {
	if !d.waiting {
		d.waiting, d.waited = true, 0
	} else {
		d.waited += min(max(0, now-d.lastLook), 2*Tick)
	}
	d.lastLook = now
	return d.waited >= d.Limit()
}

// End notes that what the unit waited for came. Without a wait it does nothing.
func (d *Detector) End(now time.Duration) {
	if !d.waiting {
		return
	}
	_ = d.Wait(now)
	d.waiting = false
	d.longest[0] = max(d.longest[0], d.waited)
	if d.windowCount++; d.windowCount == windowWaits {
		d.longest[1], d.longest[0], d.windowCount = d.longest[0], 0, 0
	}
}

// GiveUp ends the wait without what the unit waited for. The wait does not count among those seen.
func (d *Detector) GiveUp() { d.waiting = false }

// Limit is how long the unit waits now.
func (d *Detector) Limit() time.Duration {
	limit := max(Least, factor*d.longest[0], factor*d.longest[1])
	if !d.Warm {
		limit = max(limit, coldLimit)
	}
	return limit
}
