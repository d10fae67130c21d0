package filter

import "ringlet/internal/registry"

// Decision is what becomes of an event. The zero Decision is none.
type Decision uint8

// Decisions. What is not rejected is kept: an event about which the filter said nothing passes.
const (
	Accepted Decision = iota + 1 // the filter wants the event
	Rejected                     // the filter does not
	TimedOut                     // the filter did not answer in time: the event passes
	Failed                       // the filter could not judge the event: the event passes

	// Decisions is the number of the highest Decision and one more, for tables.
	Decisions = int(Failed) + 1
)

// KeepsEvent says that the event is kept. No Decision keeps too: who has none knows no reason to drop the event.
func (d Decision) KeepsEvent() bool { return d != Rejected }

// Valid says that d is one of the four.
func (d Decision) Valid() bool { return d >= Accepted && d <= Failed }

// String is the word of a Decision.
func (d Decision) String() string {
	return registry.NameOf(d, "decision", "none", "accepted", "rejected", "timed out", "failed")
}

// Verdict is a Decision with what led to it.
type Verdict struct {
	Decision Decision
	// Score says how much the event looks like those that are wanted, from 0 to 65535. Filters that do not grade leave it
	// at 0.
	Score uint16
}
