package partition

import (
	"context"
	"fmt"

	"ringlet/ecs/api"
	"ringlet/ecs/fsm"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	"ringlet/internal/control"
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
	ctx, cancel := context.WithTimeout(p.ctx, factsTime)
	defer cancel()
	return control.CheckOutputAt(ctx, p.cfg.Identity, p.cfg.Term, cfg, members)
}

// mayStart refuses a start whose output cannot be written: a refusal costs nothing, and an error in the middle of a start a recovery.
func (p *Partition) mayStart(ctx context.Context, state fsm.State) error {
	crew := p.crewNow()
	if crew == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	if _, err := crew.CheckOutput(ctx, 0); err != nil {
		return &api.PreconditionError{State: state.String(), Command: fsm.Start.String(), Why: err.Error(), Allowed: allowed(state)}
	}
	return nil
}

// freeNumber makes the next run number one that the output does not hold yet: another run control may have written there, or this one
// has lost its records.
func (p *Partition) freeNumber(crew *control.Crew) error {
	if cfg := crew.Configuration(); !cfg.WritesFiles() {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, factsTime)
	defer cancel()
	last, err := crew.CheckOutput(ctx, 0)
	if err != nil {
		return fmt.Errorf("the output cannot be written: %w", err)
	}
	return p.cfg.Store.AtLeast(last + 1)
}
