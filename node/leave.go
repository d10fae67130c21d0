package node

import (
	"context"
	"sync/atomic"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
)

// departure decides when a node that was told to leave may end. It is a core without clock: step gets the time and an
// observation.
//
//	no run needs the node ─► the control has the final report, or had time to ask for it ─► leave
//	its builder unit is excluded ─► finish: drain the builder unit, complete the output, close the links
//	the control ends the run for it, or stops it ─► wait, as long as the control is present
//	the control does not answer within the grace ─► leave all the same
type departure struct {
	requestedAt   time.Time     // when this node asked the control for its withdrawal
	grace         time.Duration // how long the control may take to answer
	unneededSince time.Time     // since when no run needs the node; zero: a run does
}

// leaveObservation is the input of a departure.
type leaveObservation struct {
	nodeNeeded      bool      // the node must not leave the present run
	excluded        bool      // the run goes on without the node: its builder unit, its only unit, is excluded
	stopping        bool      // the node is being stopped
	reportCollected bool      // the control has all that it wants of the run's report
	linksClosed     bool      // its links are closed
	lastContact     time.Time // last call of a control that has promised to end the run for this node; zero: no promise
	lastFileCall    time.Time // last call of the control about files; now, while it reads them
}

// leaveAct is what the node does now.
type leaveAct uint8

const (
	leaveWait   leaveAct = iota
	leaveFinish          // end the node's part in a run that goes on
	leaveNow
	leaveForced // leave a run that goes on, since the control did not answer
)

// lingerTimeout is how long a node whose run has been stopped waits for the control to read its final report and its
// files: until the slowest of the other nodes has stopped.
const lingerTimeout = 15 * time.Second

// closedLingerTimeout is the same for a node that has closed its links because it was excluded or gave the run up: no
// peer can lose it any more, and the stream of its reports has the last report at once.
const closedLingerTimeout = 2 * time.Second

// step brings the departure to the time now, and returns what the node does.
func (l *departure) step(now time.Time, s leaveObservation) leaveAct {
	switch {
	case s.excluded:
		l.unneededSince = time.Time{}
		return leaveFinish
	case s.nodeNeeded:
		l.unneededSince = time.Time{}
		since := l.requestedAt
		if s.lastContact.After(since) {
			since = s.lastContact
		}
		if !s.stopping && now.Sub(since) >= l.grace { // a stop has its own time-out
			return leaveForced
		}
		return leaveWait
	case l.unneededSince.IsZero():
		l.unneededSince = now
	}
	wait, since := lingerTimeout, l.unneededSince
	if s.linksClosed {
		wait = closedLingerTimeout
	}
	if s.lastFileCall.After(since) {
		since = s.lastFileCall
	}
	if s.reportCollected || now.Sub(since) >= wait {
		return leaveNow
	}
	return leaveWait
}

// needsNode tells whether a node in that state must not leave its run: until the control has stopped the run, or
// excluded the node.
func needsNode(state fsm.State, excluded bool) bool {
	switch state {
	case fsm.Starting, fsm.Stopping:
		return true
	}
	return unitsActive(state) && !excluded
}

// leaving withdraws a node that was told to leave during a run.
type leaving struct {
	*process

	requested     atomic.Bool  // the node was told to leave during a run
	promised      atomic.Bool  // the control has promised to end the run for this node
	linksClosed   atomic.Bool  // the links were closed because the node's part in a run is over
	lastExtension atomic.Int64 // Unix time of the last request for more time, s
}

// observe is the input of the departure.
func (n *leaving) observe(now time.Time) leaveObservation {
	s, _ := n.sessionAndRequest()
	state := n.runner.Status().State
	out := leaveObservation{reportCollected: n.reportCollected.Load(), linksClosed: s == nil || n.linksClosed.Load()}
	if s == nil {
		return out
	}
	excluded := s.isExcluded()
	out.nodeNeeded, out.stopping, out.excluded = needsNode(state, excluded), state == fsm.Stopping, unitsActive(state) &&
		excluded
	out.lastFileCall = n.fileCalls.lastContact(now)
	if n.promised.Load() {
		out.lastContact = n.controlCalls.lastContact(now)
	}
	return out
}

// leaveInterval is how often a node that is to leave checks whether it may.
const leaveInterval = 50 * time.Millisecond

// await requests the node's withdrawal in its reports, and waits until the node may leave, or until ctx ends.
func (n *leaving) await(ctx context.Context) {
	if now := time.Now(); n.cfg.LeaveGrace <= 0 || !n.observe(now).nodeNeeded && !n.observe(now).excluded {
		return
	}
	n.requested.Store(true)
	n.log.Info("told to end in a run: asking the control to let this node go", "unless_it_answers_in", n.cfg.LeaveGrace)
	n.cfg.Notifier.SetStatus("told to end in a run: waiting to be let go")
	l := departure{requestedAt: time.Now(), grace: n.cfg.LeaveGrace}
	tick := time.NewTicker(leaveInterval)
	defer tick.Stop()
	for {
		now := time.Now()
		see := n.observe(now)
		switch l.step(now, see) {
		case leaveFinish:
			n.finishExcluded(ctx)
		case leaveNow:
			return
		case leaveForced:
			n.log.Warn("leaving a run that goes on: the control has not let this node go in time", "grace", n.cfg.LeaveGrace)
			return
		case leaveWait:
			if see.stopping || !see.lastContact.IsZero() {
				n.extendStop() // the withdrawal is under way, and takes as long as it takes
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// finishExcluded completes the output of a builder unit that was excluded from a run that goes on: its built MEPs
// count. Links close last. A readout unit that does not confirm the exclusion may still write. It must tolerate the
// loss of the node, but not a refused write: in that case the links close first.
func (n *leaving) finishExcluded(ctx context.Context) {
	s, _ := n.sessionAndRequest()
	if s == nil {
		return
	}
	within, cancel := stopwatch.WithStallTimeout(ctx, s.cfg.Timeouts().Include, s.progressCount, nil)
	err := s.drainExcluded(within)
	cancel()
	if err != nil {
		n.log.Warn("not every readout unit has confirmed that this node is excluded: closing its links now", "err", err)
		_ = s.endpoint.Close()
	}
	if err := n.stopRun(ctx); err != nil {
		n.log.Error("the output is not whole", "err", err)
	}
	_ = s.endpoint.Close()
	n.linksClosed.Store(true)
}

// extendStop asks the service manager for more time, if this node was told to leave and has work left.
func (n *leaving) extendStop() {
	now := time.Now().Unix()
	if n.requested.Load() && n.lastExtension.Swap(now) != now { // at most once a second
		n.cfg.Notifier.ExtendTimeout(stopTimeout + lingerTimeout)
	}
}

// untilLeave makes a context for work that a node need not finish when it is told to leave: it ends with ctx, or when
// leave is closed.
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
