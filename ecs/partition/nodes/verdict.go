package nodes

import (
	"fmt"
	"strings"

	"ringlet/builderunit/recording"
	ecsrun "ringlet/ecs/run"
)

// ExitStatus is how the program ends.
type ExitStatus int

// Exit statuses, which are exit codes.
const (
	ExitGood     ExitStatus = 0 // every event is whole, or lacks what a setting allowed
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

// ExitStatus says how the program should end.
func (r *Report) ExitStatus() ExitStatus {
	switch {
	case r.hasFailed():
		return ExitFailed // worse than bad input, which is accounted for
	case r.EndCause == ecsrun.EndBadInput:
		return ExitBadInput
	}
	return ExitGood
}

// VerdictWord is what a run was worth: GOOD, DEGRADED, INCOMPLETE or ABORTED.
func (r *Report) VerdictWord() string {
	switch {
	case r.GivenUp:
		return verdictAborted
	case r.hasFailed() || r.EndCause == ecsrun.EndBadInput:
		return verdictIncomplete
	case r.Degraded || r.BrokenSource != "" || r.hasLoss(func(l recording.Loss) bool { return !l.Tolerated }):
		return verdictDegraded
	}
	return verdictGood
}

// hasFailed says that something is wrong that no setting allowed.
func (r *Report) hasFailed() bool {
	return !r.AccountingOK || r.Unmerged || r.Cause != nil || r.builtNothing() ||
		r.hasLoss(func(l recording.Loss) bool { return l.AllowedBy == "" })
}

// hasLoss says whether the run lost anything of a kind.
func (r *Report) hasLoss(such func(recording.Loss) bool) bool {
	for _, l := range r.listLosses() {
		if such(l) {
			return true
		}
	}
	return false
}

// builtNothing says that a run with live sources has begun, and has built nothing.
func (r *Report) builtNothing() bool {
	return r.Started != "" && len(r.Sources) > 0 && r.EventsBuilt+r.EventsRejected == 0
}

// setVerdict notes what the run was worth, and why, when its accounts are closed.
func (r *Report) setVerdict() {
	r.Losses = r.listLosses()
	r.VerdictName, r.VerdictReason = r.VerdictWord(), r.explainVerdict()
}

// maxReasons is how many reasons a sentence has.
const maxReasons = 6

// explainVerdict says why the verdict is what it is; nothing where nothing was lost.
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

// nonLossReasons are those for the verdict that are no losses.
func (r *Report) nonLossReasons() (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.Cause != nil {
		say("%s: %s", r.Cause.Component, r.Cause.What)
	}
	if r.EndCause == ecsrun.EndBadInput && r.BadInput != "" {
		say("%s", r.BadInput)
	}
	if r.EndUnknown {
		say("how it ended cannot be told by all of its nodes")
	}
	for _, c := range r.Accounts {
		if !c.OK {
			if o := r.RecordedOutput; o != nil && len(o.Problems) > 0 && !r.Unmerged {
				say("%s", o.Problems[0]) // what is wrong with a file comes before what follows
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
	return list
}

// emptyRunReason says why nothing was built of live sources, as far as their counters tell.
func emptyRunReason(sources []SourceReport) string {
	var came, refused uint64
	for _, s := range sources {
		came, refused = came+s.Fragments, refused+s.Refused
	}
	switch {
	case came > 0:
		return fmt.Sprintf("of %d fragments that came none was of an event that was built", came)
	case refused > 0:
		return fmt.Sprintf("no fragment was taken, and %d messages were refused", refused)
	}
	return "no fragment came"
}
