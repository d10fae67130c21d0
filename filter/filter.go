package filter

import (
	"time"

	"ringlet/event/selection"
)

// Filter judges events. One goroutine at a time calls it; there may be several Filters of one kind.
type Filter interface {
	// Judge says whether an event is wanted: the Decision of its Verdict is Accepted or Rejected. The event is a view,
	// valid until Judge returns. Judge should return before the deadline; a later verdict does not count. An error says
	// why it could not judge this event; Judge is called for the next event all the same.
	Judge(deadline time.Time, e *selection.Event) (Verdict, error)
}

// FinalVerdict returns the verdict that counts, from what a Filter returned and the time now at which it did.
func FinalVerdict(v Verdict, err error, deadline, now time.Time) Verdict {
	switch {
	case now.After(deadline):
		return Verdict{Decision: TimedOut}
	case err != nil || v.Decision != Accepted && v.Decision != Rejected:
		return Verdict{Decision: Failed}
	}
	return v
}
