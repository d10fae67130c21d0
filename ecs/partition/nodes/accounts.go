package nodes

import (
	"fmt"

	"ringlet/tagnet/core"
)

// A Check is one line of the accounts: two sums that different parts of the system counted, and that must be equal.
type Check struct {
	Name  string `json:"name"`
	Left  uint64 `json:"left"`
	Right uint64 `json:"right"`
	OK    bool   `json:"ok"`
}

func (c Check) String() string {
	if c.OK {
		return fmt.Sprintf("%s: %d", c.Name, c.Left)
	}
	return fmt.Sprintf("%s: %d ≠ %d", c.Name, c.Left, c.Right)
}

func newCheck(name string, left, right uint64) Check {
	return Check{
		Name:  name,
		Left:  left,
		Right: right,
		OK:    left == right,
	}
}

// schedulerChecks are the checks of the scheduler's counts alone: every event has one outcome, however the run ended.
func schedulerChecks(r *Report, reg *core.Registers) []Check {
	c := reg.GetCounters()
	out := []Check{
		r.outcomesCheck(),
		newCheck("MEPs issued = built + discarded + rejected + abandoned", c.GetIssued(),
			c.GetBuilt()+c.GetDiscarded()+c.GetRejected()+c.GetAbandoned()),
	}
	if len(reg.GetGroups()) > 0 {
		var full uint64
		for _, g := range reg.GetGroups() {
			if g.GetMost() > 1 {
				full++
			}
		}
		out = append(out, newCheck("groups that ever had two running events", full, 0))
	}
	return out
}

// outcomesCheckPrefix begins the name of the check that every event has one outcome. Records until 2026-11-28 have
// another list after it.
const outcomesCheckPrefix = "events triggered = "

// outcomesCheck checks that every event has one outcome.
func (r *Report) outcomesCheck() Check {
	return newCheck("events triggered = built + discarded + rejected + abandoned", r.EventsTriggered,
		r.EventsBuilt+r.EventsDiscarded+r.EventsRejected+r.EventsAbandoned)
}

// unitChecks are the checks between scheduler and units (architecture, "Invariants"). They hold for a run that was
// drained: one that was given up leaves writes under way. The last counts of a lost node are lost with it: checks that
// need them, or those of an excluded builder unit, are left out and named in Report.NotChecked.
func unitChecks(r *Report, reg *core.Registers, sums counts) []Check {
	sources := r.sourceCount()
	c := reg.GetCounters()
	b := newAccountSums(r, reg, sums)
	r.NotChecked = b.listNotChecked()
	here := b.presentCounts
	reading := uint64(r.RUs - len(b.excludedRUs))
	open := here.Open - min(here.Open, here.ResultsOpen) // results to a decision unit that hung when the run ended
	out := []Check{
		newCheck("MEPs built, by the scheduler = by the builder units", b.schedulerCounts.GetBuilt(),
			b.builderCounts.MEPsBuilt),
		newCheck("MEPs discarded, by the scheduler = by the builder units", b.schedulerCounts.GetDiscarded(),
			b.builderCounts.MEPsDiscarded),
		b.mfpsCheck(c, sources, sums.MFPsAhead),
		newCheck("MFPs of rejected MEPs = placed + never asked for", b.schedulerCounts.GetRejected()*sources,
			b.builderCounts.MFPsRejected+b.builderCounts.MFPsUnasked),
		newCheck("tokens that came = MEPs issued, to every readout unit", b.readoutCounts.Tokens,
			(c.GetIssued()+c.GetReissued())*reading),
		newCheck("writes completed + never asked for + withdrawn = tokens",
			b.readoutCounts.Writes+b.readoutCounts.Unasked+b.readoutCounts.Withdrawn, b.readoutCounts.Tokens),
		newCheck("open transactions and transfers", open, 0),
		newCheck("messages, writes and feedback refused", here.Refused+refusalCount(c), 0),
	}
	if len(b.excludedBUs) == 0 && len(b.excludedRUs) == 0 {
		out = append(out, newCheck("tokens never asked for, by the readout units = by the builder units", sums.Unasked,
			sums.BuilderUnasked))
	}
	out = append(out, r.decisionChecks(b, reg, sums)...)
	if len(b.lostBUs) == 0 && len(b.excludedRUs) == 0 && !r.decisionsLost() {
		out = append(out,
			newCheck("bytes written = bytes placed", sums.BytesWritten+resultBytes*sums.ResultsSent, sums.BytesPlaced),
			newCheck("distinct chunks sent = chunks placed", r.ChunksSent-r.ChunksResent, r.ChunksPlaced))
	}
	if g := c.GetTags(); g != nil {
		out = append(out,
			newCheck("tags launched = returned, none in the ring", g.GetLaunched(), g.GetReturned()),
			newCheck("tags launched = MEPs issued, for every attempt", g.GetLaunched()+g.GetDropped(),
				c.GetIssued()+c.GetReissued()))
	}
	if b.comparesFilter() {
		out = append(out, r.filterChecks()...)
	}
	if b.comparesOutput() {
		out = append(out, newCheck(exactCheckName, r.EventsBuilt, r.OutputEvents))
		out = append(out, r.streamChecks()...)
	}
	return out
}

// sourceCount is the number of sources of all readout units.
func (r *Report) sourceCount() (sources uint64) {
	for _, n := range r.Division {
		sources += uint64(n)
	}
	return sources + uint64(r.RUs)*uint64(r.SourcesPerRU)
}

// refusalCount is how often the scheduler refused impossible feedback, watermarks and tags. A command that came at the
// wrong time (NotNow) does not count.
func refusalCount(c *core.Counters) (n uint64) {
	for why, times := range c.GetRefused() {
		if core.Reason(why) != core.NotNow {
			n += times
		}
	}
	return n
}
