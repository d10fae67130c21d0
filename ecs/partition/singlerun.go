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

// RunHooks are told how a single run goes. Each may be nil.
type RunHooks struct {
	OnBegun    func()               // the run has begun
	OnProgress func(nodes.Progress) // about twice a second from then on
}

// singleRunUser is who asks for the steps of a single run.
const singleRunUser = "run"

// RunOnce takes the nodes through one run and puts them to rest, for a partition that was just made and ends after it.
// What is wrong with the configuration, the input or the output is an error without a report; a run that ended by a
// fault, even before it began, has a report with its cause. A context that ends ends the run in good order.
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
		nodeSet.CloseConnections() // nobody is there any more to be put to rest
	}
	return report, nil
}

// singleRun is a partition that makes one run and ends.
type singleRun struct{ *Partition }

// startSuperseded tells that a start was not heard to have ended since the run has ended meanwhile, such as one whose
// first record is bad: that run has a report of its own.
func (r *singleRun) startSuperseded(err error) bool {
	var by *fsm.SupersededError
	return errors.As(err, &by) && by.Command == fsm.Start && by.By == fsm.Stop &&
		(r.presentRun() != nil || r.currentState().lastReport != nil)
}

// assignNumber asks the nodes whether they can write the output, and determines the number of the run: the one that is
// asked for, or the one after the last that the output holds.
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

// reportNeverBegan is how a run ends that did not begin: by what was given to it, by a fault, or because it was
// interrupted.
func (r *singleRun) reportNeverBegan(ctx context.Context, err error, while string) (*nodes.Report, error) {
	if ctx.Err() != nil {
		_ = r.runner.Close() // it gives up what is under way
	}
	now := r.currentState()
	nodeSet, report, failed, cfg := now.nodeSet, now.lastReport, now.lastFailure, now.pendingCommand.configuration
	if l := now.loadedConfig; l != nil {
		cfg = l.cfg
	}
	var invalid *config.InvalidError
	switch {
	case report != nil: // it had a number
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

// awaitClosed waits until the run is over and its accounts are closed.
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

// dismissNodes puts the nodes to rest and lets them go.
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
