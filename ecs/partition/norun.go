package partition

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// towardsRun carries a step out that a run needs before it has its number, and notes where that fails: there is no record that could tell.
func (p *Partition) towardsRun(step fsm.Work) fsm.Work {
	return func(ctx context.Context) error {
		if p.by() == Recovery { // nobody asked for that run
			return step(ctx)
		}
		p.noteNoRun(nil)
		err := step(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			p.missed(context.Cause(ctx))
		default:
			p.missed(err)
		}
		return err
	}
}

// missed notes why the run that was asked for last does not come about. What is refused while a run goes on has missed none.
func (p *Partition) missed(err error) {
	why := &ecsv1.Cause{Component: Name, What: err.Error(), Code: "refused", At: timestamppb.Now()}
	var fault fsm.Cause
	if errors.As(err, &fault) {
		why = message(fault)
	}
	p.noteNoRun(why)
}

func (p *Partition) noteNoRun(why *ecsv1.Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rec == nil {
		p.noRun = why
	}
}
