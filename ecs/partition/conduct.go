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

// conductor takes runs from their number to their closed record: it carries out what the machine of a run says.
type conductor struct {
	*control
	records *records

	commandMu sync.Mutex // held by whoever tells the nodes of a run something beside the steps

	recoveryMu    sync.Mutex  // guards what follows
	recoveryTimes []time.Time // automatic ones, of late
}

// conduct has the machine of a run take what happens, and carries out what is to be done then, and what follows from
// that. The error is that of an action that failed.
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

// carryOut does one thing that the machine of a run wants. What is awaited changes the answer where it is not done: one
// that was interrupted, or that the partition goes to Error for, gets Failed without a fault, which answers nothing.
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

// noAnswerOn gives no answer for what has failed.
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

// begin makes the scheduler of a run and starts its nodes.
func (c *conductor) begin(ctx context.Context, run *nodes.Run, answer *ecsrun.Input) error {
	err := run.Begin(ctx)
	if err == nil {
		return nil
	}
	answer.Kind = ecsrun.Failed
	if ctx.Err() == nil {
		struck := run.FaultOf(err, "while the run began")
		answer.Fault = &struck.Fault
		return struck
	}
	// Stopped meanwhile: whoever stops it ends the run.
	if why := (fsm.Cause{}); errors.As(context.Cause(ctx), &why) { // its time is over, perhaps before there was a run
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

// stop ends the run: in good order, what is under way is built, outputs are completed, accounts are closed.
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

// waitReportInterval is how often it is told what the end of a run waits for.
const waitReportInterval = 5 * time.Second

// reportStopProgress tells the machine that the end of a run moves, so that it is not cut, and everybody what it waits
// for, until what it returns is called.
func (c *conductor) reportStopProgress(ctx context.Context, run *nodes.Run) (end func()) {
	// It is the machine that cuts what stands still.
	_, endWatch := stopwatch.WithStallTimeout(ctx, math.MaxInt64, run.ProgressCount, func() { fsm.ReportProgress(ctx) })
	endReports := stopwatch.RunEvery(waitReportInterval, func() {
		c.publishf(severityInfo, "run", partitionComponent, "run %d ends: it waits for %s", run.Number(), run.WaitReason())
	})
	return func() { endWatch(); endReports() }
}

// drain waits until everything issued has its outcome, or something strikes, or somebody has no patience.
func (c *conductor) drain(ctx context.Context, run *nodes.Run, answer *ecsrun.Input) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	_ = run.Drain() // where the scheduler cannot be reached it is tried again
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
			answer.Kind = ecsrun.Failed // the time is over: abandon ends the run
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

// abandon puts everything to rest after a fault, or when stop goes by force.
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

// giveUp ends a run by what the machine of its partition has met. A stop in which nothing moved says what it waited
// for.
func (c *conductor) giveUp(run *nodes.Run, why fsm.Cause) {
	if why.Kind == fsm.CauseTimeout && why.State == fsm.Stopping {
		why.What += ": nothing moved any more, and it waits for " + run.WaitReason()
	}
	broken := c.faultFromCause(why)
	_ = c.conduct(c.ctx, run, ecsrun.Input{Kind: ecsrun.GiveUp, Fault: &broken, Code: why.Kind.String()})
}

// recoverPanic keeps the run control alive when giving a run up goes wrong in a way nobody thought of.
func (c *conductor) recoverPanic() {
	if v := recover(); v != nil {
		c.publishf(severityError, "fault", nodes.ControlName, "a mistake in the program, while a run was given up: %v\n%s", v,
			debug.Stack())
	}
}

// watch waits for what ends a run by itself, and has the machine end it.
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
	back := &readmitter{conductor: c, run: run, lastTries: map[string]time.Time{}}
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

// fail takes the partition to Error for what broke.
func (c *conductor) fail(run *nodes.Run) {
	struck := run.AwaitCause()
	switch c.runner.Status().State {
	case fsm.Running, fsm.Paused, fsm.Pausing, fsm.Resuming:
	default:
		return // the step under way will find it
	}
	if struck != nil {
		_ = c.conduct(c.ctx, run, ecsrun.Input{Kind: ecsrun.Struck, Fault: &struck.Fault, Code: fsm.CauseFailed.String()})
	}
}

// noteLoss notes a loss that the policy tolerates.
func (c *conductor) noteLoss(x fault.Fault) {
	if run := c.presentRun(); run != nil {
		_ = c.conduct(c.ctx, run, ecsrun.Input{Kind: ecsrun.Lost, Fault: &x})
	}
	_ = c.runner.Degrade(causeFromFault(x))
	c.publishf(severityWarning, "degraded", x.Component, "the run goes on without %s: %s", x.Component, x.What)
}

// handleDepartures lets nodes go that were told to end: a builder unit is taken out if the policy tolerates it, else
// the run ends in good order. It says whether that is so.
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

// handleDeparture takes news of a node that was told to end.
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
