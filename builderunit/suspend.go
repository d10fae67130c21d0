package builderunit

import (
	"context"
	"time"
)

// Suspension stops a builder unit now and then for a while, as if its processor were busy with something else
// (TagNet-farm §IV.B): the finisher takes no complete MEPs, while the network goes on writing to the unit's memory. Of
// several builder units only one is suspended at a time. The zero value: never.
type Suspension struct {
	Interval time.Duration // from one suspension to the next, of whichever builder unit
	Duration time.Duration // less than Interval
	BUIndex  int           // index of this builder unit among those that are suspended, from 0
	BUCount  int           // how many builder units are suspended in turn
}

// beginOf is when suspension n of this builder unit begins, n from 0, counted from the unit's start. A suspension ends
// after a whole number of Intervals, so that the first one begins after the run has begun.
func (s Suspension) beginOf(n int) time.Duration {
	return time.Duration(n*s.BUCount+s.BUIndex+1)*s.Interval - s.Duration
}

// run holds the finisher's gate from time to time.
func (s Suspension) run(b *Builder) {
	start := time.Now()
	for n := 0; ; n++ {
		if !sleepIn(b.ctx, time.Until(start.Add(s.beginOf(n)))) {
			return
		}
		b.finisherGate.Lock()
		begun := time.Now()
		more := sleepIn(b.ctx, s.Duration)
		b.finisherGate.Unlock()
		b.mu.Lock()
		b.suspensions++
		b.suspended += time.Since(begun)
		b.mu.Unlock()
		if !more {
			return
		}
	}
}

// sleepIn sleeps; it returns false if ctx ended before.
func sleepIn(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
