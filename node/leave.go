package node

import (
	"context"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node/fsm"
)

// leave decides when a node that was told to end may. It is a core without clock: step is told the time and what is
// to be seen.
//
//	no run needs it ─► the control has all of the run that it wants, or had the time to ask ─► go
//	its builder unit is excluded ─► finish: nothing is under way to it any more, its output is whole, its links close
//	the control ends the run for it, or stops it ─► wait, for as long as the control is there
//	nobody lets it go within the grace ─► go all the same
type leave struct {
	asked time.Time     // when the control was asked to let this node go
	grace time.Duration // how long nobody need answer
	free  time.Time     // since when no run needs it; zero: one does
}

// leaveSight is what a leave goes by.
type leaveSight struct {
	needed    bool      // a run goes on that this node must not leave
	excluded  bool      // its part in a run that goes on is over: its builder unit, which is all it has, is excluded
	stopping  bool      // it is being stopped
	collected bool      // the control has all that it wants to know of the run
	parted    bool      // its links are closed
	heard     time.Time // when the control last spoke that has promised to end the run for this node; zero: none has
	read      time.Time // when the control last asked about files; now, while it reads them
}

// leaveAct is what is to be done now.
type leaveAct uint8

const (
	leaveWait   leaveAct = iota
	leaveFinish          // bring its part in a run that goes on to an end
	leaveGo
	leaveAnyway // the run goes on, and nobody lets it go
)

// lingering is how long a node whose run has been stopped waits for the control to read its final report and its files:
// until the slowest of the others has stopped.
const lingering = 15 * time.Second

// parting is the same for a node that has closed its links, since it was excluded or gave the run up: nobody is to lose
// them any more, and the stream of its reports has the last one at once.
const parting = 2 * time.Second

// step takes the leave to the time now.
func (l *leave) step(now time.Time, s leaveSight) leaveAct {
	switch {
	case s.excluded:
		l.free = time.Time{}
		return leaveFinish
	case s.needed:
		l.free = time.Time{}
		since := l.asked
		if s.heard.After(since) {
			since = s.heard
		}
		if !s.stopping && now.Sub(since) >= l.grace { // a stop has a time-out of its own, and is not cut while it moves
			return leaveAnyway
		}
		return leaveWait
	case l.free.IsZero():
		l.free = now
	}
	wait, since := lingering, l.free
	if s.parted {
		wait = parting
	}
	if s.read.After(since) {
		since = s.read
	}
	if s.collected || now.Sub(since) >= wait {
		return leaveGo
	}
	return leaveWait
}

// needed says whether a run goes on that a node in a state must not leave: until the control has stopped it, or
// excluded the node.
func needed(state fsm.State, excluded bool) bool {
	switch state {
	case fsm.Starting, fsm.Stopping:
		return true
	}
	return onAir(state) && !excluded
}

// leaveSight looks.
func (n *process) leaveSight(now time.Time) leaveSight {
	s, _ := n.current()
	state := n.runner.Status().State
	out := leaveSight{collected: n.collected.Load(), parted: s == nil || n.parted.Load()}
	if s == nil {
		return out
	}
	excluded := s.excluded()
	out.needed, out.stopping, out.excluded = needed(state, excluded), state == fsm.Stopping, onAir(state) && excluded
	out.read = n.files.last(now)
	if n.promised.Load() {
		out.heard = n.control.last(now)
	}
	return out
}

// leaveEvery is how often a node that is to end looks whether it may.
const leaveEvery = 50 * time.Millisecond

// letGo asks the control, by the reports, to let this node go, and waits until it may, or until ctx ends.
func (n *process) letGo(ctx context.Context) {
	if now := time.Now(); n.cfg.Grace <= 0 || !n.leaveSight(now).needed && !n.leaveSight(now).excluded {
		return
	}
	n.leaving.Store(true)
	n.log.Info("told to end in a run: asking the control to let this node go", "unless_it_answers_in", n.cfg.Grace)
	n.cfg.Notifier.Status("told to end in a run: waiting to be let go")
	l := leave{asked: time.Now(), grace: n.cfg.Grace}
	tick := time.NewTicker(leaveEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		see := n.leaveSight(now)
		switch l.step(now, see) {
		case leaveFinish:
			n.finishExcluded(ctx)
		case leaveGo:
			return
		case leaveAnyway:
			n.log.Warn("leaving a run that goes on: the control has not let this node go in time", "grace", n.cfg.Grace)
			return
		case leaveWait:
			if see.stopping || !see.heard.IsZero() {
				n.linger() // somebody lets this node go: that takes as long as it takes
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// settleTime is how long a node that was excluded waits, while nothing moves, until nothing is under way to it: a
// write to a link that stands still has its outcome, or the link's end, within 5 s.
const settleTime = 8 * time.Second

// finishExcluded makes the output whole where this node's builder unit has been excluded from a run that goes on:
// what it had built counts. Links close last. A readout unit that does not settle the exclusion may still write, and
// bears that the node is gone, as it has to, but not that it refuses: there the links go first.
func (n *process) finishExcluded(ctx context.Context) {
	s, _ := n.current()
	if s == nil {
		return
	}
	within, cancel := stopwatch.WithStallTimeout(ctx, settleTime, s.progress, nil)
	err := s.settled(within)
	cancel()
	if err != nil {
		n.log.Warn("not every readout unit has settled that this node is excluded: closing its links now", "err", err)
		_ = s.endpoint.Close()
	}
	if err := n.finish(ctx); err != nil {
		n.log.Error("the output is not whole", "err", err)
	}
	_ = s.endpoint.Close()
	n.parted.Store(true)
}

// settled waits until nothing is under way to the builder unit any more, which is excluded, and what was whole is in
// its output.
func (s *session) settled(ctx context.Context) error {
	bu, told := s.bu.Load(), s.told.Load()
	if bu == nil || told == nil {
		return nil
	}
	return bu.Reset(ctx, uint32(told.Exclusions.Load()))
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
