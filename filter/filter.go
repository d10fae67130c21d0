package filter

import (
	"time"

	"ringlet/event/selection"
)

// Filter judges events. It is asked by one goroutine at a time; there may be several Filters of one kind.
type Filter interface {
	// Judge says whether an event is wanted: its Verdict is Accepted or Rejected. The event is a view, good until Judge
	// returns. Judge should return before the deadline; what it says afterwards does not count. An error says why it could
	// not judge this event; the next one is asked all the same.
	Judge(deadline time.Time, e *selection.Event) (Verdict, error)
}

// FinalVerdict makes the verdict that counts of what a Filter said, and when. now is the time at which it had said it.
func FinalVerdict(v Verdict, err error, deadline, now time.Time) Verdict {
	switch {
	case now.After(deadline):
		return Verdict{Decision: TimedOut}
	case err != nil || v.Decision != Accepted && v.Decision != Rejected:
		return Verdict{Decision: Failed}
	}
	return v
}
