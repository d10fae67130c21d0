package decision

import "ringlet/filter"

// Stats are the counters of a core. Decided and Void make up Triggered, but for Pending.
type Stats struct {
	FirstEvent uint64          `count:"first" kind:"level" help:"event that the decision unit decided first; more than 0 where it came back"`
	Triggered  uint64          `count:"events_triggered" help:"events known to be triggered, from the first on, with those that a short MEP lacks"`
	Decided    countByDecision `count:"decisions_" help:"decisions handed out, by what they are"`
	TimedOut   uint64          `count:"timed_out" help:"decisions without a result: none came in time"`
	Overrun    uint64          `help:"decisions without a result: too many later events were triggered for the unit's depth"`
	Unanswered uint64          `help:"decisions without a result: at the end of the run"`
	Unsplit    uint64          `help:"decisions whose time is in no part: the builder unit took 65 ms or more"`
	Void       uint64          `help:"event numbers that no event has: their MEP was shorter"`
	Pending    uint64          `kind:"level" help:"events that wait for their decision; 0 after a run"`
	MaxPending uint64          `count:"depth" kind:"level" help:"events that may wait for their decision"`
	Results    countByFate     `count:"results_" help:"results that came, by what became of them"`
}

type countByDecision [filter.Decisions]uint64

// Kinds returns the names of the decisions.
func (countByDecision) Kinds() []string {
	return []string{"", "accepted", "rejected", "timed_out", "failed"}
}

type countByFate [numberOfFates]uint64

// Kinds returns the names of the Fates.
func (countByFate) Kinds() []string {
	return []string{"taken", "late", "doubled", "ahead", "old_epoch", "stranger", "unmeant"}
}

// Decisions returns how many decisions were handed out.
func (s *Stats) Decisions() (n uint64) {
	for _, d := range s.Decided {
		n += d
	}
	return n
}
