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
		if p.now().asked.by == recovery { // nobody asked for that run
			return step(ctx)
		}
		p.set(func(s *standing) { s.noRun, s.towards = nil, ctx })
		err := step(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			p.missed(context.Cause(ctx))
		default:
			p.missed(err)
		}
		p.set(func(s *standing) { s.towards = nil })
		return err
	}
}

// missed notes why the run that was asked for last does not come about. What is refused while a run goes on has missed
// none.
func (p *Partition) missed(err error) {
	p.set(func(s *standing) {
		if s.rec == nil {
			s.noRun = p.whyMissed(err)
		}
	})
}

func (p *Partition) whyMissed(err error) *ecsv1.Cause {
	var fault fsm.Cause
	if errors.As(err, &fault) {
		return p.message(fault)
	}
	return &ecsv1.Cause{
		Component: ownName,
		What:      err.Error(),
		Code:      "refused",
		At:        timestamppb.Now(),
	}
}

// whyNoRun is why the run that was asked for last has not come about. A step whose time is over, or that was
// interrupted, may take a while to return; the machine is past it by then, and whoever waits for the run must hear
// that there will be none.
func (p *Partition) whyNoRun(now standing) *ecsv1.Cause {
	if now.noRun == nil && now.towards != nil && now.towards.Err() != nil {
		return p.whyMissed(context.Cause(now.towards))
	}
	return now.noRun
}
