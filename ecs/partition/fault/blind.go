package fault

import (
	"fmt"
	"time"
)

// A control that stood still, or was cut off from all nodes, does not know who did the same meanwhile: the silence of a
// node proves nothing then. For some time it holds what nodes report of their links until each has spoken, or two
// agree. Of two that miss each other, the one counts as lost that more others miss.

// maxHold is how long a complaint is held at most, or Timeouts.Aftermath if that is longer: connections of the control
// that were cut for 8 s move again some seconds later.
const maxHold = 10 * time.Second

// linkComplaint is the report of a node that its link to another one is down.
type linkComplaint struct{ by, about string }

// complaintTimes are when a complaint came first, and last; awake time.
type complaintTimes struct{ first, last time.Time }

// MinHold is how long a complaint is held at least: each node has reported once more by then.
const MinHold = time.Second

// complaints are what nodes report of their links.
type complaints map[linkComplaint]complaintTimes

// note notes a complaint, and returns since when it is repeated: it ends when it is not repeated for missed.
func (c complaints) note(key linkComplaint, now time.Time, missed time.Duration) (first time.Time) {
	at := c[key]
	if at.first.IsZero() || now.Sub(at.last) >= missed {
		at.first = now
	}
	at.last = now
	c[key] = at
	return at.first
}

// count counts the nodes that complain about a node now, besides one.
func (c complaints) count(nodes map[string]*node, about, besides string, now time.Time) (count int) {
	for key, at := range c {
		by := nodes[key.by]
		if key.about == about && key.by != besides && now.Sub(at.last) < by.timeouts.Missed && by.mayTestify() {
			count++
		}
	}
	return count
}

// mayTestify says that a node takes part in the run, as far as the control knows.
func (n *node) mayTestify() bool { return !n.lostToRun && !n.withdrawn && !n.processEnded }

// wasBlind says that the control stood still lately, or was cut off from all nodes that take part.
func wasBlind(c *Core) bool {
	now := c.clock.now()
	if at := c.clock.resumedAt; !at.IsZero() && now.Sub(at) < c.timeouts.Aftermath {
		return true
	}
	resumed := false
	for _, n := range c.nodes {
		if n.mayTestify() && n.reportsSteadily(now) {
			return false
		}
		resumed = resumed || n.mayTestify() && n.stalledLately(now)
	}
	return resumed
}

// allReported says that each node has reported since a complaint came first, or has had the time to.
func allReported(c *Core, first, now time.Time) bool {
	age := now.Sub(first)
	for _, n := range c.nodes {
		if !n.lastReport.IsZero() && n.mayTestify() &&
			(n.lastReport.Sub(first) < MinHold/2 || now.Sub(n.resumedAt) < MinHold/2) {
			return age >= max(maxHold, c.timeouts.Aftermath)
		}
	}
	return age >= MinHold
}

// compare decides on an observation that a node has lost another one. If the control was blind lately, it is held, or
// counts, perhaps against the node that reports it.
func (c *Core) compare(x Observation) (counts Observation, held bool) {
	by, now := x.ReportedBy, c.clock.now()
	if x.Scheduler {
		by = c.scheduler
	}
	if n := c.nodes[by]; n == nil || by == x.Component || !n.mayTestify() || !wasBlind(c) {
		return x, false
	}
	first := c.complaints.note(linkComplaint{by, x.Component}, now, c.timeouts.Missed)
	missed, othersMiss := c.complaints.count(c.nodes, by, x.Component, now),
		c.complaints.count(c.nodes, x.Component, by, now)
	agreed := now.Sub(first) >= MinHold && missed != othersMiss && max(missed, othersMiss) >= 2
	switch {
	case !agreed && !allReported(c, first, now):
		return x, true
	case missed <= othersMiss:
		return x, false
	}
	others := "another node misses it"
	if missed > 1 {
		others = fmt.Sprintf("%d others miss it", missed)
	}
	return Observation{Kind: Disconnected, Fault: Fault{
		Component: by,
		Subsystem: SubsystemTransport,
		What: fmt.Sprintf("it misses %s, and %s: it stood still or was cut off%s", x.Component,
			others, c.nodes[by].location()),
		Evidence: SeenByControl("", "", "").Evidence,
		At:       x.At,
	}}, false
}
