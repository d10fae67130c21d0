package partition

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
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

// preRunWork carries a step out that a run needs before it has its number, and notes where that fails: there is no
// record that could tell.
func (p *Partition) preRunWork(step fsm.Work) fsm.Work {
	return func(ctx context.Context) error {
		if p.currentState().pendingCommand.user == recoveryUser { // nobody asked for that run
			return step(ctx)
		}
		p.updateState(func(s *partitionState) { s.lastStartFailure, s.preRunContext = nil, ctx })
		err := step(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			p.noteStartFailure(context.Cause(ctx))
		default:
			p.noteStartFailure(err)
		}
		p.updateState(func(s *partitionState) { s.preRunContext = nil })
		return err
	}
}

// noteStartFailure notes why the run that was asked for last does not come about. What is refused while a run goes on
// has missed none.
func (p *Partition) noteStartFailure(err error) {
	p.updateState(func(s *partitionState) {
		if s.runRecord == nil {
			s.lastStartFailure = p.startFailureCause(err)
		}
	})
}

func (p *Partition) startFailureCause(err error) *ecsv1.Cause {
	var fault fsm.Cause
	if errors.As(err, &fault) {
		return p.causeMessage(fault)
	}
	return &ecsv1.Cause{
		Component: partitionComponent,
		What:      err.Error(),
		Code:      "refused",
		At:        timestamppb.Now(),
	}
}

// currentStartFailure is why the run that was asked for last has not come about. A step whose time is over, or that was
// interrupted, may take a while to return; the machine is past it by then, and whoever waits for the run must hear
// that there will be none.
func (p *Partition) currentStartFailure(now partitionState) *ecsv1.Cause {
	if now.lastStartFailure == nil && now.preRunContext != nil && now.preRunContext.Err() != nil {
		return p.startFailureCause(context.Cause(now.preRunContext))
	}
	return now.lastStartFailure
}
