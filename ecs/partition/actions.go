package partition

import (
	"context"

	"ringlet/node/fsm"
)

// action is one thing that a step does. A plan says it, and the step does it: there is no other list of either.
type action struct {
	describe func(*planner)
	do       fsm.Work
}

// actions are what a command does in the state in which the partition is now, in order.
func (p *Partition) actions(c fsm.Command) []action {
	switch c {
	case fsm.Load:
		return []action{{planLoading, p.loadConfiguration}}
	case fsm.Configure:
		return []action{{planMembers, p.members.loadMembers}, {planConfiguring, p.members.configureNodes}}
	case fsm.Start:
		var all []action
		if p.members.mustConfigure() {
			all = append([]action{{planClear, p.members.clearNodes}}, p.actions(fsm.Configure)...)
		}
		return append(all, action{planNumber, p.records.openNext}, action{planBeginning, p.conductor.start})
	case fsm.Pause:
		return []action{{planPause, p.conductor.pause}}
	case fsm.Resume:
		return []action{{planPause, p.conductor.resume}}
	case fsm.Stop:
		return []action{{planStopping, p.conductor.stop}}
	case fsm.Reset:
		return []action{{planNodes, p.members.clearNodes}}
	case fsm.Unload:
		return []action{{planNodes, p.members.unloadNodes}}
	case fsm.Recover:
		return []action{{planNodes, p.members.clearNodes}}
	}
	return nil
}

// workFor does what a command does.
func (p *Partition) workFor(c fsm.Command) fsm.Work {
	return func(ctx context.Context) error {
		all := p.actions(c)
		if c != fsm.Load && c != fsm.Configure && c != fsm.Start {
			return p.runInOrder(all)(ctx)
		}
		before := len(all)
		if c == fsm.Start {
			before-- // the run has its number then, and a record that tells how it ended
		}
		if err := p.preRunWork(p.runInOrder(all[:before]))(ctx); err != nil {
			return err
		}
		return p.runInOrder(all[before:])(ctx)
	}
}

// runInOrder does one act after the other, until one fails.
func (p *Partition) runInOrder(all []action) fsm.Work {
	return func(ctx context.Context) error {
		for _, a := range all {
			if err := a.do(ctx); err != nil {
				return p.causeFromError(err)
			}
		}
		return nil
	}
}

// loadConfiguration decides who the members are and takes them to NotReady.
func (p *Partition) loadConfiguration(ctx context.Context) error {
	p.updateState(func(s *partitionState) {
		cfg := s.pendingCommand.configuration
		s.loadedConfig = &loadedConfig{original: cfg, cfg: cfg, prepared: s.pendingCommand.prepared}
	})
	defer p.saveState()
	return p.members.loadMembers(ctx)
}
