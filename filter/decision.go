package filter

import "ringlet/internal/registry"

// Decision is the outcome of filtering an event. The zero Decision is none.
type Decision uint8

// Decisions. Every event that is not rejected is kept: an event without a verdict passes.
const (
	Accepted Decision = iota + 1 // the filter wants the event
	Rejected                     // the filter does not want the event
	TimedOut                     // the filter did not answer in time: the event passes
	Failed                       // the filter could not judge the event: the event passes

	// Decisions is one more than the highest Decision, for tables.
	Decisions = int(Failed) + 1
)

// KeepsEvent says that the event is kept. It is kept without a Decision, too, since nothing speaks for dropping it.
func (d Decision) KeepsEvent() bool { return d != Rejected }

// Valid says that d is one of the four.
func (d Decision) Valid() bool { return d >= Accepted && d <= Failed }

// String returns the Decision as a word.
func (d Decision) String() string {
	return registry.NameOf(d, "decision", "none", "accepted", "rejected", "timed out", "failed")
}

// Verdict is a Decision with its grade.
type Verdict struct {
	Decision Decision
	// Score says how similar the event is to wanted ones, from 0 to 65535. Filters that do not grade leave it at 0.
	Score uint16
}
