package control

import (
	"strings"

	"ringlet/internal/node"
)

// Conclude closes the accounts of a run that is over on its nodes, with what can still be told: missing names who
// cannot tell any more. Outputs are left as they are.
func (r *Run) Conclude(missing []string) *Report {
	r.ending.Store(true)
	r.faults.silence()
	r.collect()
	report := r.report(nil)
	report.AccountingOK = report.AccountingOK && len(missing) == 0
	if len(missing) > 0 {
		report.NotChecked = append(report.NotChecked, "the end of the run was found when the control came back: "+
			strings.Join(missing, ", ")+" can tell nothing of it any more")
	}
	if report.EventsTriggered == 0 { // the scheduler, whose figures these are, cannot tell
		var built uint64
		for _, n := range report.Counters {
			report.MEPsBuilt += n.Counters["bu.meps_built"]
			built += n.Counters["bu.output_events"]
		}
		report.EventsBuilt = built // no more than who reads the outputs finds
	}
	if node.Parts(r.cfg) {
		report.NotChecked = append(report.NotChecked,
			"the parts of the output were not put together: they stand as the builder units have left them")
	}
	return report
}
