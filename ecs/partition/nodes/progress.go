package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/stopwatch"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// nodeProgress sums the counters of a node that grow while a run ends there: bytes placed, writes with an outcome,
// MEPs, and bytes in its output. While the sum changes, the node makes progress.
func nodeProgress(rep *nodev1.Report) (n uint64) {
	c := reportedCounts(rep)
	n = c.BytesPlaced + c.WritesCompleted + c.OutputBytes + c.MEPsBuilt + c.MEPsIncomplete + c.MEPsDiscarded +
		c.MEPsRejected
	if rep.GetFinal() {
		n++
	}
	return n
}

// outcomeCount is the number of MEPs with an outcome.
func outcomeCount(c *core.Counters) uint64 {
	return c.GetBuilt() + c.GetDiscarded() + c.GetRejected() + c.GetAbandoned()
}

// ProgressCount sums the counters that grow while the run ends: outcomes of MEPs and the nodes' counters of
// nodeProgress. A stop does not time out while it changes.
func (r *Run) ProgressCount() uint64 {
	stats := r.LastStats()
	n := outcomeCount(stats.GetCounters())
	for _, m := range r.nodes {
		n += nodeProgress(m.latestReport())
	}
	return n
}

// WaitReason is a clause on what the end of the run waits for: MEPs without an outcome, then the end of live data, then
// nodes without a final report.
func (r *Run) WaitReason() string {
	stats := r.LastStats()
	if reg := stats.Registers; reg.GetInFlight() > 0 && core.State(reg.GetState()) != core.Drained {
		who := ""
		if names := busyBuilders(reg); len(names) > 0 {
			who = " at " + strings.Join(names, ", ")
		}
		return fmt.Sprintf("%d MEPs%s that have no outcome yet", reg.GetInFlight(), who)
	}
	if names := r.unendedReadouts(stats.Registers); len(names) > 0 {
		return "the last data of " + strings.Join(names, ", ")
	}
	var busy []string
	for _, n := range r.nodes {
		rep := n.latestReport()
		if r.isUnavailable(n) || r.faults.isFinal(rep) {
			continue
		}
		what := n.name
		if rep.GetSeat().GetBuilder() && r.cfg.Output != "" {
			what += fmt.Sprintf(", which has written %d MB of its output", reportedCounts(rep).OutputBytes/1e6)
		}
		busy = append(busy, what)
	}
	if len(busy) == 0 {
		return "the accounts"
	}
	return strings.Join(busy, "; ")
}

// unendedReadouts are the readout units with live sources that have not told the scheduler yet where their data end.
func (r *Run) unendedReadouts(reg *core.Registers) (names []string) {
	if !r.cfg.HasLiveSources() || core.State(reg.GetState()) != core.Draining {
		return nil
	}
	for _, u := range reg.GetRus() {
		if !u.GetEnded() && !u.GetExcluded() {
			names = append(names, u.GetName())
		}
	}
	return names
}

// busyBuilders are the builder units that have MEPs without an outcome.
func busyBuilders(reg *core.Registers) (names []string) {
	for _, b := range reg.GetBus() {
		if b.GetUsed().GetNow() > 0 {
			names = append(names, b.GetName())
		}
	}
	return names
}

// drainStallTimeout is how long the drain of a run may go without progress (Run.ProgressCount) before it is a fault.
// The time with progress has no bound, since an output may be large and its disk slow. Otherwise a MEP has its outcome
// in less than 1 s, and an fsync of the last data takes some seconds.
const drainStallTimeout = 30 * time.Second

// stallFault is the fault of the nodes that have made no progress for stopStallTimeout after stop; nil if ctx has ended
// for another reason.
func (r *Run) stallFault(ctx context.Context) *fault.Error {
	var still *stopwatch.StallError
	if !errors.As(context.Cause(ctx), &still) {
		return nil
	}
	var names []string
	for _, n := range r.nodes {
		if !r.isUnavailable(n) && !r.faults.isFinal(n.latestReport()) {
			names = append(names, n.name)
		}
	}
	return &fault.Error{Fault: fault.SeenByControl(strings.Join(names, ", "), node.SubsystemOutput,
		fmt.Sprintf("told to stop, and %v: the run waits for %s", still, r.WaitReason()))}
}

// forcedStopFault is the fault of a node that stopped by force, since it had made no progress for too long; nil if none
// did.
func (r *Run) forcedStopFault() *fault.Error {
	for _, n := range r.nodes {
		rep := n.latestReport()
		if c := rep.GetStatus().GetCause(); r.faults.isFinal(rep) && !r.isUnavailable(n) && c.GetCode() == node.CodeForced {
			return &fault.Error{Fault: fault.Fault{
				Component: n.name,
				Subsystem: node.SubsystemOutput,
				What:      "it stopped by force, since nothing moved there any more: " + c.GetWhat(),
				Evidence:  c.GetEvidence(),
			}}
		}
	}
	return nil
}

// Progress is the state of a run in figures.
type Progress struct {
	Elapsed       time.Duration
	Events        uint64 // built
	Bytes         uint64 // of MFPs in complete MEPs
	MEPsInFlight  uint64
	ChunksResent  uint64
	State         string   // of the scheduler
	WaitReason    string   // what the end of the run waits for; empty while the run is not ending
	SilentSources []string // live sources that have sent no fragment yet
}

// Progress asks the scheduler for its figures, and returns those of the run.
func (r *Run) Progress() Progress {
	reg := r.Stats().Registers
	p := Progress{
		Elapsed:       time.Since(r.State().Begun),
		Events:        reg.GetCounters().GetEventsBuilt(),
		MEPsInFlight:  reg.GetInFlight(),
		State:         core.State(reg.GetState()).String(),
		SilentSources: r.silentSources(),
	}
	if r.isEnding() {
		p.WaitReason = r.WaitReason()
	}
	for _, n := range r.nodes {
		c := reportedCounts(n.latestReport())
		p.Bytes, p.ChunksResent = p.Bytes+c.BytesBuilt, p.ChunksResent+c.ChunksResent
	}
	return p
}

// stallCause is the fault of a drain without progress: what it waits for. unended are the readout units of
// unendedReadouts.
func stallCause(reg *core.Registers, unended []string) fault.Fault {
	f := fault.Fault{Evidence: "seen by the scheduler"}
	if reg.GetInFlight() == 0 && reg.GetTags().GetNow() == 0 && len(unended) > 0 {
		f.Component, f.Subsystem = strings.Join(unended, ", "), "input"
		f.What = fmt.Sprintf("the readout unit has not told the scheduler for %v where its data end, while the "+
			"run was to end",
			drainStallTimeout)
		return f
	}
	if reg.GetTags().GetNow() > 0 { // a tag does not wait for outputs
		f.Component = "the ring"
		f.What = fmt.Sprintf(
			"%d tags have not come round and %d MEPs have had no outcome for %v while the run was to end; a readout unit "+
				"holds or has lost a tag",
			reg.GetTags().GetNow(), reg.GetInFlight(), drainStallTimeout)
		return f
	}
	f.Component, f.Subsystem = strings.Join(busyBuilders(reg), ", "), node.SubsystemBuilder
	f.What = fmt.Sprintf("%d MEPs have had no outcome for %v while the run was to end, and nothing else has moved; "+
		"an output that is stuck or has no reader holds them up",
		reg.GetInFlight(), drainStallTimeout)
	return f
}
