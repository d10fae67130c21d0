package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	"ringlet/node/fsm"
)

// RunHooks are called during a single run. Each may be nil.
type RunHooks struct {
	OnBegun    func()               // when the run has begun
	OnProgress func(nodes.Progress) // then about twice a second
}

// singleRunUser is the user of the steps of a single run.
const singleRunUser = "run"

// RunOnce takes the nodes through one run and brings them to rest, for a partition that was just made; it closes the
// partition. A wrong configuration, input or output is an error without a report; a run that a fault ended, even before
// it began, has a report with the cause. When ctx ends, the run ends in good order.
func (p *Partition) RunOnce(ctx context.Context, cfg config.Completed, hooks RunHooks) (*nodes.Report, error) {
	r := &singleRun{p}
	if p.cfg.Spawner != nil {
		defer p.cfg.Spawner.Stop()
	}
	defer r.dismissNodes()
	if err := nodes.Prepare(ctx, &cfg, p.cfg.AllowedInputs); err != nil {
		return nil, err
	}
	cfg.Recovery = config.Default().Recovery
	p.updateState(func(s *partitionState) {
		s.pendingCommand = pendingCommand{configuration: cfg, prepared: true, user: singleRunUser}
	})
	if err := p.runner.Command(ctx, fsm.Load); err != nil {
		return r.reportNeverBegan(ctx, err, "before the run began")
	}
	if err := r.assignNumber(ctx); err != nil {
		return nil, fmt.Errorf("the output cannot be written: %w", err)
	}
	for _, c := range []fsm.Command{fsm.Configure, fsm.Start} {
		if err := p.runner.Command(ctx, c); err != nil && !r.startSuperseded(err) {
			return r.reportNeverBegan(ctx, err, "before the run began")
		}
	}
	if hooks.OnBegun != nil {
		hooks.OnBegun()
	}
	report := r.awaitClosed(ctx, hooks.OnProgress)
	if p.cfg.Spawner != nil && report.RecordedOutput.IsIncomplete() {
		p.cfg.Spawner.Stop()
		p.currentState().endedRun.CloseWithoutNodes(report)
		nodeSet := p.currentState().nodeSet
		p.updateState(func(s *partitionState) { s.nodeSet = nil })
		nodeSet.CloseConnections() // the nodes have ended, so dismissNodes has none to bring to rest
	}
	return report, nil
}

// singleRun is a partition for one run.
type singleRun struct{ *Partition }

// startSuperseded says that the stop of the run has superseded the start before that returned, for example because the
// first record of the input is bad: that run has a report of its own.
func (r *singleRun) startSuperseded(err error) bool {
	var by *fsm.SupersededError
	return errors.As(err, &by) && by.Command == fsm.Start && by.By == fsm.Stop &&
		(r.presentRun() != nil || r.currentState().lastReport != nil)
}

// assignNumber asks the nodes whether they can write the output, and determines the number of the run: the configured
// one, or the one after the last run that the output holds.
func (r *singleRun) assignNumber(ctx context.Context) error {
	nodeSet := r.currentState().nodeSet
	cfg := nodeSet.Configuration()
	last, short, err := nodeSet.CheckOutput(ctx, cfg.RunNumber)
	if err != nil {
		return err
	}
	for _, what := range short {
		r.log.Warn("there is little room for the output", "what", what)
	}
	if cfg.RunNumber == 0 {
		cfg.RunNumber = last + 1
	}
	r.updateState(func(s *partitionState) {
		l := *s.loadedConfig
		l.cfg.RunNumber = cfg.RunNumber
		s.loadedConfig, s.outputCheck = &l, outputCheck{nodeSet, cfg.RunNumber - 1}
	})
	return r.cfg.Store.RaiseNextNumber(cfg.RunNumber)
}

// reportNeverBegan is the result of a run that did not begin: an error if its configuration is wrong, else a report of
// the fault or of the interruption.
func (r *singleRun) reportNeverBegan(ctx context.Context, err error, while string) (*nodes.Report, error) {
	if ctx.Err() != nil {
		_ = r.runner.Close() // gives up the step under way
	}
	now := r.currentState()
	nodeSet, report, failed, cfg := now.nodeSet, now.lastReport, now.lastFailure, now.pendingCommand.configuration
	if l := now.loadedConfig; l != nil {
		cfg = l.cfg
	}
	var invalid *config.InvalidError
	switch {
	case report != nil: // the run had its number, and was closed
		return report, nil
	case ctx.Err() == nil && errors.As(failed, &invalid):
		return nil, failed
	case nodeSet == nil:
		nodeSet = nodes.NewNodeSet(nodes.Options{Version: r.cfg.Version, Log: r.log}, cfg)
	}
	if failed != nil {
		err = failed
	}
	return nodeSet.NewRun(cfg.RunNumber).NeverBegan(ctx, err, while), nil
}

// awaitClosed waits until the run is closed, and returns its report. When ctx ends it stops the run.
func (r *singleRun) awaitClosed(ctx context.Context, progress func(nodes.Progress)) *nodes.Report {
	tick := time.NewTicker(snapshotInterval)
	defer tick.Stop()
	done := ctx.Done()
	run := r.presentRun()
	for {
		now := r.currentState()
		if now.lastReport != nil {
			return now.lastReport
		}
		select {
		case <-now.nextRunClosed:
		case <-done:
			done = nil
			if run != nil {
				_ = r.conductor.conduct(r.ctx, run, ecsrun.Input{Kind: ecsrun.Interrupted})
			}
		case <-tick.C:
			if progress != nil && run != nil {
				progress(run.Progress())
			}
		}
	}
}

// dismissNodes closes the partition, brings the nodes to rest, and closes the connections to them.
func (r *singleRun) dismissNodes() {
	nodeSet := r.currentState().nodeSet
	r.updateState(func(s *partitionState) { s.nodeSet = nil })
	if err := r.Close(); err != nil {
		r.log.Warn("the run control did not end in good order", "err", err)
	}
	if nodeSet != nil {
		nodeSet.Dismiss()
	}
}
