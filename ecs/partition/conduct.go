package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// conductor takes runs from their number to their closed record: it carries out the actions of the run's machine
// (package ecs/run).
type conductor struct {
	*control
	records *records
	taps    *taps
	slow    *slowKeeper

	commandMu sync.Mutex // held while a goroutine other than a step's excludes, includes or readmits a node of the run

	recoveryMu    sync.Mutex  // guards what follows
	recoveryTimes []time.Time // of the automatic recoveries that still count
}

// conduct gives an input to the machine of a run, and carries out the actions that the machine answers. If the machine
// awaits the result of an action, conduct gives it the result as the next input, until it awaits none. The error is the
// one of the last action that failed.
func (c *conductor) conduct(ctx context.Context, run *nodes.Run, in ecsrun.Input) (failed error) {
	for {
		if in.At.IsZero() {
			in.At = time.Now()
		}
		now, do := run.Step(in)
		answer := &ecsrun.Input{Kind: ecsrun.Done, Ticket: now.Ticket}
		for _, a := range do {
			if err := c.carryOut(ctx, run, now, a, answer); err != nil {
				failed = err
			}
		}
		if len(do) == 0 || !do[len(do)-1].IsAwaited() || answer.Kind == ecsrun.Failed && answer.Fault == nil {
			return failed
		}
		in = *answer
	}
}

// carryOut does one action of the machine of a run. An awaited action that fails changes the answer, which is Done
// before. If the action was interrupted, or its error takes the partition to Error, the answer is Failed without a
// fault: conduct does not give that to the machine, and GiveUp ends the run.
func (c *conductor) carryOut(ctx context.Context, run *nodes.Run, now ecsrun.State, do ecsrun.Action,
	answer *ecsrun.Input) error {
	switch do {
	case ecsrun.Write:
		c.changeRecord(func(r *ecsv1.Run) { writeState(r, now) })
		c.saveState()
	case ecsrun.Begin:
		return c.begin(ctx, run, answer)
	case ecsrun.Watch:
		text := "run %d has begun"
		if now.Ticket == 1 {
			text = "run %d goes on"
		}
		c.publishf(severityInfo, "run", partitionComponent, text, run.Number())
		c.wg.Go(func() { c.watch(run) })
		c.wg.Go(func() { c.watchDrift(run) })
		c.wg.Go(c.slow.beginRun)
	case ecsrun.Hold:
		return noAnswerOn(run.Pause(ctx), answer)
	case ecsrun.Release:
		return noAnswerOn(run.Resume(ctx), answer)
	case ecsrun.AskStop:
		if err := c.runner.Submit(fsm.Stop); err != nil {
			c.log.Warn("a run that is over was not stopped", "run", run.Number(), "err", err)
		}
	case ecsrun.AskFail:
		if err := c.runner.Fail(c.causeFromError(&fault.Error{Fault: *now.Fault})); err != nil {
			c.log.Error("a fault came too late", "fault", now.Fault, "err", err)
		}
	case ecsrun.Drain:
		return c.drain(ctx, run, answer)
	case ecsrun.End:
		var broken *fault.Error
		if answer.Outcome, broken = run.End(); broken != nil {
			answer.Kind, answer.Fault = ecsrun.Failed, &broken.Fault
			return broken
		}
	case ecsrun.Drop:
		run.Drop()
	case ecsrun.Collect:
		run.Collect()
	case ecsrun.Close:
		c.records.closeRun(run, run.MakeReport())
	}
	return nil
}

// noAnswerOn makes the answer one that conduct does not give to the machine, if err is not nil. It returns err.
func noAnswerOn(err error, answer *ecsrun.Input) error {
	if err != nil {
		answer.Kind = ecsrun.Failed
	}
	return err
}

// start begins the run that has its record.
func (c *conductor) start(ctx context.Context) error {
	now := c.currentState()
	run := now.nodeSet.NewRun(now.runRecord.GetNumber())
	run.SetKey(now.runRecord.GetRunKey())
	c.updateState(func(s *partitionState) { s.run = run })
	return c.conduct(ctx, run, ecsrun.Input{Kind: ecsrun.Open})
}

// begin makes the scheduler of a run and starts the nodes.
func (c *conductor) begin(ctx context.Context, run *nodes.Run, answer *ecsrun.Input) error {
	endReports := c.reportStartProgress(ctx, run)
	err := run.Begin(ctx)
	endReports()
	if err == nil {
		return nil
	}
	answer.Kind = ecsrun.Failed
	if ctx.Err() == nil {
		struck := run.FaultOf(err, "while the run began")
		answer.Fault = &struck.Fault
		return struck
	}
	// The step was interrupted: the command that interrupted it ends the run.
	if why := (fsm.Cause{}); errors.As(context.Cause(ctx), &why) { // the step has timed out
		c.giveUp(run, why)
	}
	return err
}

func (c *conductor) pause(ctx context.Context) error {
	return c.conduct(ctx, c.currentState().run, ecsrun.Input{Kind: ecsrun.Pause})
}

func (c *conductor) resume(ctx context.Context) error {
	return c.conduct(ctx, c.currentState().run, ecsrun.Input{Kind: ecsrun.Resume})
}

// stop ends the run. In good order, the MEPs under way are built, outputs are completed and the accounts are closed;
// with abandon the MEPs under way are dropped.
func (c *conductor) stop(ctx context.Context) error {
	now := c.currentState()
	run, pending := now.run, now.pendingCommand
	if run == nil {
		return nil
	}
	in := ecsrun.Input{Kind: ecsrun.Stop, By: pending.user}
	if pending.stopRequested {
		in.Reason = ecsrun.EndStopped
	}
	switch {
	case pending.abandon:
		in.Kind = ecsrun.Abandon
	case run.IsDrained():
		in.Kind = ecsrun.Finish
	}
	defer c.reportStopProgress(ctx, run)()
	return c.conduct(ctx, run, in)
}

// waitReportInterval is how often the control publishes what the end of a run waits for.
const waitReportInterval = 5 * time.Second

// reportStartProgress keeps the step from timing out while the start of the run waits for front-ends, which has a
// time-out of its own, and publishes whom it waits for, until the returned function is called.
func (c *conductor) reportStartProgress(ctx context.Context, run *nodes.Run) (end func()) {
	var published time.Time
	return stopwatch.RunEvery(waitReportInterval/5, func() {
		who := run.AwaitedSources()
		if who == "" {
			return
		}
		fsm.ReportProgress(ctx)
		if now := time.Now(); now.Sub(published) >= waitReportInterval {
			published = now
			c.publishf(severityInfo, "run", partitionComponent, "run %d begins: it waits, since %s", run.Number(), who)
			c.log.Warn("the start waits for front-ends", "since", who)
		}
	})
}

// reportStopProgress reports the progress of a run's end to the state machine, so that stop does not time out while
// anything moves, and publishes what the end waits for, until the returned function is called.
func (c *conductor) reportStopProgress(ctx context.Context, run *nodes.Run) (end func()) {
	// No time-out here: the state machine has stopStallTimeout.
	_, endWatch := stopwatch.WithStallTimeout(ctx, math.MaxInt64, run.ProgressCount, func() { fsm.ReportProgress(ctx) })
	endReports := stopwatch.RunEvery(waitReportInterval, func() {
		c.publishf(severityInfo, "run", partitionComponent, "run %d ends: it waits for %s", run.Number(), run.WaitReason())
	})
	return func() { endWatch(); endReports() }
}

// endFrontends tells front-ends that the run ends, and waits for their last fragments, unless a user asks for abandon.
func (c *conductor) endFrontends(ctx context.Context, run *nodes.Run) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer stopwatch.RunEvery(waitReportInterval/10, func() {
		if c.currentState().pendingCommand.abandon {
			cancel()
		}
	})()
	run.EndSources(ctx)
}

// drain waits until every issued MEP has its outcome, a fault strikes, the step times out, or a user asks for abandon.
func (c *conductor) drain(ctx context.Context, run *nodes.Run, answer *ecsrun.Input) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	c.endFrontends(ctx, run)
	_ = run.Drain() // repeated below if the scheduler cannot be reached
	for {
		select {
		case <-run.Drained():
			return nil
		case <-run.Faulted():
			struck := run.AwaitCause()
			if struck == nil {
				return nil
			}
			answer.Kind, answer.Fault = ecsrun.Struck, &struck.Fault
			return struck
		case <-ctx.Done():
			answer.Kind = ecsrun.Failed // the step has timed out: the state machine calls abandon, which ends the run
			return context.Cause(ctx)
		case now := <-tick.C:
			if pending := c.currentState().pendingCommand; pending.abandon {
				answer.Kind, answer.By = ecsrun.Abandon, pending.user
				return nil
			}
			_ = run.Drain()
			c.handleDepartures(run)
			run.CheckStall(now)
		}
	}
}

// abandon gives the run up, after a fault or when stop has timed out.
func (c *conductor) abandon(from fsm.State, why fsm.Cause) {
	defer c.recoverPanic()
	run := c.currentState().run
	if run == nil {
		return
	}
	c.giveUp(run, why)
	if from == fsm.Running || from == fsm.Paused {
		c.wg.Go(c.recoverAutomatically)
	}
}

// giveUp ends a run for a cause of the partition's state machine. To the cause of a stop that timed out it adds what
// the run waited for.
func (c *conductor) giveUp(run *nodes.Run, why fsm.Cause) {
	if why.Kind == fsm.CauseTimeout && why.State == fsm.Stopping {
		why.What += ": nothing moved any more, and it waits for " + run.WaitReason()
	}
	broken := c.faultFromCause(why)
	_ = c.conduct(c.ctx, run, ecsrun.Input{Kind: ecsrun.GiveUp, Fault: &broken, Code: why.Kind.String()})
}

// recoverPanic keeps the run control alive when a panic occurs while a run is given up.
func (c *conductor) recoverPanic() {
	if v := recover(); v != nil {
		c.publishf(severityError, "fault", nodes.ControlName, "a mistake in the program, while a run was given up: %v\n%s", v,
			debug.Stack())
	}
}

// watch looks for what ends a run without a user: it is drained, it faulted, its duration is over, or a node that it
// needs was told to end. It also readmits lost nodes.
func (c *conductor) watch(run *nodes.Run) {
	cfg := run.Configuration()
	var limit <-chan time.Time
	if d := cfg.Duration; d > 0 {
		timer := time.NewTimer(time.Until(run.State().Begun.Add(d)))
		defer timer.Stop()
		limit = timer.C
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(c.ctx)
	back := &readmitter{
		conductor:    c,
		run:          run,
		readmissions: map[string]readmission{},
		restarts:     map[string]restart{},
		withheld:     map[string]bool{},
		refused:      map[string]bool{},
	}
	defer back.awaitAttempt()
	defer cancel()
	for {
		select {
		case <-run.Drained():
			_ = c.conduct(ctx, run, ecsrun.Input{Kind: ecsrun.Drained})
			return
		case <-run.Faulted():
			c.fail(run)
			return
		case <-limit:
			_ = c.conduct(ctx, run, ecsrun.Input{Kind: ecsrun.TimeOver})
			return
		case now := <-tick.C:
			if !run.State().Phase.IsGoing() {
				return
			}
			back.readmitNext(ctx, now)
			if c.handleDepartures(run) {
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// fail takes the partition to Error for the fault that struck the run.
func (c *conductor) fail(run *nodes.Run) {
	struck := run.AwaitCause()
	switch c.runner.Status().State {
	case fsm.Running, fsm.Paused, fsm.Pausing, fsm.Resuming:
	default:
		return // the step under way finds the fault
	}
	if struck != nil {
		_ = c.conduct(c.ctx, run, ecsrun.Input{Kind: ecsrun.Struck, Fault: &struck.Fault, Code: fsm.CauseFailed.String()})
	}
}

// noteLoss notes and publishes a loss that a policy tolerates.
func (c *conductor) noteLoss(x nodes.Loss) {
	if run := c.presentRun(); run != nil {
		for _, lost := range append([]fault.Fault{x.Fault}, x.Others...) {
			_ = c.conduct(c.ctx, run, ecsrun.Input{Kind: ecsrun.Lost, Fault: &lost})
		}
	}
	_ = c.runner.Degrade(causeFromFault(x.Fault))
	kind := "degraded"
	if x.Left {
		kind = "left"
	}
	c.publishf(severityWarning, kind, x.Component, "%v", x)
}

// handleDepartures lets nodes go that were told to end: if the policy tolerates it, the node's builder unit is taken
// out of the run, else the run ends in good order. It returns true if the run ends.
func (c *conductor) handleDepartures(run *nodes.Run) (ends bool) {
	news, err := run.UpdateDepartures(time.Now())
	if err != nil {
		c.log.Warn("a node that was told to end cannot be let go yet", "err", err)
	}
	for _, d := range news {
		c.handleDeparture(run, d)
		ends = ends || d.EndsRun
	}
	return ends
}

// handleDeparture publishes the departure of a node, and gives it to the machine of the run.
func (c *conductor) handleDeparture(run *nodes.Run, d nodes.Departure) {
	kind, in := "excluded", ecsrun.Input{Kind: ecsrun.Excluded, Node: d.Node}
	text := fmt.Sprintf("%s was told to end, and the run goes on without it; %d of its MEPs go to others", d.Node,
		d.MEPsReissued)
	switch {
	case d.Withdrawn:
		kind, text = "left", d.Node+" was told to end, and has left the run in good order"
	case d.EndsRun:
		kind, text = "run", d.Node+" was told to end, and the run needs it: the run ends in good order"
		in.Kind = ecsrun.Needed
	default:
		_ = c.runner.Degrade(fsm.Cause{Component: d.Node, What: "it was told to end"})
	}
	c.log.Warn("a node was told to end", "node", d.Node, "what", text)
	c.publishf(severityWarning, kind, d.Node, "%s", text)
	if !d.Withdrawn {
		_ = c.conduct(c.ctx, run, in)
	}
}
