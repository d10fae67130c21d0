package partition

import (
	"context"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/fsm"
)

// comeback looks for nodes that were lost in a run and are back in the cluster, and takes them into it, one at a time.
type comeback struct {
	p     *Partition
	run   *nodes.Run
	tries map[string]time.Time // when each was tried last
	under chan struct{}        // of the one under way, closed when it is over; nil: there is none
}

// backAgain is how long a node waits that could not come back, before it is tried again. A process that has just been
// killed may be a member of the cluster still.
const backAgain = 2 * time.Second

func (p *Partition) comebacks(run *nodes.Run) *comeback {
	return &comeback{p: p, run: run, tries: map[string]time.Time{}}
}

// look begins with the next one, if there is any. ctx ends with the run.
func (c *comeback) look(ctx context.Context, now time.Time) {
	if c.under != nil {
		select {
		case <-c.under:
			c.under = nil
		default:
			return
		}
	}
	if c.p.runner.Status().State != fsm.Running {
		return
	}
	members := c.p.cfg.Members.ByName()
	for _, name := range c.run.Names() {
		m, there := members[name]
		if !there || c.run.MayComeBack(name) != nil || now.Sub(c.tries[name]) < backAgain {
			continue
		}
		c.tries[name] = now
		under := make(chan struct{})
		c.under = under
		c.p.wg.Go(func() {
			defer close(under)
			c.take(ctx, m)
		})
		return
	}
}

// take takes a node into the run.
func (c *comeback) take(ctx context.Context, m cluster.Member) {
	p := c.p
	if err := c.run.MeetAgain(ctx, m); err != nil {
		p.log.Debug("a node that was lost is not there", "node", m.Name, "err", err)
		return
	}
	p.orders.Lock()
	defer p.orders.Unlock()
	gone, err := c.run.ComeBack(ctx, m.Name)
	if err != nil {
		p.log.Info("a node that was lost does not come back in this run yet", "node", m.Name, "err", err)
		return
	}
	if gone == nil {
		p.log.Warn("the node of the decision unit is back in the run", "node", m.Name)
		p.say(info, "back", m.Name, "%s was lost and is back: events are decided from the next one that is triggered", m.Name)
		c.mend()
		return
	}
	p.log.Warn("a node is back in the run", "node", m.Name, "marked_from_mep", gone.GetFromMep(), "whole_from_mep",
		gone.GetBackMep())
	p.say(info, "back", m.Name,
		"%s was lost at %s and is back: events are marked from MEP %d on, and whole again from MEP "+
			"%d on", m.Name, time.Unix(0, gone.GetAtNs()).UTC().Format("15:04:05.000Z"), gone.GetFromMep(), gone.GetBackMep())
	c.mend()
}

// mend takes that a node is back.
func (c *comeback) mend() {
	if len(c.run.Losses()) == 0 && len(c.run.Out()) == 0 { // everybody takes part again
		_ = c.p.restore()
	}
	c.p.remember()
}

// wait waits until nothing is under way.
func (c *comeback) wait() {
	if c.under != nil {
		<-c.under
	}
}
