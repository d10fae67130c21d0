package nodes

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/ecs/partition/fault"
)

// vanished notes the nodes that were lost after they had stopped and before they told what they had counted in the end:
// what they told before is out of date. Where the policies do not bear that it is the cause of the verdict.
func (r *Run) vanished(out *Report) {
	if r.gaveUp || r.untold || r.startedAt.IsZero() {
		return
	}
	for _, n := range r.nodes {
		if !r.faults.done(n.latest()) && !r.away(n) {
			out.Unreported = append(out.Unreported, n.name)
		}
	}
	if d := out.Decisions; d != nil && slices.Contains(out.Unreported, d.Node) {
		d.Lost = true
	}
	if len(out.Unreported) == 0 || out.Cause != nil || r.bearsVanished(out.Unreported) {
		return
	}
	f := fault.Seen(strings.Join(out.Unreported, ", "), fault.PartProcess,
		fmt.Sprintf("lost after the run had ended and before the final report, which did not come in %v", finalTime))
	f.Advice = "What was built is in the output as far as this report says; what was not checked, it names. Look at " +
		"what ended the process or held it up: its log, the kernel for want of memory."
	out.Cause = &f
}

// away says that a node is lost to the run, which went on without it, or has left it in good order.
func (r *Run) away(n *member) bool {
	return r.lost(n.name) || ask(r.faults, func(c *fault.Core) bool { return c.Left(n.name) != "" })
}

// bearsVanished says whether the policies bear the loss of these nodes, beside those that were lost before.
func (r *Run) bearsVanished(names []string) bool {
	readout, builder := r.cfg.OnLossInRun()
	readers, takers := 0, 0
	for _, n := range r.nodes {
		if slices.Contains(names, n.name) && !n.view.GetReadout() && !n.view.GetBuilder() || n.name == r.cfg.DecisionNode &&
			slices.Contains(names, n.name) {
			return false
		}
		if r.away(n) || slices.Contains(names, n.name) {
			continue
		}
		if n.view.GetReadout() {
			readers++
		}
		if n.view.GetBuilder() {
			takers++
		}
	}
	return readout.Bears(readers) && builder.Bears(takers)
}
