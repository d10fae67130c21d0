package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
)

// Hooks are told how a single run goes. Each may be nil.
type Hooks struct {
	Began    func()               // the run has begun
	Progress func(nodes.Progress) // about twice a second from then on
}

// once is who asks for the steps of a single run.
const once = "run"

// Once takes the nodes through one run and puts them to rest, for a partition that was just made and ends after it.
// What is wrong with the configuration, the input or the output is an error without a report; a run that ended by a
// fault, even before it began, has a report with its cause. A context that ends ends the run in good order.
func (p *Partition) Once(ctx context.Context, cfg config.Config, told Hooks) (*nodes.Report, error) {
	if p.cfg.Spawner != nil {
		defer p.cfg.Spawner.Stop()
	}
	defer p.dismiss()
	if err := nodes.Prepare(ctx, &cfg, p.cfg.Inputs); err != nil {
		return nil, err
	}
	cfg.Recovery = config.Default().Recovery
	p.set(func(s *standing) { s.asked = asked{configuration: cfg, prepared: true, by: once} })
	if err := p.runner.Command(ctx, fsm.Load); err != nil {
		return p.neverBegan(ctx, err, "before the run began")
	}
	if err := p.number(ctx); err != nil {
		return nil, fmt.Errorf("the output cannot be written: %w", err)
	}
	for _, c := range []fsm.Command{fsm.Configure, fsm.Start} {
		if err := p.runner.Command(ctx, c); err != nil && !p.overtaken(err) {
			return p.neverBegan(ctx, err, "before the run began")
		}
	}
	if told.Began != nil {
		told.Began()
	}
	report := p.untilClosed(ctx, told.Progress)
	if p.cfg.Spawner != nil && report.Recorded.Short() {
		p.cfg.Spawner.Stop()
		p.now().ended.CloseAlone(report)
		crew := p.now().crew
		p.set(func(s *standing) { s.crew = nil })
		crew.Release() // nobody is there any more to be put to rest
	}
	return report, nil
}

// overtaken tells that a start was not heard to have ended since the run has ended meanwhile, such as one whose first
// record is bad: that run has a report of its own.
func (p *Partition) overtaken(err error) bool {
	var by *fsm.SupersededError
	now := p.now()
	return errors.As(err, &by) && by.Command == fsm.Start && by.By == fsm.Stop && now.asked.end != "" &&
		(now.run != nil || now.last != nil)
}

// number asks the nodes whether they can write the output, and settles the number of the run: the one that is asked
// for, or the one after the last that the output holds.
func (p *Partition) number(ctx context.Context) error {
	crew := p.now().crew
	cfg := crew.Configuration()
	last, short, err := crew.CheckOutput(ctx, cfg.RunNumber)
	if err != nil {
		return err
	}
	for _, what := range short {
		p.log.Warn("there is little room for the output", "what", what)
	}
	if cfg.RunNumber == 0 {
		cfg.RunNumber = last + 1
	}
	p.set(func(s *standing) {
		l := *s.loaded
		l.cfg.RunNumber = cfg.RunNumber
		s.loaded, s.output = &l, asOutput{crew, cfg.RunNumber - 1}
	})
	return p.cfg.Store.AtLeast(cfg.RunNumber)
}

// neverBegan is how a run ends that did not begin: by what was given to it, by a fault, or because it was interrupted.
func (p *Partition) neverBegan(ctx context.Context, err error, while string) (*nodes.Report, error) {
	if ctx.Err() != nil {
		_ = p.runner.Close() // it gives up what is under way
	}
	now := p.now()
	crew, report, failed, cfg := now.crew, now.last, now.failed, now.asked.configuration
	if l := now.loaded; l != nil {
		cfg = l.cfg
	}
	var invalid *config.InvalidError
	switch {
	case report != nil: // it had a number
		return report, nil
	case ctx.Err() == nil && errors.As(failed, &invalid):
		return nil, failed
	case crew == nil:
		crew = nodes.NewCrew(nodes.Options{Version: p.cfg.Version, Log: p.log}, cfg)
	}
	if failed != nil {
		err = failed
	}
	report, _ = crew.NewRun(cfg.RunNumber).NeverBegan(ctx, err, while)
	return report, nil
}

// untilClosed waits until the run is over and its accounts are closed.
func (p *Partition) untilClosed(ctx context.Context, progress func(nodes.Progress)) *nodes.Report {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	done := ctx.Done()
	run := p.now().run
	for {
		now := p.now()
		if now.last != nil {
			return now.last
		}
		select {
		case <-now.closed:
		case <-done:
			done = nil
			if run != nil {
				p.end(run, nodes.EndInterrupted)
			}
		case <-tick.C:
			if progress != nil && run != nil {
				progress(run.Progress())
			}
		}
	}
}

// dismiss puts the nodes to rest and lets them go.
func (p *Partition) dismiss() {
	crew := p.now().crew
	p.set(func(s *standing) { s.crew = nil })
	if err := p.Close(); err != nil {
		p.log.Warn("the run control did not end in good order", "err", err)
	}
	if crew != nil {
		crew.Dismiss()
	}
}
