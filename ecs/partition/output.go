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

// writable says why the members of a configuration that are present cannot write its output.
func (p *Partition) writable(cfg config.Config, names []string, present map[string]cluster.Member) error {
	if names == nil {
		names = cluster.Units(present)
	}
	var members []cluster.Member
	for _, name := range names {
		if m, there := present[name]; there {
			members = append(members, m)
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.within(checkTime))
	defer cancel()
	return nodes.CheckOutputAt(ctx, p.cfg.Identity, p.cfg.Term, cfg, members)
}

// asOutput is what the nodes of a crew said of the output when a start was asked for.
type asOutput struct {
	crew *nodes.Crew // nil: nobody was asked
	last uint32      // the highest number of a run that is recorded there
}

// mayStart refuses a start whose output cannot be written: a refusal costs nothing, and an error in the middle of a
// start a recovery.
func (p *Partition) mayStart(ctx context.Context, state fsm.State) error {
	crew := p.now().crew
	if crew == nil {
		return nil
	}
	last, err := p.askOutput(ctx, crew)
	if err != nil {
		return forbidden(state, fsm.Start.String(), err.Error())
	}
	p.set(func(s *standing) { s.output = asOutput{crew, last} })
	return nil
}

// askOutput asks the nodes whether they can write the output, and for the number of the last run there. Where room is
// short, it says so.
func (p *Partition) askOutput(ctx context.Context, crew *nodes.Crew) (last uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.within(checkTime))
	defer cancel()
	last, short, err := crew.CheckOutput(ctx, 0)
	for _, what := range short {
		p.say(warning, "output", ownName, "%s", what)
	}
	return last, err
}

// freeNumber makes the next run number one that the output does not hold yet: another run control may have written
// there, or this one has lost its records.
func (p *Partition) freeNumber(crew *nodes.Crew) error {
	if cfg := crew.Configuration(); !cfg.WritesFiles() {
		return nil
	}
	now := p.now()
	asked, again := now.output, now.asked.by == recovery
	p.set(func(s *standing) { s.output = asOutput{} })
	if asked.crew != crew || again { // nobody asked before this start, or it has found other nodes since
		last, err := p.askOutput(p.ctx, crew)
		if err != nil {
			return fmt.Errorf("the output cannot be written: %w", err)
		}
		asked.last = last
	}
	if known, err := p.cfg.Store.Last(); err == nil && known == 0 && asked.last > 0 {
		p.say(warning, "record", ownName, "the run control has no record of any run, and the output holds runs up to %d: "+
			"the next one is numbered behind them; if records were kept elsewhere, end the run control and give it their "+
			"directory with --state", asked.last)
	}
	if asked.last == math.MaxUint32 {
		return fmt.Errorf("the output holds a run %d, and no number is left behind it: give another output, or "+
			"move that run away", asked.last)
	}
	return p.cfg.Store.AtLeast(asked.last + 1)
}
