package schedule

import (
	"math"
	"time"
)

// longest is more than any wait, and leaves room for a sum of two.
const longest = math.MaxInt64 / 4

// Pacer holds a mean rate. One goroutine uses it.
type Pacer struct {
	due     func(n uint64) time.Duration // when the next is due, after n things went; from the start on
	backlog time.Duration                // most it may catch up

	begun bool
	start time.Time // moves forward when backlog is given up
	n     uint64    // things that went
}

// NewPacer makes a pacer of so many things per second, which must be positive and finite.
func NewPacer(rate float64, backlog time.Duration) *Pacer {
	return NewPacerFunc(func(n uint64) time.Duration { return DurationOf(float64(n), rate) }, backlog)
}

// NewPacerFunc makes a pacer whose next thing is due as the function says.
func NewPacerFunc(due func(n uint64) time.Duration, backlog time.Duration) *Pacer {
	return &Pacer{due: due, backlog: backlog}
}

// DurationOf is what so many things of a rate take, or the longest time that there is.
func DurationOf(n, rate float64) time.Duration {
	return time.Duration(min(math.Round(n/rate*float64(time.Second)), float64(longest)))
}

// NextWait says for how long the next thing must still wait; 0: it is due. The first call begins the pace. What is
// later than the backlog is given up, once: so much time is lost.
func (p *Pacer) NextWait(now time.Time) (wait, lost time.Duration) {
	due := p.due(p.n)
	if !p.begun {
		p.begun, p.start = true, now.Add(-due)
	}
	wait = p.start.Add(due).Sub(now)
	if wait > 0 {
		return wait, 0
	}
	if lost = -wait - p.backlog; lost <= 0 {
		return 0, 0
	}
	p.start = p.start.Add(lost)
	return 0, lost
}

// Advance notes that so many things went.
func (p *Pacer) Advance(n uint64) { p.n += n }
