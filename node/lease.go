package node

import (
	"time"

	"ringlet/internal/stopwatch"
)

// lease decides what a node does by itself when the control falls silent in a run whose scheduler is on a node. It is a
// core without clock: step gets the time and an observation.
//
//	silent for maxSilence ─► drain (on the node that has the scheduler) ─► drained, or nothing moves ─► stop
//
// If the control calls again before the stop, it has the run back, draining or not.
type lease struct {
	lostSince     time.Time // when the control was given up; zero: it was not
	stallDetector stopwatch.StallDetector
}

// leaseObservation is the input of a lease.
type leaseObservation struct {
	running     bool          // this node is in a run, and its scheduler is on a node
	lastContact time.Time     // when the control last called; now, while a call is under way
	maxSilence  time.Duration // how long it may be silent
	progress    uint64        // changes while the run makes progress here, see session.progressCount
	drained     bool          // this node's units have no sessions left: the view is drained, or they are cut off
}

// leaseAct is what the node does now.
type leaseAct uint8

const (
	leaseNone        leaseAct = iota
	leaseDrain                // on the scheduler's node: drain the scheduler
	leaseExcludeLost          // while it drains: exclude lost units, which would hold up the drain
	leaseStop                 // stop the run as the control would
)

// Times of a lease.
const (
	// minSilence is the least silence that is tolerated: a control that has begun a run, or whose connection broke, needs
	// a moment before it watches again.
	minSilence = time.Second
	// leaseGrace is how long the drain may go without progress, once the control is given up, before the node stops. If
	// the scheduler's node has not given up the control, the control still reaches that node and decides.
	leaseGrace = 30 * time.Second
)

// step brings the lease to the time now, and returns what the node does.
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
