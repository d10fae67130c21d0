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

// nodeProgress counts what moves at a node while a run comes to its end there, as it told last: bytes placed there,
// writes to others that have their outcome, MEPs, and bytes in its output.
func nodeProgress(rep *nodev1.Report) (n uint64) {
	c := reportedCounts(rep)
	n = c.BytesPlaced + c.WritesCompleted + c.OutputBytes + c.MEPsBuilt + c.MEPsIncomplete + c.MEPsDiscarded +
		c.MEPsRejected
	if rep.GetFinal() {
		n++
	}
	return n
}

// outcomeCount counts the MEPs that have one.
func outcomeCount(c *core.Counters) uint64 {
	return c.GetBuilt() + c.GetDiscarded() + c.GetRejected() + c.GetAbandoned()
}

// ProgressCount counts whatever moves while the run comes to its end: outcomes of MEPs, bytes placed, bytes in outputs,
// nodes that are done. A stop waits for as long as it changes.
func (r *Run) ProgressCount() uint64 {
	stats := r.LastStats()
	n := outcomeCount(stats.GetCounters())
	for _, m := range r.nodes {
		n += nodeProgress(m.latestReport())
	}
	return n
}

// WaitReason says what the end of the run waits for, as a clause: MEPs without an outcome, and then nodes that are not
// done.
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

// unendedReadouts are the readout units with live sources that have not told yet where their data end.
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

// drainStallTimeout is how long the end of a run may go without any progress, see Run.ProgressCount, before it is a
// fault that names what it waits for. How long it takes while it moves, nobody bounds: an output may be large, its disk
// slow, its nodes more than the machine has processors. A MEP has its outcome in less than a second elsewhere, and a
// disk that confirms what was written last takes some.
const drainStallTimeout = 30 * time.Second

// stallFault is the fault of nodes that were told to stop, and at which nothing has moved for stopStallTimeout; nil if
// that is not why ctx has ended.
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

// forcedStopFault is the fault of a node that stopped by force, since nothing had moved there for too long; nil if none
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

// Progress is how a run stands.
type Progress struct {
	Elapsed       time.Duration
	Events        uint64   // built
	Bytes         uint64   // of MFPs in complete MEPs
	MEPsInFlight  uint64   // MEPs
	ChunksResent  uint64   // chunks
	State         string   // of the scheduler
	WaitReason    string   // what the end of the run waits for; empty while it is not to end
	SilentSources []string // live sources of which no fragment has come
}

// Progress tells how the run stands.
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

// stallCause names what a run that drains waits for. unended are readout units with live sources that have not ended.
func stallCause(reg *core.Registers, unended []string) fault.Fault {
	f := fault.Fault{Evidence: "seen by the scheduler"}
	if reg.GetInFlight() == 0 && reg.GetTags().GetNow() == 0 && len(unended) > 0 {
		f.Component, f.Subsystem = strings.Join(unended, ", "), "input"
		f.What = fmt.Sprintf("the readout unit has not told for %v where its data end, while the run was to end",
			drainStallTimeout)
		return f
	}
	if reg.GetTags().GetNow() > 0 { // a tag that has its window waits for no output
		f.Component = "the ring"
		f.What = fmt.Sprintf(
			"%d tags have not come round and %d MEPs have had no outcome for %v while the run was to end; a readout unit "+
				"holds or has lost a tag",
			reg.GetTags().GetNow(), reg.GetInFlight(), drainStallTimeout)
		return f
	}
	f.Component, f.Subsystem = strings.Join(busyBuilders(reg), ", "), node.SubsystemBuilder
	f.What = fmt.Sprintf("%d MEPs have had no outcome for %v while the run was to end, and nothing else has moved; "+
		"an output that nobody reads or that is stuck holds them up",
		reg.GetInFlight(), drainStallTimeout)
	return f
}
