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

// A trial is the outcome of a run of the plan. If a fault ends a run and the policy begins another, it has several
// runs.
type trial struct {
	Runs            []*ecsv1.Run
	FaultsMade      []fault       // faults that were injected
	AllFaultsInRun  bool          // all of them were injected while the run was going on
	ConfigureTries  int           // of load and configure, until both were done
	TimeToReady     time.Duration // from Offline to Ready
	TimeToReturn    time.Duration // from the end of the last fault until all that was struck was back; 0: nobody waited
	NotBack         string        // what was not back in time; empty: all was
	RefusedCommands []string      // exclude and include that the control has refused
	Order           decisionOrder // decisions that a subscriber has seen
	Problems        []string
}

func (t *trial) problem(format string, args ...any) {
	t.Problems = append(t.Problems, fmt.Sprintf(format, args...))
}

// drive makes one run of the plan, with its faults. Errors of the program are problems of the trial.
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

// prepare brings the partition to Ready with all nodes; nodes that were excluded are included again.
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

// runWithFaults is the run from start to stop, with its faults. If the run ends early, it omits faults that have not
// begun.
func (c *cluster) runWithFaults(ctx context.Context, r plannedRun, t *trial) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout+endTimeout)
	defer cancel()
	began := time.Now()
	var orders sync.WaitGroup
	var running, stopped atomic.Bool
	var answer error
	started := make(chan struct{})
	orders.Go(func() {
		defer close(started)
		answer = c.operator.command(ctx, "start", map[string]string{"remark": fmt.Sprintf("plan %d", r.Index)})
		running.Store(answer == nil)
	})
	stop := func() {
		if !stopped.Swap(true) {
			orders.Go(func() { _ = c.operator.command(ctx, "stop", nil) }) // the verdict of the run is judged instead
		}
	}
	t.AllFaultsInRun = true
	if r.MustGoOn {
		if <-started; answer != nil {
			t.problem("start: %s", errText(answer))
			return
		}
		began = time.Now()
	}
	for _, a := range withStop(timeline(r.Faults), r.Length) {
		over := c.awaitTime(ctx, began.Add(a.At), running.Load)
		switch {
		case a.Fault.Kind == "":
			if r.MustGoOn && !over {
				c.awaitReturn(ctx, r, t)
			}
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

// returnTimeout is how long after the last fault all that was struck may take to be back; on an idle machine it is 5 to
// 10 s.
const returnTimeout = 60 * time.Second

// returnedFor is how long nothing may be missing: who stood still may be found to be lost only after it moves again.
const returnedFor = 2 * time.Second

// awaitReturn waits until all units of the run take part in it again, for a while, or the run is over.
func (c *cluster) awaitReturn(ctx context.Context, r plannedRun, t *trial) {
	began, missing := time.Now(), []string(nil)
	returned := began
	err := pollUntil(ctx, "all that was struck was back", returnTimeout, func(ctx context.Context) (done bool, err error) {
		state, now, err := c.operator.missingUnits(ctx, r.Layout.members(), r.excluded())
		if err != nil || len(now) > 0 {
			returned, missing = time.Now(), now
		}
		return err == nil && (time.Since(returned) >= returnedFor || state != "Running"), err
	})
	if t.TimeToReturn = returned.Sub(began); err != nil {
		t.NotBack = fmt.Sprintf("%s, and not back: %s", errText(err), strings.Join(missing, ", "))
	}
}

// withStop inserts the end of the run among the actions, as an action without a kind.
func withStop(line []action, at time.Duration) []action {
	i, _ := slices.BinarySearchFunc(line, at, func(a action, at time.Duration) int { return cmp.Compare(a.At, at) })
	return slices.Insert(line, i, action{At: at})
}

// awaitTime waits until a time. It returns true at once if the run has ended before, or ctx is done.
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
	case errors.Is(err, errNotThere): // an earlier fault has ended the process
	default:
		t.problem("%s could not be made: %v", a.Fault, err)
	}
}

// awaitRecords waits until all runs of the trial have ended and their records include the output of all nodes.
func (c *cluster) awaitRecords(ctx context.Context, before uint32, t *trial) {
	o := c.operator
	if err := o.bringOffline(ctx); err != nil {
		t.problem("after the run: %s", errText(err))
		return
	}
	// The control reads the output of a node when the node is back.
	if err := o.awaitJoined(ctx, names(0, nodeCount)); err != nil {
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

// verdicts are the verdicts of the runs, for a line of the log.
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
