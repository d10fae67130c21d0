package partition

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/internal/nodename"
	"ringlet/node/cluster"
	"ringlet/node/fsm"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// readmitter takes nodes that were lost in a run, and have joined the cluster again, back into the run, one at a time.
type readmitter struct {
	*conductor
	run          *nodes.Run
	readmissions map[string]readmission // by node
	restarts     map[string]restart     // by process
	withheld     map[string]bool        // nodes that do not come back because of their output; owned by the attempt
	refused      map[string]bool        // by lost node and process: the refusal was told; owned by the attempt
	attemptDone  chan struct{}          // closed when the attempt under way is over; nil: there is none
}

// readmission is how far a lost node is on its way back.
type readmission struct {
	lastTry time.Time // last attempt with the last candidate
	tries   int       // so far
}

// restart is when a process is started anew.
type restart struct {
	due   time.Time     // zero: not planned
	pause time.Duration // before the last start
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
	for _, name := range c.run.Names() {
		back := c.readmissions[name]
		if c.run.MayReadmit(name) != nil || now.Sub(back.lastTry) < readmitRetryDelay {
			continue
		}
		list := c.candidates(name)
		if len(list) == 0 {
			continue
		}
		m := list[back.tries%len(list)]
		if back.tries++; back.tries%len(list) == 0 {
			back.lastTry = now
		}
		c.readmissions[name] = back
		pending := make(chan struct{})
		c.attemptDone = pending
		c.wg.Go(func() {
			defer close(pending)
			c.readmit(ctx, name, m)
		})
		return
	}
}

// restart starts the processes of lost nodes and of spares anew that this control started and that have ended, unless
// they were told to end: each after a pause, which doubles each time, since a process that ends soon may do so again.
func (c *readmitter) restart(now time.Time) {
	var seen []string // processes that the control has to start
	for _, name := range slices.Concat(c.run.Names(), c.cfg.SpawnedSpares) {
		spare, process := slices.Contains(c.cfg.SpawnedSpares, name), nodename.ProcessOf(name)
		if !spare && (c.run.MayReadmit(name) != nil || c.run.Presence(name).Departed) ||
			!c.records.checks.hasEnded(name) || slices.Contains(seen, process) {
			continue
		}
		seen = append(seen, process)
		again := c.restarts[process]
		switch {
		case again.due.IsZero():
			again.pause = min(max(firstRestartPause, 2*again.pause), maxRestartPause)
			again.due = now.Add(again.pause)
		case !now.Before(again.due):
			again.due = time.Time{}
			c.records.checks.spawn([]string{process})
		}
		c.restarts[process] = again
	}
}

// How long the control waits before it starts a process anew: the first time, and at most.
const (
	firstRestartPause = 200 * time.Millisecond
	maxRestartPause   = time.Minute
)

// readmit tries to take a node into the run, by its own process or by that of a spare.
func (c *readmitter) readmit(ctx context.Context, name string, m cluster.Member) {
	if err := c.mayHave(name, m); err != nil {
		c.noteRefused(name, m.Name, err)
		return
	}
	if err := c.run.Reconnect(ctx, name, m); err != nil {
		c.log.Debug("the process that is to have the units of a lost node is not there", "node", name, "process", m.Name,
			"err", err)
		c.noteRefusedSpare(name, m.Name, err)
		return
	}
	c.commandMu.Lock()
	defer c.commandMu.Unlock()
	gone, err := c.run.Readmit(ctx, name)
	if err != nil {
		c.noteAttemptFailed(name, m.Name, err)
		return
	}
	delete(c.withheld, name)
	c.log.Warn("a node is back in the run", "node", name, "process", m.Name, "marked_from_mep", gone.GetFromMep(),
		"whole_from_mep", gone.GetBackMep())
	c.publishf(severityInfo, "back", name, "%s", describeReadmission(name, m.Name,
		name == c.run.Configuration().DecisionNode, gone))
	c.noteReadmitted()
}

// noteAttemptFailed logs why the units of a lost node do not come back by a process yet. If the process is a spare, or
// if the output is the reason, that is published once.
func (c *readmitter) noteAttemptFailed(name, process string, err error) {
	problem := nodes.OutputProblem(err)
	if process != name || problem == "" || c.withheld[name] {
		c.log.Info("a node that was lost does not come back in this run yet", "node", name, "process", process, "err", err)
		c.noteRefusedSpare(name, process, err)
		return
	}
	c.withheld[name] = true
	text := fmt.Sprintf("%s does not come back into the run before its output can be written: %s", name, problem)
	c.log.Warn("a node that was lost does not come back yet", "node", name, "what", text)
	c.publishf(severityWarning, "degraded", name, "%s", text)
}

// describeReadmission is a sentence on a node that is back in the run, or for which the node of process substitutes.
// gone is the absence of its readout unit; nil: it has none.
func describeReadmission(name, process string, decides bool, gone *tagnetv1.Gone) string {
	text, at := name+" was lost", ""
	if gone != nil {
		at = time.Unix(0, gone.GetAtNs()).UTC().Format(" at 15:04:05.000Z")
	}
	if text += at + " and is back: "; process != name {
		text = fmt.Sprintf("%s, a spare, substitutes for %s, which was lost%s: ", process, name, at)
	}
	switch {
	case gone != nil:
		return text + fmt.Sprintf("events are marked from MEP %d on, and whole again from MEP %d on", gone.GetFromMep(),
			gone.GetBackMep())
	case decides:
		return text + "events are decided from the next one that is triggered"
	}
	return text + "its builder unit gets MEPs again"
}

// noteRefusedSpare says once for each lost node and spare why the spare does not substitute.
func (c *readmitter) noteRefusedSpare(name, process string, why error) {
	if name != process {
		c.noteRefused(name, process, why)
	}
}

// noteRefused says once for each lost node and process why the process does not get the units.
func (c *readmitter) noteRefused(name, process string, why error) {
	if c.refused[name+" "+process] {
		return
	}
	c.refused[name+" "+process] = true
	c.publishf(severityWarning, "spare", name, "%s does not get the units of %s: %v", process, name, why)
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
