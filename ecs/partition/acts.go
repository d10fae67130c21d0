package partition

import (
	"context"

	"ringlet/node/fsm"
)

// act is one thing that a step does. A plan says it, and the step does it: there is no other list of either.
type act struct {
	says func(*planner)
	do   fsm.Work
}

// acts are what a command does in the state in which the partition is now, in order.
func (p *Partition) acts(c fsm.Command) []act {
	switch c {
	case fsm.Load:
		return []act{{sayLoading, p.load}}
	case fsm.Configure:
		return []act{{sayMuster, p.muster}, {sayConfiguring, p.configureNodes}}
	case fsm.Start:
		var all []act
		if p.mustConfigure() {
			all = append([]act{{sayClear, p.clear}}, p.acts(fsm.Configure)...)
		}
		return append(all, act{sayNumber, p.takeNumber}, act{sayBeginning, p.begin})
	case fsm.Pause:
		return []act{{sayPause, p.pause}}
	case fsm.Resume:
		return []act{{sayPause, p.resume}}
	case fsm.Stop:
		return []act{{sayStopping, p.halt}}
	case fsm.Reset:
		return []act{{sayNodes, p.clear}}
	case fsm.Unload:
		return []act{{sayNodes, p.unload}}
	case fsm.Recover:
		return []act{{sayNodes, p.clear}}
	}
	return nil
}

// mustConfigure says that the nodes cannot begin a run as they are: their links were given up, somebody was lost, who
// takes no part then if the policy bears it, or others are to take part.
func (p *Partition) mustConfigure() bool {
	crew := p.now().crew
	return !p.whole(crew) || !crew.Linked()
}

// step does what a command does.
func (p *Partition) step(c fsm.Command) fsm.Work {
	return func(ctx context.Context) error {
		all := p.acts(c)
		if c != fsm.Load && c != fsm.Configure && c != fsm.Start {
			return p.carry(all)(ctx)
		}
		before := len(all)
		if c == fsm.Start {
			before-- // the run has its number then, and a record that tells how it ended
		}
		if err := p.towardsRun(p.carry(all[:before]))(ctx); err != nil {
			return err
		}
		return p.carry(all[before:])(ctx)
	}
}

// carry does one act after the other, until one fails.
func (p *Partition) carry(all []act) fsm.Work {
	return func(ctx context.Context) error {
		for _, a := range all {
			if err := a.do(ctx); err != nil {
				return p.causeOf(err)
			}
		}
		return nil
	}
}

// load settles who the members are and takes them to NotReady.
func (p *Partition) load(ctx context.Context) error {
	p.set(func(s *standing) {
		cfg := s.asked.configuration
		s.loaded = &loaded{asked: cfg, cfg: cfg, prepared: s.asked.prepared}
	})
	defer p.remember()
	return p.muster(ctx)
}
