package part

import "ringlet/sim"

// Bucket is a token bucket: Burst tokens at once, and one more in each Period. Its arithmetic is exact: it keeps the
// time at which the bucket would be full again, not a number of tokens.
type Bucket struct {
	Period sim.Time // per token
	Burst  int64    // tokens
	full   sim.Time
}

// Take books n tokens, at most Burst, and says when they are there: now, or later. Whoever takes them acts at that
// time.
func (b *Bucket) Take(now sim.Time, n int64) sim.Time {
	b.full = max(b.full, now) + sim.Time(n)*b.Period
	return max(now, b.full-sim.Time(b.Burst)*b.Period)
}
