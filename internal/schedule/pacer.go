package schedule

import (
	"math"
	"time"
)

// maxSchedule is more than any wait, and leaves room for a sum of two.
const maxSchedule = math.MaxInt64 / 4

// Pacer holds a mean rate. One goroutine uses it.
type Pacer struct {
	dueTime    func(n uint64) time.Duration // when the item after n others is due, counted from start
	maxBacklog time.Duration                // how far it may be behind and still catch up

	started bool
	start   time.Time // moves forward when the Pacer gives up a delay
	n       uint64    // items so far
}

// NewPacer makes a pacer of rate items per second; rate must be positive and finite.
func NewPacer(rate float64, backlog time.Duration) *Pacer {
	return NewPacerFunc(func(n uint64) time.Duration { return DurationOf(float64(n), rate) }, backlog)
}

// NewPacerFunc makes a pacer whose item after n others is due at due(n) from the start.
func NewPacerFunc(due func(n uint64) time.Duration, backlog time.Duration) *Pacer {
	return &Pacer{dueTime: due, maxBacklog: backlog}
}

// DurationOf is the time of n items at a rate in items per second, at most maxSchedule.
func DurationOf(n, rate float64) time.Duration {
	return time.Duration(min(math.Round(n/rate*float64(time.Second)), float64(maxSchedule)))
}

// NextWait returns how long the next item must still wait; 0: it is due. The first call starts the schedule. If the
// item is late by more than the backlog, the schedule moves by the rest, which is returned once as lost.
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

// Advance counts n items as sent.
func (p *Pacer) Advance(n uint64) { p.n += n }
