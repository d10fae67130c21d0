package partition

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// configureNodes takes the nodes that take part to Ready.
func (p *Partition) configureNodes(ctx context.Context) error {
	now := p.currentState()
	p.saveState()
	if err := now.crew.Configure(ctx, now.loadedConfig.cfg.RunNumber); err != nil {
		return now.crew.FaultOf(err, "while configuring")
	}
	p.saveState()
	if err := p.clearDegraded(); err != nil {
		return err
	}
	for _, a := range now.loadedConfig.absent {
		if err := p.runner.Degrade(fsm.Cause{Component: a.Name, What: a.Name + " takes no part: " + a.Why}); err != nil {
			return err
		}
	}
	return nil
}

// clearNodes brings nodes to rest, which give up their links: it resets, recovers, and comes before another configure.
// Who does not answer takes no part then, if the policy tolerates it.
func (p *Partition) clearNodes(ctx context.Context) error {
	defer p.saveState()
	crew := p.currentState().crew
	if crew == nil {
		return nil // it was load that failed: configure tries again to find the nodes
	}
	if err := crew.Clear(ctx); err != nil {
		p.log.Warn("not every node has come to rest", "err", err)
	}
	return nil
}

// openNextRecord takes the next run number, and opens the record of the run.
func (p *Partition) openNextRecord(context.Context) error {
	if err := p.clearDegraded(); err != nil {
		return err
	}
	return p.openRecord(p.currentState().crew)
}

// beginRun begins the run that has its record.
func (p *Partition) beginRun(ctx context.Context) error {
	now := p.currentState()
	run := now.crew.NewRun(now.runRecord.GetNumber())
	run.SetKey(now.runRecord.GetRunKey())
	p.updateState(func(s *partitionState) { s.run = run })
	if err := run.Begin(ctx); err != nil {
		if ctx.Err() != nil { // stopped meanwhile: whoever stops it ends the run
			var why fsm.Cause
			if errors.As(context.Cause(ctx), &why) { // its time is over, perhaps before there was a run that could be given up
				p.endFaultedRun(run, why)
			}
			return err
		}
		struck := now.crew.FaultOf(err, "while the run began")
		p.dropRun(run, func() *nodes.Report { return run.GiveUp(struck) })
		return struck
	}
	p.noteBegun(run)
	p.wg.Go(func() { p.watchRun(run) })
	return nil
}

// clearDegraded clears the flag that less takes part than should, unless members are absent.
func (p *Partition) clearDegraded() error {
	if len(p.currentState().loadedConfig.absent) > 0 {
		return nil
	}
	return p.runner.Restore()
}

func (p *Partition) pause(ctx context.Context) error  { return p.currentState().run.Pause(ctx) }
func (p *Partition) resume(ctx context.Context) error { return p.currentState().run.Resume(ctx) }

// stopRun ends the run in good order: what is under way is built, outputs are completed, accounts are closed.
func (p *Partition) stopRun(ctx context.Context) error {
	now := p.currentState()
	run, why := now.run, now.pendingCommand.endCause
	if run == nil {
		return nil
	}
	abandon, began := now.pendingCommand.abandon, !run.StartedAt().IsZero()
	p.noteStopping(why, interruptCause(now.pendingCommand.user, abandon, began))
	run.SetEndCause(why)
	p.saveState()
	defer p.reportStopProgress(ctx, run)()
	if !abandon && began {
		err := p.drainRun(ctx, run, why)
		switch {
		case err == nil:
			return p.finishRun(run)
		case !errors.Is(err, errAbandoned):
			return err // the time is over: abandon ends the run
		}
		interrupted := interruptCause(p.currentState().pendingCommand.user, true, began)
		p.changeRecord(func(r *ecsv1.Run) { r.Cause = interrupted })
	}
	p.dropRun(run, run.Interrupt)
	return nil
}

// interruptCause is why a run that somebody stops does not end in good order; nil if it does.
func interruptCause(by string, abandon, began bool) *ecsv1.Cause {
	var what, code string
	switch {
	case abandon:
		what, code = "gave the run up: everything under way was dropped", causeCodeAbandoned
	case !began:
		what, code = "stopped the run before all nodes had begun it: everything under way was dropped", "not_begun"
	default:
		return nil
	}
	return &ecsv1.Cause{
		Component: by,
		What:      what,
		Code:      code,
		At:        timestamppb.Now(),
	}
}

// causeCodeAbandoned is the code of the cause of a run that somebody gave up: a control that comes back knows by it
// that it was.
const causeCodeAbandoned = "abandoned"

// waitReportInterval is how often it is told what the end of a run waits for.
const waitReportInterval = 5 * time.Second

// reportStopProgress tells the machine that the end of a run moves, so that it is not cut, and everybody what it waits
// for, until what it returns is called.
func (p *Partition) reportStopProgress(ctx context.Context, run *nodes.Run) (end func()) {
	// It is the machine that cuts what stands still.
	_, endWatch := stopwatch.WithStallTimeout(ctx, math.MaxInt64, run.ProgressCount, func() { fsm.ReportProgress(ctx) })
	endReports := stopwatch.RunEvery(waitReportInterval, func() {
		p.publishf(severityInfo, "run", partitionComponent, "run %d ends: it waits for %s", run.Number(), run.WaitReason())
	})
	return func() { endWatch(); endReports() }
}

// errAbandoned ends a drain that somebody has no patience with.
var errAbandoned = errors.New("the run was given up while it drained")

// finishRun closes a run that has drained, or that something struck while it did.
func (p *Partition) finishRun(run *nodes.Run) error {
	if !p.claimRun(run) {
		return nil // it has been given up
	}
	report, err := run.Finish()
	p.closeRun(run, report)
	if err != nil {
		return p.causeFromError(err)
	}
	return nil
}

// drainRun waits until everything issued has its outcome, or something strikes.
func (p *Partition) drainRun(ctx context.Context, run *nodes.Run, why string) error {
	select {
	case <-run.Drained():
		return nil
	default:
	}
	drainErr := run.Drain(why)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-run.Drained():
			return nil
		case <-run.Faulted():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			if p.currentState().pendingCommand.abandon {
				return errAbandoned
			}
			if drainErr != nil {
				drainErr = run.Drain(why)
			}
			p.handleDepartures(run)
			run.CheckStall(now)
		}
	}
}

func (p *Partition) unloadNodes(ctx context.Context) error {
	crew := p.currentState().crew
	if crew != nil {
		within, cancel := context.WithTimeout(ctx, p.timeoutFor(unloadTimeout))
		if err := crew.Unload(within); err != nil {
			p.log.Warn("not every node was let go", "err", err) // it is found at rest or elsewhere by the next load
		}
		cancel()
		crew.CloseConnections()
	}
	p.updateState(func(s *partitionState) { s.crew, s.loadedConfig, s.excluded = nil, nil, nil })
	p.saveState()
	return nil
}

// unloadTimeout bounds how long nodes may take to go through Unloading; a sound one takes milliseconds.
const unloadTimeout = 5 * time.Second

// abandonRun puts everything to rest after a fault, or when stop goes by force.
func (p *Partition) abandonRun(from fsm.State, why fsm.Cause) {
	defer p.recoverPanic()
	run := p.currentState().run
	if run == nil {
		return
	}
	p.endFaultedRun(run, why)
	if from == fsm.Running || from == fsm.Paused {
		p.wg.Go(p.recoverAutomatically)
	}
}

// endFaultedRun ends a run by what its machine has met, unless somebody else does. A stop in which nothing moved says
// what it waited for.
func (p *Partition) endFaultedRun(run *nodes.Run, why fsm.Cause) {
	if why.Kind == fsm.CauseTimeout && why.State == fsm.Stopping {
		why.What += ": nothing moved any more, and it waits for " + run.WaitReason()
	}
	p.noteStopping(nodes.EndFault, p.causeMessage(why))
	p.dropRun(run, func() *nodes.Report { return run.GiveUp(&fault.Error{Fault: p.faultFromCause(why)}) })
}

// dropRun gives a run up, and closes it with its report, unless somebody else ends it.
func (p *Partition) dropRun(run *nodes.Run, giveUp func() *nodes.Report) {
	if p.claimRun(run) {
		p.closeRun(run, giveUp())
	}
}

// recoverPanic keeps the run control alive when giving a run up goes wrong in a way nobody thought of.
func (p *Partition) recoverPanic() {
	if v := recover(); v != nil {
		p.publishf(severityError, "fault", nodes.ControlName, "a mistake in the program, while a run was given up: %v\n%s", v,
			debug.Stack())
	}
}

// claimRun makes the caller the one who ends the run; false if somebody else is.
func (p *Partition) claimRun(run *nodes.Run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != run {
		return false
	}
	p.run = nil
	return true
}
