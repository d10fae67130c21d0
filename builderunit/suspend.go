package builderunit

import (
	"context"
	"time"
)

// Suspension stops a builder unit now and then for a while, as if its processor had other things to do (TagNet-farm
// §IV.B): it takes no MEP that is whole, and its memory goes on being written. Of several builder units that are
// suspended one is at a time. The zero value: never.
type Suspension struct {
	Interval time.Duration // from one suspension to the next, of whichever builder unit
	Duration time.Duration // less than Every
	BUIndex  int           // of this builder unit among those that are suspended, from 0
	BUCount  int           // how many they are
}

// beginOf is when the n-th suspension of this builder unit begins, n from 0, counted from its start. A suspension lasts
// until a whole number of Every has passed, so that the first begins after the run has.
func (s Suspension) beginOf(n int) time.Duration {
	return time.Duration(n*s.BUCount+s.BUIndex+1)*s.Interval - s.Duration
}

// run holds the gate that the finisher of a builder unit passes, from time to time.
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

// sleepIn reports false when the context has ended meanwhile.
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
