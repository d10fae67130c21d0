package partition

import (
	"context"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/fsm"
)

// readmitter looks for nodes that were lost in a run and are back in the cluster, and takes them into it, one at a
// time.
type readmitter struct {
	*conductor
	run         *nodes.Run
	lastTries   map[string]time.Time // when each was tried last
	attemptDone chan struct{}        // of the one under way, closed when it is over; nil: there is none
}

// readmitRetryDelay is how long a node waits that could not come back, before it is tried again. A process that has
// just been killed may be a member of the cluster still.
const readmitRetryDelay = 2 * time.Second

// readmitNext begins with the next one, if there is any. ctx ends with the run.
func (c *readmitter) readmitNext(ctx context.Context, now time.Time) {
	if c.attemptDone != nil {
		select {
		case <-c.attemptDone:
			c.attemptDone = nil
		default:
			return
		}
	}
	if c.runner.Status().State != fsm.Running {
		return
	}
	members := c.cfg.Members.ByName()
	for _, name := range c.run.Names() {
		m, there := members[name]
		if !there || c.run.MayReadmit(name) != nil || now.Sub(c.lastTries[name]) < readmitRetryDelay {
			continue
		}
		c.lastTries[name] = now
		pending := make(chan struct{})
		c.attemptDone = pending
		c.wg.Go(func() {
			defer close(pending)
			c.readmit(ctx, m)
		})
		return
	}
}

// readmit takes a node into the run.
func (c *readmitter) readmit(ctx context.Context, m cluster.Member) {
	if err := c.run.Reconnect(ctx, m); err != nil {
		c.log.Debug("a node that was lost is not there", "node", m.Name, "err", err)
		return
	}
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	gone, err := c.run.Readmit(ctx, m.Name)
	if err != nil {
		c.log.Info("a node that was lost does not come back in this run yet", "node", m.Name, "err", err)
		return
	}
	if gone == nil {
		c.log.Warn("the node of the decision unit is back in the run", "node", m.Name)
		c.publishf(severityInfo, "back", m.Name,
			"%s was lost and is back: events are decided from the next one that is triggered",
			m.Name)
		c.noteReadmitted()
		return
	}
	c.log.Warn("a node is back in the run", "node", m.Name, "marked_from_mep", gone.GetFromMep(), "whole_from_mep",
		gone.GetBackMep())
	c.publishf(severityInfo, "back", m.Name,
		"%s was lost at %s and is back: events are marked from MEP %d on, and whole again from MEP "+
			"%d on", m.Name, time.Unix(0, gone.GetAtNs()).UTC().Format("15:04:05.000Z"), gone.GetFromMep(), gone.GetBackMep())
	c.noteReadmitted()
}

// noteReadmitted takes that a node is back.
func (c *readmitter) noteReadmitted() {
	if len(c.run.Losses()) == 0 && len(c.run.InactiveBuilders()) == 0 { // everybody takes part again
		_ = c.clearDegraded()
	}
	c.saveState()
}

// awaitAttempt waits until nothing is under way.
func (c *readmitter) awaitAttempt() {
	if c.attemptDone != nil {
		<-c.attemptDone
	}
}
