package partition

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// towardsRun carries a step out that a run needs before it has its number, and notes where that fails: there is no
// record that could tell.
func (p *Partition) towardsRun(step fsm.Work) fsm.Work {
	return func(ctx context.Context) error {
		if p.by() == Recovery { // nobody asked for that run
			return step(ctx)
		}
		p.mu.Lock()
		p.noRun, p.towards = nil, ctx
		p.mu.Unlock()
		err := step(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			p.missed(context.Cause(ctx))
		default:
			p.missed(err)
		}
		p.mu.Lock()
		p.towards = nil
		p.mu.Unlock()
		return err
	}
}

// missed notes why the run that was asked for last does not come about. What is refused while a run goes on has missed
// none.
func (p *Partition) missed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rec == nil {
		p.noRun = p.whyMissed(err)
	}
}

func (p *Partition) whyMissed(err error) *ecsv1.Cause {
	var fault fsm.Cause
	if errors.As(err, &fault) {
		return p.message(fault)
	}
	return &ecsv1.Cause{Component: Name, What: err.Error(), Code: "refused", At: timestamppb.Now()}
}

// whyNoRun is why the run that was asked for last has not come about. A step whose time is over, or that was
// interrupted, may take a while to return; the machine has left it by then, and whoever waits for the run must hear
// that there will be none. The caller holds mu.
func (p *Partition) whyNoRun() *ecsv1.Cause {
	if p.noRun == nil && p.towards != nil && p.towards.Err() != nil {
		return p.whyMissed(context.Cause(p.towards))
	}
	return p.noRun
}
