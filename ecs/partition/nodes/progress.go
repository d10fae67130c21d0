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
	"ringlet/tagnet"
)

// moved counts what moves at a node while a run comes to its end there, as it told last: bytes placed there,
// writes to others that have their outcome, MEPs, and bytes in its output.
func moved(rep *nodev1.Report) (n uint64) {
	for _, name := range []string{
		"link.bytes_placed", "link.writes_completed", node.CounterWritten,
		"bu.meps_built", "bu.meps_incomplete", "bu.meps_discarded", "bu.meps_rejected",
	} {
		n += rep.GetCounters()[name]
	}
	if rep.GetFinal() {
		n++
	}
	return n
}

// outcomes counts the MEPs that have one.
func outcomes(c *tagnet.Counters) uint64 {
	return c.GetBuilt() + c.GetIncomplete() + c.GetDiscarded() + c.GetRejected() + c.GetAbandoned()
}

// Moved counts whatever moves while the run comes to its end: outcomes of MEPs, bytes placed, bytes in outputs, nodes
// that are done. A stop waits for as long as it changes.
func (r *Run) Moved() uint64 {
	told := r.LastStats()
	n := outcomes(told.GetCounters())
	for _, m := range r.nodes {
		n += moved(m.latest())
	}
	return n
}

// WaitsFor says what the end of the run waits for, as a clause: MEPs without an outcome, and then nodes that are not
// done.
func (r *Run) WaitsFor() string {
	told := r.LastStats()
	if reg := told.Registers; reg.GetInFlight() > 0 && tagnet.State(reg.GetState()) != tagnet.Drained {
		who := ""
		if names := holders(reg); len(names) > 0 {
			who = " at " + strings.Join(names, ", ")
		}
		return fmt.Sprintf("%d MEPs%s that have no outcome yet", reg.GetInFlight(), who)
	}
	if names := r.giving(told.Registers); len(names) > 0 {
		return "the last data of " + strings.Join(names, ", ")
	}
	var busy []string
	for _, n := range r.nodes {
		rep := n.latest()
		if r.passed(n) || r.faults.done(rep) {
			continue
		}
		what := n.name
		if rep.GetSeat().GetBuilder() && r.cfg.Output != "" {
			what += fmt.Sprintf(", which has written %d MB of its output", rep.GetCounters()[node.CounterWritten]/1e6)
		}
		busy = append(busy, what)
	}
	if len(busy) == 0 {
		return "the accounts"
	}
	return strings.Join(busy, "; ")
}

// giving are the readout units with live sources that have not told yet where their data end.
func (r *Run) giving(reg *tagnet.Registers) (names []string) {
	if !r.cfg.Live() || tagnet.State(reg.GetState()) != tagnet.Draining {
		return nil
	}
	for _, u := range reg.GetRus() {
		if !u.GetEnded() && !u.GetExcluded() {
			names = append(names, u.GetName())
		}
	}
	return names
}

// holders are the builder units that have MEPs without an outcome.
func holders(reg *tagnet.Registers) (names []string) {
	for _, b := range reg.GetBus() {
		if b.GetUsed().GetNow() > 0 {
			names = append(names, b.GetName())
		}
	}
	return names
}

// stopPatience is how long the end of a run may go without any progress, see Run.Moved, before it is a fault that
// names what it waits for. How long it takes while it moves, nobody bounds: an output may be large, its disk slow,
// its nodes more than the machine has processors. A MEP has its outcome in less than a second elsewhere, and a disk
// that confirms what was written last takes some.
const stopPatience = 30 * time.Second

// standsStill is the fault of nodes that were told to stop, and at which nothing has moved for stopTime; nil if that
// is not why ctx has ended.
func (r *Run) standsStill(ctx context.Context) *fault.Error {
	var still *stopwatch.StallError
	if !errors.As(context.Cause(ctx), &still) {
		return nil
	}
	var names []string
	for _, n := range r.nodes {
		if !r.passed(n) && !r.faults.done(n.latest()) {
			names = append(names, n.name)
		}
	}
	return &fault.Error{Fault: fault.Seen(strings.Join(names, ", "), node.PartOutput,
		fmt.Sprintf("told to stop, and %v: the run waits for %s", still, r.WaitsFor()))}
}

// forced is the fault of a node that stopped by force, since nothing had moved there for too long; nil if none did.
func (r *Run) forced() *fault.Error {
	for _, n := range r.nodes {
		rep := n.latest()
		if c := rep.GetStatus().GetCause(); r.faults.done(rep) && !r.passed(n) && c.GetCode() == node.CodeForced {
			return &fault.Error{Fault: fault.Fault{
				Component: n.name,
				Part:      node.PartOutput,
				What:      "it stopped by force, since nothing moved there any more: " + c.GetWhat(),
				Evidence:  c.GetEvidence(),
			}}
		}
	}
	return nil
}
