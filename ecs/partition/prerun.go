package partition

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

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
