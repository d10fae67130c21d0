package main

import (
	"fmt"
	"strings"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// judgeRecord checks the record of a run for rules that hold under all faults.
func judgeRecord(run *ecsv1.Run) (problems []string) {
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("run %d: ", run.GetNumber())+fmt.Sprintf(format, args...))
	}
	good := run.GetVerdict() == ecsv1.Verdict_VERDICT_GOOD
	for _, a := range run.GetAccounts() {
		if good && !a.GetOk() {
			add("GOOD, and %s is %d on one side and %d on the other", a.GetName(), a.GetLeft(), a.GetRight())
		}
	}
	if run.GetVerdict() == ecsv1.Verdict_VERDICT_ABORTED && run.GetCause().GetWhat() == "" { // soak gives no command abort
		add("ABORTED, and it does not say why")
	}
	// No fault lasts as long as the time after which a run reports a stall.
	if what := run.GetCause().GetWhat(); strings.Contains(what, "nothing has moved") {
		add("it hung: %s", what)
	}
	if run.GetReportJson() == "" {
		return problems
	}
	r, err := parseFigures(run)
	if err != nil {
		add("its report cannot be read: %v", err)
	}
	// If the scheduler was killed, the record has only its last accounts. They lack outcomes, and say so.
	if sum := r.Built + r.Discarded + r.Rejected + r.Abandoned; sum != r.Triggered && claimsBalance(run) {
		add("%d events were triggered, and %d have an outcome", r.Triggered, sum)
	}
	if r.Built != run.GetEventsBuilt() {
		add("the record says %d events built, its report %d", run.GetEventsBuilt(), r.Built)
	}
	return problems
}

// judgeTrial checks the outcome of a run of the plan.
func judgeTrial(r plannedRun, t *trial) (problems []string) {
	for _, run := range t.Runs {
		problems = append(problems, judgeRecord(run)...)
	}
	if len(t.Problems) > 0 {
		return problems // the trial was not completed
	}
	struck := len(t.FaultsMade) > 0
	if len(t.Runs) == 0 && !struck {
		return append(problems, "no fault, and no run")
	}
	if r.mustEndGood() && (t.AllFaultsInRun || !struck) {
		for _, run := range t.Runs {
			onPurpose := r.Policy.Overload != "" && run.GetVerdict() == ecsv1.Verdict_VERDICT_DEGRADED // discarded events
			if v := run.GetVerdict(); v != ecsv1.Verdict_VERDICT_GOOD && !onPurpose {
				problems = append(problems, fmt.Sprintf("run %d: %s, and nothing happened that excuses it: %s",
					run.GetNumber(), verdict(run), endReason(run)))
			}
		}
	}
	if r.MustGoOn && t.AllFaultsInRun {
		problems = append(problems, judgeGoingOn(r, t)...)
	}
	if !struck && len(t.Runs) > 0 && t.Runs[0].GetEventsBuilt() == 0 {
		problems = append(problems, fmt.Sprintf("run %d: no fault, and no event", t.Runs[0].GetNumber()))
	}
	return problems
}

// endReason says why a run ended: the reason of the record, the first fault, and accounts that do not balance.
func endReason(run *ecsv1.Run) string {
	out := run.GetEnd()
	if c := run.GetCause(); c != nil {
		out += fmt.Sprintf(": %s: %s (%s)", c.GetComponent(), c.GetWhat(), c.GetEvidence())
	}
	for _, a := range run.GetAccounts() {
		if !a.GetOk() {
			out += fmt.Sprintf("; %s: %d and %d", a.GetName(), a.GetLeft(), a.GetRight())
		}
	}
	return out
}
