package nodes

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/tagnet/core"
)

// accountSums are the figures of a run in which builder units may have been excluded or lost. What an excluded one
// counted is more than the scheduler knows of it, since outcomes that came too late are nobody's; what a lost one
// counted is lost with it, but for what it told a while before. So both are compared for the others alone.
type accountSums struct {
	report          *Report
	excludedBUs     []string         // builder units that were ever excluded, by node
	lostBUs         []string         // those of them that are lost
	schedulerCounts *core.BUCounters // of the scheduler, on the others
	builderCounts   counts           // what the nodes of the others tell of their builder units
	presentCounts   counts           // what all nodes tell that are not lost

	excludedRUs   []string // readout units that were ever excluded, by node
	readoutCounts counts   // what the nodes of the others tell
}

// newAccountSums sorts figures. Where no builder unit was ever excluded there is nothing to sort.
func newAccountSums(r *Report, reg *core.Registers, sums counts) *accountSums {
	b := &accountSums{
		report:        r,
		builderCounts: sums,
		presentCounts: sums,
		readoutCounts: sums,
	}
	c := reg.GetCounters()
	b.schedulerCounts = &core.BUCounters{Built: c.GetBuilt(), Discarded: c.GetDiscarded(), Rejected: c.GetRejected()}
	out, lost := map[string]bool{}, map[string]bool{}
	for _, u := range reg.GetBus() {
		vanished := slices.Contains(r.Unreported, u.GetName())
		if u.GetCounters().GetExclusions() == 0 && !vanished {
			continue
		}
		b.excludedBUs, out[u.GetName()] = append(b.excludedBUs, u.GetName()), true
		b.schedulerCounts.Built -= u.GetCounters().GetBuilt()
		b.schedulerCounts.Discarded -= u.GetCounters().GetDiscarded()
		b.schedulerCounts.Rejected -= u.GetCounters().GetRejected()
		if u.GetLost() || vanished {
			b.lostBUs, lost[u.GetName()] = append(b.lostBUs, u.GetName()), true
		}
	}
	gone := map[string]bool{}
	for _, u := range reg.GetRus() {
		if u.GetExclusions() > 0 || slices.Contains(r.Unreported, u.GetName()) {
			b.excludedRUs, gone[u.GetName()], lost[u.GetName()] = append(b.excludedRUs, u.GetName()), true, true
		}
	}
	if len(b.excludedBUs) == 0 && len(b.excludedRUs) == 0 {
		return b
	}
	b.builderCounts, b.presentCounts = countsWithout(r.Counters, out), countsWithout(r.Counters, lost)
	if len(b.excludedRUs) > 0 {
		b.readoutCounts = countsWithout(r.Counters, gone)
	}
	return b
}

// countsWithout adds up what all nodes have told but some.
func countsWithout(all []NodeCounters, nodes map[string]bool) counts {
	sums := map[string]uint64{}
	for _, n := range all {
		if !nodes[n.Node] {
			addCounters(sums, n.Counters)
		}
	}
	return countsOf(sums)
}

// mfpsCheck is the check of MFPs. What a readout unit has read that was lost is lost with it: then those of the MEPs
// that were built are checked alone.
func (b *accountSums) mfpsCheck(c *core.Counters, sources, ahead uint64) Check {
	placed := b.builderCounts.MFPsPlaced
	if len(b.excludedRUs) > 0 {
		return newCheck("MFPs of MEPs that were built = placed + missing", b.schedulerCounts.GetBuilt()*sources,
			placed+b.builderCounts.MFPsMissing)
	}
	return newCheck("MFPs read = placed + in other MEPs + read ahead", b.report.MFPsRead,
		placed+(c.GetBuilt()-b.schedulerCounts.GetBuilt()+c.GetDiscarded()+c.GetRejected()+c.GetAbandoned())*sources+ahead)
}

// comparesOutput tells whether a shared-memory output can be compared with the scheduler's counts. Files are read back
// instead.
func (b *accountSums) comparesOutput() bool {
	return b.report.Output != "" && b.report.RecordedOutput == nil && len(b.excludedBUs) == 0
}

// comparesFilter tells whether the filter's decisions can be compared with the scheduler's counts: a MEP that was given
// to a second builder unit may have been judged by both.
func (b *accountSums) comparesFilter() bool { return len(b.lostBUs) == 0 && len(b.excludedBUs) == 0 }

// listNotChecked says, by name, what is left out of the accounts.
func (b *accountSums) listNotChecked() (said []string) {
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	reported := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(b.report.Unreported, n) })
	}
	if len(b.report.Unreported) > 0 {
		say("what %s counted of MFPs, bytes, chunks and tokens: no final report came from there, and what was told before "+
			"is out of date; the scheduler's accounts stand for the MEPs", strings.Join(b.report.Unreported, ", "))
	}
	if who := strings.Join(reported(b.excludedBUs), ", "); who != "" {
		say("MEPs and MFPs as %s counted them, since they were excluded and their MEPs given to others: the scheduler's "+
			"accounts stand for them", who)
		say("tokens never asked for at %s, for the same reason", who)
	}
	if who := strings.Join(reported(b.lostBUs), ", "); who != "" {
		say("bytes and chunks that were placed at %s, which are lost, and their last figures with them", who)
	}
	if b.report.Filter != nil && !b.comparesFilter() {
		say("decisions of the filter: MEPs that were given to others may have been judged twice")
	}
	if who := strings.Join(reported(b.excludedRUs), ", "); who != "" {
		say("MFPs that %s read, and bytes and chunks that were sent there: what was counted there was lost with it", who)
	}
	if b.report.Output != "" && b.report.RecordedOutput == nil && !b.comparesOutput() {
		say("events in the output: %s may have handed out MEPs whose outcome came too late, and that others handed out again",
			strings.Join(b.excludedBUs, ", "))
	}
	return said
}
