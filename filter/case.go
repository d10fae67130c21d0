package filter

import "ringlet/event/selection"

// Case is a MEP whose events are to be judged. The goroutine that has it owns it.
type Case struct {
	selection.Meta
	FirstEvent uint64 // number of its first event
	Events     int
	// Entry is the MEP followed by a mark, as readers of a shared-memory output get it (docs/format/buffer.md).
	Entry []byte
	// Verdicts has a place for each event of the MEP. The filter fills the places.
	Verdicts      []Verdict
	Index         int // by which its owner knows it
	TimesReturned int // how often a filter process had it and returned it unjudged
}

// FillVerdicts gives all events from number i on the same verdict.
func (c *Case) FillVerdicts(i int, v Verdict) {
	for ; i < len(c.Verdicts); i++ {
		c.Verdicts[i] = v
	}
}

// CombineDecisions returns the decision on events that stay together: rejected only if each of them is.
func CombineDecisions(verdicts []Verdict) Decision {
	d := Rejected
	for i := range verdicts {
		switch one := verdicts[i].Decision; {
		case one == Accepted:
			return Accepted
		case one.KeepsEvent() && !(d.KeepsEvent() && d < one): // if several pass the event, the first in the list counts
			d = one
		}
	}
	return d
}
