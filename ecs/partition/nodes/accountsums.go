package nodes

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/tagnet/core"
)

// accountSums are the sums that the checks compare, in a run in which units may have been excluded or lost. An excluded
// builder unit has counted more than the scheduler knows: it built MEPs whose outcomes came after the scheduler had
// given them to other builder units. A lost one has taken its last counts with it. So scheduler and builder units are
// compared for the other builder units alone.
type accountSums struct {
	report          *Report
	excludedBUs     []string         // builder units that were ever excluded, by node
	lostBUs         []string         // those of excludedBUs that were lost: another process may have come back
	schedulerCounts *core.BUCounters // counts of the scheduler for all builder units but excludedBUs
	builderCounts   counts           // counts of the nodes without excludedBUs
	presentCounts   counts           // counts of all nodes that are not lost

	excludedRUs   []string // readout units that were ever excluded, by node
	readoutCounts counts   // counts of the nodes without excludedRUs
}

// newAccountSums makes the sums of a run.
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
		if u.GetLost() || u.GetReturned() || vanished {
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

// countsWithout adds up the counters of all nodes but these.
func countsWithout(all []NodeCounters, nodes map[string]bool) counts {
	sums := map[string]uint64{}
	for _, n := range all {
		if !nodes[n.Node] {
			addCounters(sums, n.Counters)
		}
	}
	return countsOf(sums)
}

// mfpsCheck is the check of MFPs. A lost readout unit has taken its count of MFPs with it: then the check is of the
// MFPs of built MEPs alone.
func (b *accountSums) mfpsCheck(c *core.Counters, sources, ahead uint64) Check {
	placed := b.builderCounts.MFPsPlaced
	if len(b.excludedRUs) > 0 {
		return newCheck("MFPs of MEPs that were built = placed + missing", b.schedulerCounts.GetBuilt()*sources,
			placed+b.builderCounts.MFPsMissing)
	}
	return newCheck("MFPs read = placed + in other MEPs + read ahead", b.report.MFPsRead,
		placed+(c.GetBuilt()-b.schedulerCounts.GetBuilt()+c.GetDiscarded()+c.GetRejected()+c.GetAbandoned())*sources+ahead)
}

// comparesOutput says whether an output in shared memory can be compared with the scheduler's counts. Files are read
// back instead (outputs).
func (b *accountSums) comparesOutput() bool {
	return b.report.Output != "" && b.report.RecordedOutput == nil && len(b.excludedBUs) == 0
}

// comparesFilter says whether the filter's decisions can be compared with the scheduler's counts: not if a MEP may have
// been given to a second builder unit, since both may have judged it.
func (b *accountSums) comparesFilter() bool { return len(b.lostBUs) == 0 && len(b.excludedBUs) == 0 }

// listNotChecked says what is left out of the accounts, for which nodes, and why: a clause each.
func (b *accountSums) listNotChecked() (said []string) {
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	reported := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(b.report.Unreported, n) })
	}
	if len(b.report.Unreported) > 0 {
		say("counts of MFPs, bytes, chunks and tokens at %s: no final report came from there, and earlier counts are "+
			"out of date; the scheduler's accounts stand for the MEPs", strings.Join(b.report.Unreported, ", "))
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
