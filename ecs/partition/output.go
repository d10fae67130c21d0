package partition

import (
	"context"
	"fmt"
	"math"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
)

// checkWritable says why the members of a configuration that are present cannot write its output.
func (p *Partition) checkWritable(cfg config.Config, names []string, present map[string]cluster.Member) error {
	if names == nil {
		names = cluster.UnitNames(present)
	}
	var members []cluster.Member
	for _, name := range names {
		if m, there := present[name]; there {
			members = append(members, m)
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.timeoutFor(checkTimeout))
	defer cancel()
	return nodes.CheckOutputAt(ctx, p.cfg.Identity, p.cfg.Term, cfg, members)
}

// outputCheck is what the nodes of a Crew said of the output when a start was asked for.
type outputCheck struct {
	crew            *nodes.Crew // nil: nobody was asked
	lastRecordedRun uint32      // the highest number of a run that is recorded there
}

// mayStart refuses a start whose output cannot be written: a refusal costs nothing, and an error in the middle of a
// start a recovery.
func (p *Partition) mayStart(ctx context.Context, state fsm.State) error {
	crew := p.currentState().crew
	if crew == nil {
		return nil
	}
	last, err := p.checkOutput(ctx, crew)
	if err != nil {
		return preconditionError(state, fsm.Start.String(), err.Error())
	}
	p.updateState(func(s *partitionState) { s.outputCheck = outputCheck{crew, last} })
	return nil
}

// checkOutput asks the nodes whether they can write the output, and for the number of the last run there. Where room is
// short, it says so.
func (p *Partition) checkOutput(ctx context.Context, crew *nodes.Crew) (last uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeoutFor(checkTimeout))
	defer cancel()
	last, short, err := crew.CheckOutput(ctx, 0)
	for _, what := range short {
		p.publishf(severityWarning, "output", partitionComponent, "%s", what)
	}
	return last, err
}

// reserveNumber makes the next run number one that the output does not hold yet: another run control may have written
// there, or this one has lost its records.
func (p *Partition) reserveNumber(crew *nodes.Crew) error {
	if cfg := crew.Configuration(); !cfg.WritesFiles() {
		return nil
	}
	now := p.currentState()
	check, again := now.outputCheck, now.pendingCommand.user == recoveryUser
	p.updateState(func(s *partitionState) { s.outputCheck = outputCheck{} })
	if check.crew != crew || again { // nobody asked before this start, or it has found other nodes since
		last, err := p.checkOutput(p.ctx, crew)
		if err != nil {
			return fmt.Errorf("the output cannot be written: %w", err)
		}
		check.lastRecordedRun = last
	}
	if known, err := p.cfg.Store.LastRunNumber(); err == nil && known == 0 && check.lastRecordedRun > 0 {
		p.publishf(severityWarning, "record", partitionComponent,
			"the run control has no record of any run, and the output holds runs up to %d: "+
				"the next one is numbered behind them; if records were kept elsewhere, end the run control and give it their "+
				"directory with --state", check.lastRecordedRun)
	}
	if check.lastRecordedRun == math.MaxUint32 {
		return fmt.Errorf("the output holds a run %d, and no number is left behind it: give another output, or "+
			"move that run away", check.lastRecordedRun)
	}
	return p.cfg.Store.RaiseNextNumber(check.lastRecordedRun + 1)
}
