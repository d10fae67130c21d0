package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ecsrun "ringlet/ecs/run"
	"ringlet/internal/plural"
	"ringlet/node/config"
	"ringlet/recording"
	"ringlet/source/live"
)

// ExitStatus is the exit code of the program.
type ExitStatus int

// Exit statuses.
const (
	ExitGood     ExitStatus = 0 // every event is whole, or lacks only what a setting allowed
	ExitFailed   ExitStatus = 1 // a fault, a loss that no setting allowed, or accounts that do not balance
	ExitBadInput ExitStatus = 3 // the input was bad; what came before the bad record is built
)

// Words of verdicts, as records and manifests have them.
const (
	verdictGood       = "GOOD"
	verdictDegraded   = "DEGRADED"
	verdictIncomplete = "INCOMPLETE"
	verdictAborted    = "ABORTED"
)

// ExitStatus is the exit code for the run.
func (r *Report) ExitStatus() ExitStatus {
	switch {
	case r.hasFailed():
		return ExitFailed // worse than bad input, which is accounted for
	case r.EndCause == ecsrun.EndBadInput:
		return ExitBadInput
	}
	return ExitGood
}

// VerdictWord is the verdict of the run: GOOD, DEGRADED, INCOMPLETE or ABORTED.
func (r *Report) VerdictWord() string {
	switch {
	case r.GivenUp:
		return verdictAborted
	case r.hasFailed() || r.EndCause == ecsrun.EndBadInput:
		return verdictIncomplete
	case r.Degraded || r.BrokenSource != "" || r.Slips > 0 ||
		r.hasLoss(func(l recording.Loss) bool { return !l.Tolerated }):
		return verdictDegraded
	}
	return verdictGood
}

// hasFailed says that the run has a fault or a loss that no setting allowed, or accounts that do not balance.
func (r *Report) hasFailed() bool {
	return !r.AccountingOK || r.Unmerged || r.Cause != nil || r.builtNothing() ||
		r.hasLoss(func(l recording.Loss) bool { return l.AllowedBy == "" })
}

// hasLoss says whether such holds for any loss of the run.
func (r *Report) hasLoss(such func(recording.Loss) bool) bool {
	for _, l := range r.listLosses() {
		if such(l) {
			return true
		}
	}
	return false
}

// builtNothing says that a run with live sources has begun, and has built and rejected no event.
func (r *Report) builtNothing() bool {
	return r.Started != "" && len(r.Sources) > 0 && r.EventsBuilt+r.EventsRejected == 0
}

// setVerdict sets losses, verdict and reason, when the accounts are closed.
func (r *Report) setVerdict() {
	r.Losses = r.listLosses()
	r.VerdictName, r.VerdictReason = r.VerdictWord(), r.explainVerdict()
}

// maxDriftReasons is how many drifts are reasons, one each.
const maxDriftReasons = 2

// maxReasons bounds the reasons in VerdictReason.
const maxReasons = 6

// explainVerdict is the reason for the verdict; empty if nothing was lost.
func (r *Report) explainVerdict() string {
	reasons := r.nonLossReasons()
	for _, l := range r.Losses {
		reasons = append(reasons, l.String())
	}
	if more := len(reasons) - maxReasons; more > 0 {
		reasons = append(reasons[:maxReasons], fmt.Sprintf("and %d losses more", more))
	}
	return strings.Join(reasons, "; ")
}

// nonLossReasons are the reasons for the verdict other than losses.
func (r *Report) nonLossReasons() (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.Cause != nil {
		say("%s: %s", r.Cause.Component, r.Cause.What)
	}
	if r.EndCause == ecsrun.EndBadInput && r.BadInput != "" {
		say("%s", r.BadInput)
	}
	if r.EndUnknown {
		say("not all of its nodes could report how it ended")
	}
	for _, c := range r.Accounts {
		if !c.OK {
			if o := r.RecordedOutput; o != nil && len(o.Problems) > 0 && !r.Unmerged {
				say("%s", o.Problems[0]) // a problem of a file is why they do not balance
			}
			say("the accounts do not balance: %s", c)
			break
		}
	}
	if r.Unmerged && r.RecordedOutput != nil && len(r.RecordedOutput.Problems) > 0 {
		say("%s", r.RecordedOutput.Problems[len(r.RecordedOutput.Problems)-1])
	}
	if r.builtNothing() && r.Cause == nil {
		say("nothing was built: %s", emptyRunReason(r.Sources))
	}
	if r.BrokenSource != "" {
		say("%s", r.BrokenSource)
	}
	for i, d := range r.Drifts {
		if i == maxDriftReasons {
			say("%d slips in all", r.Slips)
			break
		}
		say("%s", d.What)
	}
	return list
}

// emptyRunReason says why nothing was built of live sources, by their counters.
func emptyRunReason(sources []SourceReport) string {
	var came, refused uint64
	for _, s := range sources {
		came, refused = came+s.Fragments, refused+s.Refused
	}
	switch {
	case came > 0:
		return fmt.Sprintf("%d fragments came, and none was of an event that was built", came)
	case refused > 0:
		return fmt.Sprintf("no fragment was taken, and %d messages were refused", refused)
	}
	return "no fragment came"
}

// listLosses lists the losses of a run, each once, with the setting that allowed it. These are no losses: fragments
// that a front-end still has, since the readout unit did not acknowledge them; fragments that came after the end of the
// run; refused messages, which other programs may have sent (if one was a fragment, that counts as missing).
func (r *Report) listLosses() []recording.Loss {
	l := &lossList{}
	l.add("abandoned", "", r.EventsAbandoned, "events", "")
	l.add("discarded", "", r.EventsDiscarded, "events", "overload: discard")
	l.add("skipped", "the input", r.RecordsSkipped, "records", "on-bad-record: skip")
	r.sourceLosses(l)
	r.unitLosses(l)
	r.outputLosses(l)
	return l.list
}

// lossList gathers losses.
type lossList struct{ list []recording.Loss }

// add appends a loss if count is not 0.
func (l *lossList) add(what, source string, count uint64, unit, allowed string) {
	if count > 0 {
		l.list = append(l.list, recording.Loss{What: what, Subject: source, Count: count, Unit: unit, AllowedBy: allowed})
	}
}

// sourceLosses appends the losses of live sources. A fragment that came late, was lost on the way or was dropped by its
// front-end is also missing in its event: this counts as one loss. If there are more of these than missing fragments,
// the rest belongs to no event, and is a loss of its own.
func (r *Report) sourceLosses(l *lossList) {
	allowed := "on-missing: " + live.MarkMissing.String()
	if how := cmp.Or(r.OnMissing, live.MarkMissing.String()); how != live.MarkMissing.String() {
		allowed = ""
	}
	tolerance, _ := config.ParseTolerance(r.TolerateMissing) // it was checked
	for _, s := range r.Sources {
		missing := len(l.list)
		l.add("missing", s.Name, s.MissingWhenBuilt, "fragments", allowed)
		if s.MissingWhenBuilt > 0 && tolerance.Tolerates(s.MissingWhenBuilt, s.MissingWhenBuilt+s.UsedInMEPs) {
			l.list[missing].Tolerated, l.list[missing].AllowedBy = true, "tolerate-missing: "+tolerance.Text
		}
		known := s.MissingWhenBuilt
		for _, of := range []struct {
			what  string
			count uint64
		}{{"late", s.Late}, {"lost on the way", s.ArrivedIncomplete}, {"dropped by the front-end", s.Dropped}} {
			explained := min(known, of.count)
			known -= explained
			l.add(of.what, s.Name, of.count-explained, "fragments", "")
		}
		l.add("repeated", s.Name, s.Repeats, "fragments", "")
		l.add("thrown away since their number ran backwards", s.Name, s.Backwards, "fragments", "")
		l.add("thrown away since their number jumped", s.Name, s.Jumps, "fragments", "")
		l.add("thrown away since no event was at their time", s.Name, s.Unmatched, "fragments", "")
		if r.EndCause == ecsrun.EndInput && r.Cause == nil { // else they came after the end of the run
			l.add("left over", s.Name, s.UnusedAtEnd, "fragments", "")
		}
	}
}

// unitLosses appends the losses of units that the run went on without.
func (r *Report) unitLosses(l *lossList) {
	for _, x := range r.UnitOutages {
		n := uint64(x.LastSource - x.FirstSource + 1)
		l.add("missing", plural.NamedRange("source", uint64(x.FirstSource), uint64(x.LastSource))+" of "+x.Node, x.Events*n,
			"fragments", "readout-loss")
	}
	out := slices.Clone(r.InactiveBuilders)
	if r.FirstLoss != nil && !slices.Contains(out, r.FirstLoss.Component) {
		out = append(out, r.FirstLoss.Component)
	}
	for _, node := range out {
		what, allowed := "lost or excluded", "builder-loss"
		switch {
		case slices.Contains(r.Leavers, node):
			what = "told to end"
		case r.FirstLoss != nil && r.FirstLoss.Component == node:
			what = "lost"
		}
		if !slices.Contains(r.InactiveBuilders, node) &&
			slices.ContainsFunc(r.UnitOutages, func(x recording.UnitOutages) bool { return x.Node == node }) {
			allowed = "readout-loss"
		}
		l.add(what, node, 1, "units", allowed)
	}
	if r.Degraded && len(out)+len(r.UnitOutages) == 0 {
		l.add("excluded for a time", "", 1, "units", "builder-loss")
	}
	if r.Cause == nil {
		for _, node := range r.Unreported {
			l.add("lost before its last report", node, 1, "units", "builder-loss or readout-loss")
		}
	}
}

// outputLosses appends the losses of MEPs that were handed to other programs. If files have every event, none is lost.
func (r *Report) outputLosses(l *lossList) {
	if r.RecordedOutput != nil && r.sendsAllToAll() || r.OutputStreams == nil && r.RecordedOutput != nil {
		return
	}
	for _, n := range r.Counters {
		c := countsOf(n.Counters)
		l.add("handed to a buffer that nobody read", n.Node, c.OutputUnread, "MEPs", "")
		l.add("held by readers of a buffer that died", n.Node, c.OutputLost, "MEPs", "")
	}
}

// UnreadBuffers is a sentence for each builder unit that handed MEPs to a buffer without a reader, whether that is a
// loss or not.
func (r *Report) UnreadBuffers() (said []string) {
	for _, n := range r.Counters {
		if k := countsOf(n.Counters).OutputUnread; k > 0 {
			said = append(said, fmt.Sprintf("no program has read the buffer of %s, to which %d MEPs were handed: "+
				"start its reader "+
				"before the run, or leave out that output", n.Node, k))
		}
	}
	return said
}
