package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// A trial is what became of a run of the plan. A fault can end a run and the policy begin another: then there are
// several.
type trial struct {
	Runs            []*ecsv1.Run
	FaultsMade      []fault       // that struck
	AllFaultsInRun  bool          // every fault struck while the run went on
	ConfigureTries  int           // of load and configure, until both were done
	TimeToReady     time.Duration // from rest to Ready
	RefusedCommands []string      // by the control, of commands that were given by the way
	Order           decisionOrder // of the decisions that a subscriber saw
	Problems        []string
}

func (t *trial) problem(format string, args ...any) {
	t.Problems = append(t.Problems, fmt.Sprintf(format, args...))
}

// drive makes one run of the plan, with its faults. An error ends the soak; what is wrong with the program is a
// problem of the trial.
func (c *cluster) drive(ctx context.Context, r plannedRun) (t trial) {
	o := c.operator
	c.injector.refusedCommands = nil
	began := time.Now()
	if err := c.prepare(ctx, r, &t); err != nil {
		t.problem("before the run: %s", errText(err))
		return t
	}
	t.TimeToReady = time.Since(began)
	before, err := o.newestRun(ctx)
	if err != nil {
		t.problem("before the run: %s", errText(err))
		return t
	}
	if r.Place == nowhere {
		defer c.startConsumers(ctx, r, &t)()
	}
	c.runWithFaults(ctx, r, &t)
	if err := c.heal(ctx); err != nil {
		t.problem("after the faults: %s", errText(err))
		return t
	}
	t.RefusedCommands = c.injector.refusedCommands
	c.awaitRecords(ctx, before, &t)
	return t
}

// prepare brings the partition to Ready with all nodes, and includes who was excluded.
func (c *cluster) prepare(ctx context.Context, r plannedRun, t *trial) (err error) {
	if err := c.operator.bringOffline(ctx); err != nil {
		return err
	}
	if err := c.operator.awaitJoined(ctx, names(0, nodeCount)); err != nil {
		return err
	}
	settings := append(slices.Clone(r.Settings), c.outputSettings(r)...)
	t.ConfigureTries, err = c.operator.bringReady(ctx, settings)
	return err
}

// runWithFaults is the run from start to stop, with its faults. Where the run ends before, what has not begun is left
// out.
func (c *cluster) runWithFaults(ctx context.Context, r plannedRun, t *trial) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout+endTimeout)
	defer cancel()
	began := time.Now()
	var orders sync.WaitGroup
	var running, stopped atomic.Bool
	var answer error
	orders.Go(func() {
		answer = c.operator.command(ctx, "start", map[string]string{"remark": fmt.Sprintf("plan %d", r.Index)})
		running.Store(answer == nil)
	})
	stop := func() {
		if !stopped.Swap(true) {
			orders.Go(func() { _ = c.operator.command(ctx, "stop", nil) }) // its verdict is judged
		}
	}
	t.AllFaultsInRun = true
	for _, a := range withStop(timeline(r.Faults), r.Length) {
		over := c.awaitTime(ctx, began.Add(a.At), running.Load)
		switch {
		case a.Fault.Kind == "":
			stop()
		case !over || a.Ends:
			c.applyAction(ctx, a, t, running.Load() && !stopped.Load())
		}
		if ctx.Err() != nil {
			break
		}
	}
	for _, p := range c.processByName {
		p.resume() // else a stopped control never answers
	}
	orders.Wait()
	if answer != nil && len(t.FaultsMade) == 0 {
		t.problem("start: %s", errText(answer))
	}
}

// withStop puts the end of the run among the actions: an action without a kind.
func withStop(line []action, at time.Duration) []action {
	i, _ := slices.BinarySearchFunc(line, at, func(a action, at time.Duration) int { return cmp.Compare(a.At, at) })
	return slices.Insert(line, i, action{At: at})
}

// awaitTime waits for a moment. Where a run that was begun has ended before, it does not wait, and says so.
func (c *cluster) awaitTime(ctx context.Context, at time.Time, running func() bool) (over bool) {
	for time.Now().Before(at) {
		select {
		case <-ctx.Done():
			return true
		case <-time.After(min(200*time.Millisecond, time.Until(at))):
		}
		if !running() {
			continue
		}
		queryCtx, cancel := context.WithTimeout(ctx, time.Second)
		state, _, err := c.operator.partition(queryCtx)
		cancel()
		if err == nil && nextCommandToOffline(state) != "" && state != "Running" && state != "Paused" {
			return true
		}
	}
	return false
}

// applyAction begins or ends a fault.
func (c *cluster) applyAction(ctx context.Context, a action, t *trial, steady bool) {
	if a.Ends {
		if err := c.injector.end(ctx, a.Fault); err != nil && !errors.Is(err, errNotThere) {
			t.problem("%s could not be ended: %v", a.Fault, err)
		}
		return
	}
	switch err := c.injector.begin(ctx, a.Fault); {
	case err == nil:
		t.FaultsMade = append(t.FaultsMade, a.Fault)
		t.AllFaultsInRun = t.AllFaultsInRun && steady
	case errors.Is(err, errNotThere): // struck already
	default:
		t.problem("%s could not be made: %v", a.Fault, err)
	}
}

// awaitRecords waits for the end of whatever runs there were, and until their records have what all nodes have written.
func (c *cluster) awaitRecords(ctx context.Context, before uint32, t *trial) {
	o := c.operator
	if err := o.bringOffline(ctx); err != nil {
		t.problem("after the run: %s", errText(err))
		return
	}
	if err := o.awaitJoined(ctx, names(0, nodeCount)); err != nil { // what they have written is read when they are back
		t.problem("after the run: %s", errText(err))
		return
	}
	last, err := o.newestRun(ctx)
	if err != nil {
		t.problem("after the run: %s", errText(err))
		return
	}
	for n := before + 1; n <= last; n++ {
		run, err := o.awaitRecord(ctx, n)
		if err != nil {
			t.problem("%s", errText(err))
			continue
		}
		t.Runs = append(t.Runs, run)
	}
}

// verdicts of the runs, as a line of the log has them.
func (t *trial) verdicts() string {
	var out []string
	for _, r := range t.Runs {
		line := fmt.Sprintf("%d %s, %d built", r.GetNumber(), verdict(r), r.GetEventsBuilt())
		if r.GetVerdict() != ecsv1.Verdict_VERDICT_GOOD {
			line += " (" + endReason(r) + ")"
		}
		out = append(out, line)
	}
	if len(out) == 0 {
		return "no run"
	}
	return strings.Join(out, "; ")
}

func verdict(r *ecsv1.Run) string { return strings.TrimPrefix(r.GetVerdict().String(), "VERDICT_") }
