package node

import (
	"context"
	"sync/atomic"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
)

// departure decides when a node that was told to end may. It is a core without clock: step is told the time and what is
// to be seen.
//
//	no run needs it ─► the control has all of the run that it wants, or had the time to ask ─► go
//	its builder unit is excluded ─► finish: nothing is under way to it any more, its output is whole, its links close
//	the control ends the run for it, or stops it ─► wait, for as long as the control is there
//	nobody lets it go within the grace ─► go all the same
type departure struct {
	requestedAt   time.Time     // when the control was asked to let this node go
	grace         time.Duration // how long nobody need answer
	unneededSince time.Time     // since when no run needs it; zero: one does
}

// leaveObservation is what a leave goes by.
type leaveObservation struct {
	nodeNeeded      bool      // a run goes on that this node must not leave
	excluded        bool      // its part in a run that goes on is over: its builder unit, which is all it has, is excluded
	stopping        bool      // it is being stopped
	reportCollected bool      // the control has all that it wants to know of the run
	linksClosed     bool      // its links are closed
	lastContact     time.Time // when the control last spoke that has promised to end the run for this node; zero: none has
	lastFileCall    time.Time // when the control last asked about files; now, while it reads them
}

// leaveAct is what is to be done now.
type leaveAct uint8

const (
	leaveWait   leaveAct = iota
	leaveFinish          // bring its part in a run that goes on to an end
	leaveNow
	leaveForced // the run goes on, and nobody lets it go
)

// lingerTimeout is how long a node whose run has been stopped waits for the control to read its final report and its
// files: until the slowest of the others has stopped.
const lingerTimeout = 15 * time.Second

// closedLingerTimeout is the same for a node that has closed its links, since it was excluded or gave the run up:
// nobody is to lose them any more, and the stream of its reports has the last one at once.
const closedLingerTimeout = 2 * time.Second

// step takes the leave to the time now.
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
		if !s.stopping && now.Sub(since) >= l.grace { // a stop has a time-out of its own, and is not cut while it moves
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

// needsNode says whether a run goes on that a node in a state must not leave: until the control has stopped it, or
// excluded the node.
func needsNode(state fsm.State, excluded bool) bool {
	switch state {
	case fsm.Starting, fsm.Stopping:
		return true
	}
	return unitsActive(state) && !excluded
}

// leaving lets a node go that is told to end in a run.
type leaving struct {
	*process

	requested     atomic.Bool  // it was told to end in a run
	promised      atomic.Bool  // the control ends the run for this node
	linksClosed   atomic.Bool  // its links were closed since its part in a run that goes on is over
	lastExtension atomic.Int64 // when the service manager was asked for more time, in s
}

// observe looks.
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

// leaveInterval is how often a node that is to end looks whether it may.
const leaveInterval = 50 * time.Millisecond

// await asks the control, by the reports, to let this node go, and waits until it may, or until ctx ends.
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
				n.extendStop() // somebody lets this node go: that takes as long as it takes
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// drainExcludedTimeout is how long a node that was excluded waits, while nothing moves, until nothing is under way to
// it: a write to a link that stands still has its outcome, or the link's end, within 5 s.
const drainExcludedTimeout = 8 * time.Second

// finishExcluded makes the output whole where this node's builder unit has been excluded from a run that goes on:
// what it had built counts. Links close last. A readout unit that does not confirm the exclusion may still write, and
// tolerates that the node is gone, as it has to, but not that it refuses: there the links go first.
func (n *leaving) finishExcluded(ctx context.Context) {
	s, _ := n.sessionAndRequest()
	if s == nil {
		return
	}
	within, cancel := stopwatch.WithStallTimeout(ctx, drainExcludedTimeout, s.progressCount, nil)
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

// extendStop asks the service manager for more time, where this node was told to end, and still has something to bring
// to an end.
func (n *leaving) extendStop() {
	now := time.Now().Unix()
	if n.requested.Load() && n.lastExtension.Swap(now) != now { // once a second
		n.cfg.Notifier.ExtendTimeout(stopTimeout + lingerTimeout)
	}
}

// untilLeave makes a context for what a node that is told to leave need not go on with. It ends with ctx, or when leave
// is closed.
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
