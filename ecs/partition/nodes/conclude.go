package nodes

import (
	"strings"

	"ringlet/ecs/partition/fault"
)

// Conclude closes the accounts of a run that is over on its nodes, with what can still be told: missing names who
// cannot tell any more.
func (r *Run) Conclude(missing []string) *Report {
	r.isEnding.Store(true)
	r.linked.Store(false)
	r.faults.updateCore((*fault.Core).IgnoreFaults)
	r.collectReports()
	r.endUnknown = len(missing) > 0
	report := r.makeReport(nil)
	if r.endUnknown {
		report.NotChecked = append(report.NotChecked, "the end of the run was found when the control came back: "+
			strings.Join(missing, ", ")+" can tell nothing of it any more")
	}
	if report.EventsTriggered == 0 { // the scheduler, whose figures these are, cannot tell
		report.fillBuilt()
	}
	return report
}

// fillBuilt fills in what was built where the scheduler cannot tell: no more than a reader of the output finds.
func (r *Report) fillBuilt() {
	if r.RecordedOutput != nil {
		r.MEPsBuilt, r.EventsBuilt = r.RecordedOutput.MEPs, r.RecordedOutput.Events
		return
	}
	r.EventsBuilt = 0
	for _, n := range r.Counters {
		r.MEPsBuilt += n.Counters["bu.meps_built"]
		r.EventsBuilt += n.Counters["bu.output_events"]
	}
}
