package node

import (
	"time"

	"ringlet/internal/stopwatch"
)

// lease decides what a node does of itself when the control falls silent in a run whose scheduler lives on a node. It
// is a core without clock: step is told the time and what is to be seen.
//
//	silent for maxSilence ─► drain (on the node that has the scheduler) ─► drained, or nothing moves ─► stop
//
// A control that speaks again before the stop has the run back, draining or not.
type lease struct {
	lostSince     time.Time // when the control was given up; zero: it was not
	stallDetector stopwatch.StallDetector
}

// leaseObservation is what a lease goes by.
type leaseObservation struct {
	running     bool          // a run goes on here, and its scheduler lives on a node
	lastContact time.Time     // when the control last spoke; now, while it watches
	maxSilence  time.Duration // how long it may be silent
	progress    uint64        // changes while something moves here, see session.progressCount
	drained     bool          // this node's units hear no more of the scheduler: the view is drained, or they are cut off
}

// leaseAct is what is to be done now.
type leaseAct uint8

const (
	leaseNone        leaseAct = iota
	leaseDrain                // where the scheduler is: let it drain
	leaseExcludeLost          // it drains: see that nothing which is lost meanwhile holds it up
	leaseStop                 // stop as the control would
)

// Times of a lease.
const (
	// minSilence is granted at least: a control that has begun a run, or whose connection broke, needs a moment to watch
	// again.
	minSilence = time.Second
	// leaseGrace is how long nothing may move, once the control is given up, before the scheduler has drained: it
	// hangs. Where its node has not heard that the control is given up, the control still speaks to it, and decides.
	leaseGrace = 30 * time.Second
)

// step takes the lease to the time now.
func (l *lease) step(now time.Time, s leaseObservation) leaseAct {
	switch {
	case !s.running, now.Sub(s.lastContact) < max(s.maxSilence, minSilence):
		l.lostSince = time.Time{}
	case l.lostSince.IsZero():
		l.lostSince, l.stallDetector = now, stopwatch.StallDetector{}
		l.stallDetector.Observe(now, s.progress)
		return leaseDrain
	case s.drained, l.stallDetector.Observe(now, s.progress) >= leaseGrace:
		return leaseStop
	default:
		return leaseExcludeLost
	}
	return leaseNone
}
