package fault

import (
	"fmt"
	"time"
)

// stallAftermath is how long after a node stood still its word on its links may come of that: its own end of a link
// runs out within 5 s, as the other end has.
const stallAftermath = 10 * time.Second

// admit is the one place where testimony is let in: it says what an observation counts for, and whether it counts at
// all.
//
//	who speaks of another                         counts
//	lost to the run, leaves it, or has left it    for nothing: its links ended for that
//	and had just given up for bad data            as it is: others may have told of its links before
//	stood still, and the other did not            against itself: the link between them broke for that
//	stood still, and gives the run up             likewise, where the run goes on without it
//	anybody else                                  as it is
func (c *Core) admit(x Observation) (counts Observation, ok bool) {
	n, by, now := c.node(x.Component), c.nodes[x.ReportedBy], c.clock.now()
	switch {
	case by == nil:
	case by == n: // of itself a lost node may still tell why, but not what followed while it stood still
		if n.lostToRun && n.stalledLately(now) {
			return x, false
		}
	case by.lostToRun && by.gaveUpForData(x, now):
	case by.withdrawn, by.departureStage == departureUnderWay, by.lostToRun:
		return x, false
	case c.inRun && !c.ignoresFaults && x.Subsystem != SubsystemData && by.stalledLately(now):
		against := by.turnAgainst(x)
		if n.reportsSteadily(now) || x.Kind == ReportedByPeer && c.tolerates(by, against) {
			return against, true
		}
	}
	return x, !c.inRun || c.ignoresFaults || !n.endsInGoodOrder(x)
}

// gaveUpForData says that a node gave the run up for data that do not fit, and is lost for no other reason than that:
// others missed its links before its word was heard.
func (n *node) gaveUpForData(x Observation, now time.Time) bool {
	return x.Subsystem == SubsystemData && x.Kind == ReportedByPeer && !n.processEnded && !n.stalledLately(now) &&
		now.Sub(n.lostAt) < peerWitnessTimeout
}

// endsInGoodOrder says that what looks like a fault of a node is its end in good order: it was told to end. Links and
// the stream of a node that leaves may close before its final report is seen; it itself and who watches it tell where
// it fails before that.
func (n *node) endsInGoodOrder(x Observation) bool {
	switch {
	case n.withdrawn:
		return true
	case n.departureStage != departureUnderWay:
		return false
	}
	return x.Kind == Disconnected || x.Kind == ReportedByPeer || n.finalReported
}

// stalledLately says that a node told nothing for a while, not long ago, while the control listened.
func (n *node) stalledLately(now time.Time) bool {
	return !n.resumedAt.IsZero() && now.Sub(n.resumedAt) < stallAftermath
}

// reportsSteadily says that a node has told all the time how it is.
func (n *node) reportsSteadily(now time.Time) bool {
	return !n.lastReport.IsZero() && now.Sub(n.lastReport) < silentAfter && !n.stalledLately(now)
}

// turnAgainst is the word of a node that stood still, against itself.
func (n *node) turnAgainst(x Observation) Observation {
	return Observation{Kind: Disconnected, Fault: Fault{
		Component: x.ReportedBy,
		Subsystem: SubsystemTransport,
		What: fmt.Sprintf("it told nothing for %v and misses %s since: it stood still or was cut off%s",
			n.silenceBeforeResume.Round(100*time.Millisecond), x.Component, n.location()),
		Evidence: SeenByControl("", "", "").Evidence,
		At:       x.At,
	}}
}
