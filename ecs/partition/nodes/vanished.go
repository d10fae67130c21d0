package nodes

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/ecs/partition/fault"
)

// noteUnreported notes the nodes that were lost after the run's end and before their final report, so that their last
// counts are out of date. If the loss policies do not tolerate their loss, it is the cause of the verdict.
func (r *reporter) noteUnreported(out *Report) {
	if r.now.GivenUp || len(r.now.Missing) > 0 || r.now.Begun.IsZero() {
		return
	}
	for _, n := range r.nodes {
		if !r.faults.isFinal(n.latestReport()) && !r.Presence(n.name).HasLeftRun() {
			out.Unreported = append(out.Unreported, n.name)
		}
	}
	if d := out.Decisions; d != nil && slices.Contains(out.Unreported, d.Node) {
		d.NodeLost = true
	}
	if len(out.Unreported) == 0 || out.Cause != nil || r.toleratesUnreported(out.Unreported) {
		return
	}
	f := fault.SeenByControl(strings.Join(out.Unreported, ", "), fault.SubsystemProcess,
		fmt.Sprintf("lost after the run had ended and before the final report, which did not come in %v",
			r.cfg.Timeouts().Control))
	f.Advice = "What was built is in the output as far as this report says; what was not checked, it names. Look at " +
		"what ended the process or held it up: its log, the kernel for want of memory."
	out.Cause = &f
}

// toleratesUnreported says whether the loss policies tolerate the loss of these nodes in addition to earlier losses.
func (r *reporter) toleratesUnreported(names []string) bool {
	readout, builder := r.cfg.LossPolicies()
	readouts, builders := 0, 0
	for _, n := range r.nodes {
		if slices.Contains(names, n.name) && !n.firstEntry.GetReadout() && !n.firstEntry.GetBuilder() ||
			n.name == r.cfg.DecisionNode &&
				slices.Contains(names, n.name) {
			return false
		}
		if r.Presence(n.name).HasLeftRun() || slices.Contains(names, n.name) {
			continue
		}
		if n.firstEntry.GetReadout() {
			readouts++
		}
		if n.firstEntry.GetBuilder() {
			builders++
		}
	}
	return readout.Tolerates(readouts) && builder.Tolerates(builders)
}
