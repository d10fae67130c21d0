package schedule

import (
	"math"
	"time"
)

// maxSchedule is more than any wait, and leaves room for a sum of two.
const maxSchedule = math.MaxInt64 / 4

// Pacer holds a mean rate. One goroutine uses it.
type Pacer struct {
	dueTime    func(n uint64) time.Duration // when the next is due, after n things went; from the start on
	maxBacklog time.Duration                // most it may catch up

	started bool
	start   time.Time // moves forward when backlog is given up
	n       uint64    // things that went
}

// NewPacer makes a pacer of so many things per second, which must be positive and finite.
func NewPacer(rate float64, backlog time.Duration) *Pacer {
	return NewPacerFunc(func(n uint64) time.Duration { return DurationOf(float64(n), rate) }, backlog)
}

// NewPacerFunc makes a pacer whose next thing is due as the function says.
func NewPacerFunc(due func(n uint64) time.Duration, backlog time.Duration) *Pacer {
	return &Pacer{dueTime: due, maxBacklog: backlog}
}

// DurationOf is what so many things of a rate take, or the longest time that there is.
func DurationOf(n, rate float64) time.Duration {
	return time.Duration(min(math.Round(n/rate*float64(time.Second)), float64(maxSchedule)))
}

// NextWait says for how long the next thing must still wait; 0: it is due. The first call begins the pace. What is
// later than the backlog is given up, once: so much time is lost.
func (p *Pacer) NextWait(now time.Time) (wait, lost time.Duration) {
	due := p.dueTime(p.n)
	if !p.started {
		p.started, p.start = true, now.Add(-due)
	}
	wait = p.start.Add(due).Sub(now)
	if wait > 0 {
		return wait, 0
	}
	if lost = -wait - p.maxBacklog; lost <= 0 {
		return 0, 0
	}
	p.start = p.start.Add(lost)
	return 0, lost
}

// Advance notes that so many things went.
func (p *Pacer) Advance(n uint64) { p.n += n }
