package fault

import (
	"fmt"
	"time"
)

// admit is the only place that decides whether an observation counts, and against which node. For example, n1 is
// suspended for 6 s; its links time out at both ends, and when it runs again it reports the link to n2 as broken: the
// stall of n1 is the fault, not n2.
//
//	the node that reports another one             its observation counts
//	is lost, is leaving, or has left              not at all: its links ended because of that
//	is lost, but had just given up for bad data   as it is: others may have reported its closed links first
//	had stalled, and the other had not            against itself: its stall broke the link between them, if the other
//	                                              takes part: the process of a node that was given up may report still
//	had stalled, and gives the run up             against itself, if the run can go on without it
//	is any other                                  as it is
func (c *Core) admit(x Observation) (counts Observation, ok bool) {
	n, by, now := c.node(x.Component), c.nodes[x.ReportedBy], c.clock.now()
	switch {
	case by == nil:
	case by == n: // a lost node may still report why it failed, but not what its stall led to
		if n.lostToRun && n.stalledLately(now) {
			return x, false
		}
	case by.lostToRun && by.gaveUpForData(x, now):
	case by.withdrawn, by.departureStage == departureUnderWay, by.lostToRun:
		return x, false
	case c.inRun && !c.ignoresFaults && x.Subsystem != SubsystemData && by.stalledLately(now):
		against := by.turnAgainst(x)
		if n.reportsSteadily(now) && !n.lostToRun || x.Kind == ReportedByPeer && c.tolerates(by, against) {
			return against, true
		}
	}
	return x, !c.inRun || c.ignoresFaults || !n.endsInGoodOrder(x)
}

// gaveUpForData says that a node gave the run up for bad data, and that this alone is why it is lost: other nodes
// reported its closed links before its own report arrived.
func (n *node) gaveUpForData(x Observation, now time.Time) bool {
	return x.Subsystem == SubsystemData && x.Kind == ReportedByPeer && !n.processEnded && !n.stalledLately(now) &&
		now.Sub(n.lostAt) < n.timeouts.Witness
}

// endsInGoodOrder says that an observation is part of a node's departure and not a fault: the node was told to end, and
// its links and its stream may close before the control has read its final report. A fault before that report is known
// by the node itself or by the process that watches it.
func (n *node) endsInGoodOrder(x Observation) bool {
	switch {
	case n.withdrawn, n.departureStage == departureAsLoss && n.lostToRun:
		return true
	case n.departureStage != departureUnderWay:
		return false
	}
	return x.Kind == Disconnected || x.Kind == ReportedByPeer || n.finalReported
}

// stalledLately says that a silence of the node, of Timeouts.Missed or longer, ended less than Timeouts.Aftermath ago:
// its reports of broken links may be consequences, since a link times out at the stalled end, too.
func (n *node) stalledLately(now time.Time) bool {
	return !n.resumedAt.IsZero() && now.Sub(n.resumedAt) < n.timeouts.Aftermath
}

// reportsSteadily says that the node's reports come, and that there was no silence lately.
func (n *node) reportsSteadily(now time.Time) bool {
	return !n.lastReport.IsZero() && now.Sub(n.lastReport) < n.timeouts.Missed && !n.stalledLately(now)
}

// turnAgainst turns the observation of a node that had stalled into one of that node itself.
func (n *node) turnAgainst(x Observation) Observation {
	return Observation{Kind: Disconnected, Fault: Fault{
		Component: x.ReportedBy,
		Subsystem: SubsystemTransport,
		What: fmt.Sprintf("it sent no report for %v and misses %s since: it stood still or was cut off%s",
			n.silenceBeforeResume.Round(100*time.Millisecond), x.Component, n.location()),
		Evidence: SeenByControl("", "", "").Evidence,
		At:       x.At,
	}}
}
