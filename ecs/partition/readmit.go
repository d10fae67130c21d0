package partition

import (
	"context"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/fsm"
)

// readmitter takes nodes that were lost in a run, and have joined the cluster again, back into the run, one at a time.
type readmitter struct {
	*conductor
	run          *nodes.Run
	readmissions map[string]readmission // by node
	attemptDone  chan struct{}          // closed when the attempt under way is over; nil: there is none
}

// readmission is how far a lost node is on its way back.
type readmission struct {
	lastTry   time.Time     // last attempt to take it into the run
	nextStart time.Time     // when its process is to be started anew; zero: not planned
	pause     time.Duration // before the last start of its process
}

// readmitRetryDelay is the pause after a failed attempt with a node. A process that has just been killed may still be
// a member of the cluster.
const readmitRetryDelay = 2 * time.Second

// readmitNext begins an attempt with the next node that is due, unless one is under way. ctx ends with the run.
func (c *readmitter) readmitNext(ctx context.Context, now time.Time) {
	if c.runner.Status().State != fsm.Running {
		return
	}
	c.restart(now)
	if c.attemptDone != nil {
		select {
		case <-c.attemptDone:
			c.attemptDone = nil
		default:
			return
		}
	}
	members := c.cfg.Members.ByName()
	for _, name := range c.run.Names() {
		m, there := members[name]
		back := c.readmissions[name]
		if !there || c.run.MayReadmit(name) != nil || now.Sub(back.lastTry) < readmitRetryDelay {
			continue
		}
		back.lastTry = now
		c.readmissions[name] = back
		pending := make(chan struct{})
		c.attemptDone = pending
		c.wg.Go(func() {
			defer close(pending)
			c.readmit(ctx, m)
		})
		return
	}
}

// restart starts the processes of lost nodes anew that this control started and that have ended: each after a pause,
// which doubles each time, since a process that ends soon may do so again.
func (c *readmitter) restart(now time.Time) {
	for _, name := range c.run.Names() {
		if c.run.MayReadmit(name) != nil || !c.records.checks.hasEnded(name) {
			continue
		}
		back := c.readmissions[name]
		switch {
		case back.nextStart.IsZero():
			back.pause = min(max(firstRestartPause, 2*back.pause), maxRestartPause)
			back.nextStart = now.Add(back.pause)
		case !now.Before(back.nextStart):
			back.nextStart = time.Time{}
			c.records.checks.spawn([]string{name})
		}
		c.readmissions[name] = back
	}
}

// How long the control waits before it starts a process anew: the first time, and at most.
const (
	firstRestartPause = 200 * time.Millisecond
	maxRestartPause   = time.Minute
)

// readmit tries to take a node into the run.
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
		what := "its builder unit gets MEPs again"
		if m.Name == c.run.Configuration().DecisionNode {
			what = "events are decided from the next one that is triggered"
		}
		c.log.Warn("a node is back in the run", "node", m.Name)
		c.publishf(severityInfo, "back", m.Name, "%s was lost and is back: %s", m.Name, what)
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

// noteReadmitted saves the state, and clears Degraded if all units take part.
func (c *readmitter) noteReadmitted() {
	if len(c.run.Losses()) == 0 && len(c.run.InactiveBuilders()) == 0 { // all units take part again
		_ = c.clearDegraded()
	}
	c.saveState()
}

// awaitAttempt waits for the end of the attempt under way.
func (c *readmitter) awaitAttempt() {
	if c.attemptDone != nil {
		<-c.attemptDone
	}
}
