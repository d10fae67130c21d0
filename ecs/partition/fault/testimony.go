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
	n, by := c.node(x.Component), c.nodes[x.ReportedBy]
	switch {
	case by == nil:
	case by == n: // of itself a lost node may still tell why, but not what followed while it stood still
		if n.lostToRun && c.stalledLately(n) {
			return x, false
		}
	case by.lostToRun && c.gaveUpForData(by, x):
	case by.withdrawn, by.departureStage == departureUnderWay, by.lostToRun:
		return x, false
	case c.inRun && !c.ignoresFaults && x.Subsystem != SubsystemData && c.stalledLately(by):
		against := c.turnedAgainstReporter(x, by)
		if c.reportsSteadily(n) || x.Kind == ReportedByPeer && c.tolerates(by, against) {
			return against, true
		}
	}
	return x, !c.endsInGoodOrder(n, x)
}

// gaveUpForData says that a node gave the run up for data that do not fit, and is lost for no other reason than that:
// others missed its links before its word was heard.
func (c *Core) gaveUpForData(by *node, x Observation) bool {
	return x.Subsystem == SubsystemData && x.Kind == ReportedByPeer && !by.processEnded && !c.stalledLately(by) &&
		c.clock.now().Sub(by.lostAt) < peerWitnessTimeout
}

// endsInGoodOrder says that what looks like a fault of a node is its end in good order: it was told to end. Links and
// the stream of a node that leaves may close before its final report is seen; it itself and who watches it tell where
// it fails before that.
func (c *Core) endsInGoodOrder(n *node, x Observation) bool {
	switch {
	case !c.inRun || c.ignoresFaults:
		return false
	case n.withdrawn:
		return true
	case n.departureStage != departureUnderWay:
		return false
	}
	return x.Kind == Disconnected || x.Kind == ReportedByPeer || n.finalReported
}

// stalledLately says that a node told nothing for a while, not long ago, while the control listened.
func (c *Core) stalledLately(n *node) bool {
	return !n.resumedAt.IsZero() && c.clock.now().Sub(n.resumedAt) < stallAftermath
}

// reportsSteadily says that a node has told all the time how it is.
func (c *Core) reportsSteadily(n *node) bool {
	return !n.lastReport.IsZero() && c.clock.now().Sub(n.lastReport) < silentAfter && !c.stalledLately(n)
}

// turnedAgainstReporter is the word of a node that stood still, against itself.
func (c *Core) turnedAgainstReporter(x Observation, by *node) Observation {
	return Observation{Kind: Disconnected, Fault: Fault{
		Component: x.ReportedBy,
		Subsystem: SubsystemTransport,
		What: fmt.Sprintf("it told nothing for %v and misses %s since: it stood still or was cut off%s",
			by.silenceBeforeResume.Round(100*time.Millisecond), x.Component, c.locationClause(x.ReportedBy)),
		Evidence: SeenByControl("", "", "").Evidence,
		At:       x.At,
	}}
}
