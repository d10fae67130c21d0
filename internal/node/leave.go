package node

import (
	"context"
	"time"

	"ringlet/ecs/fsm"
)

// needed says whether a run goes on that a node in a state must not leave: until the control has stopped it, or excluded the node.
func needed(state fsm.State, excluded bool) bool {
	switch state {
	case fsm.Starting, fsm.Stopping:
		return true
	}
	return onAir(state) && !excluded
}

// needed says whether this node must stay.
func (n *Node) needed() bool {
	s, _ := n.current()
	return s != nil && needed(n.runner.Status().State, s.excluded())
}

// lingering is how long a node whose run has been stopped waits for the control to read its final report: until the slowest of the others has stopped.
const lingering = 15 * time.Second

// parting is the same for a node that has closed its links, since it was excluded or gave the run up: nobody is to lose them any more, and the stream of
// its reports has the last one at once.
const parting = 2 * time.Second

// mayGo says whether a node that was needed may end now, at the latest so long after it was needed last. It notes in free since when.
func (n *Node) mayGo(free *time.Time, now time.Time, wait time.Duration) bool {
	switch {
	case n.needed():
		*free = time.Time{}
		return false
	case free.IsZero():
		*free = now
	}
	return n.collected.Load() || now.Sub(*free) >= wait
}

// leaveEvery is how often a node that is to end looks whether it may.
const leaveEvery = 50 * time.Millisecond

// letGo asks the control, by the reports, to let this node go, and waits until it has: at most for the grace, and not beyond ctx.
func (n *Node) letGo(ctx context.Context) {
	if n.cfg.Grace <= 0 || !n.needed() {
		return
	}
	n.leaving.Store(true)
	n.log.Info("told to end in a run: asking the control to let this node go", "at_most", n.cfg.Grace)
	n.cfg.Notifier.Status("told to end in a run: waiting to be let go")
	over := time.NewTimer(n.cfg.Grace)
	defer over.Stop()
	tick := time.NewTicker(leaveEvery)
	defer tick.Stop()
	var free time.Time // since when no run needs it
	wait := lingering
	for !n.mayGo(&free, time.Now(), wait) {
		select {
		case <-tick.C:
		case <-over.C:
			n.log.Warn("leaving a run that goes on: the control has not let this node go in time", "grace", n.cfg.Grace)
			return
		case <-ctx.Done():
			return
		}
		if s, _ := n.current(); n.finishExcluded(ctx) || s == nil {
			wait = parting
		}
	}
}

// finishExcluded makes the output whole where this node's units have been excluded from a run that goes on: what they had built counts. It says whether
// that is so.
// Links go first: a readout unit that has not heard of the exclusion may still write, and bears that the node is gone, as it has to, but not
// that it refuses.
func (n *Node) finishExcluded(ctx context.Context) bool {
	s, _ := n.current()
	if s == nil || !onAir(n.runner.Status().State) || !s.excluded() {
		return false
	}
	_ = s.endpoint.Close()
	if err := n.finish(ctx); err != nil {
		n.log.Error("the output is not whole", "err", err)
	}
	return true
}

// untilLeave makes a context for what a node that is told to leave need not go on with. It ends with ctx, or when leave is closed.
func untilLeave(ctx context.Context, leave <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-leave:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
