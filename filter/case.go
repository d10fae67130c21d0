package filter

import "ringlet/event/selection"

// Case is a MEP whose events are to be judged. It belongs to whoever has it in hand.
type Case struct {
	selection.Meta
	FirstEvent uint64 // number of its first event
	Events     int
	// Entry is the MEP with a mark behind it, as readers of a shared-memory output get one (docs/format/buffer.md).
	Entry []byte
	// Verdicts has a place for each event. Whoever judges fills it.
	Verdicts      []Verdict
	Index         int // the number that its owner knows it by
	TimesReturned int // how often somebody had it in hand and gave it back unjudged
}

// FillVerdicts gives the events from number i on one verdict.
func (c *Case) FillVerdicts(i int, v Verdict) {
	for ; i < len(c.Verdicts); i++ {
		c.Verdicts[i] = v
	}
}

// CombineDecisions is the decision on events that stay together: they are rejected only if each of them is.
func CombineDecisions(verdicts []Verdict) Decision {
	d := Rejected
	for i := range verdicts {
		switch one := verdicts[i].Decision; {
		case one == Accepted:
			return Accepted
		case one.KeepsEvent() && !(d.KeepsEvent() && d < one): // of those that pass, the one that comes first in the list
			d = one
		}
	}
	return d
}
