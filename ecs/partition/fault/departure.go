package fault

import (
	"time"

	"ringlet/internal/stopwatch"
)

// departure is how far a node is that was told to end in a run.
//
//	it asks ─► the run goes on without it ─► its final report ─► left
//	        │                             └► nothing of it moves any more ─► lost
//	        └► the run needs it, or ends anyway ─► the run ends in good order
type departure uint8

const (
	staying departure = iota
	asking            // to be let go
	leaving           // the run goes on without it, or will: its builder unit is out
	settled           // nothing more is to be done: the run ends for it, or it is lost
)

// left is how a node has left in good order.
const left = "it was told to end, and has left the run in good order"

// DepartTime is how long a node that leaves may go without any progress before it is lost: it waits for what is under
// way to it, for its disk, and for its final report to be read.
const DepartTime = 60 * time.Second

// Leaver is what a node tells by which its departure goes.
type Leaver struct {
	Asks  bool   // it was told to end
	Final bool   // it has told its final report of the run
	Moved uint64 // whatever moves at it
}

// Depart looks after a node that may have been told to end, while a run goes on or ends: it says what is to be done
// about it now. Where it is Exclude, and that fails, Stay has it asked for again.
func (c *Core) Depart(name string, tells Leaver, ending bool, now time.Time) Act {
	n := c.node(name)
	if n.stage == staying && tells.Asks {
		n.stage, n.still = asking, stopwatch.StallDetector{}
	}
	if n.stage == staying || n.stage == settled || n.lost || n.left {
		return Nothing
	}
	still := n.still.Observe(c.awake.tick(now), tells.Moved)
	switch {
	case n.stage == asking && ending:
		n.stage = settled
		return Promise
	case n.stage == asking && c.mayLeave(name):
		c.ever, n.in, n.stage = c.ever || n.in, false, leaving
		return Exclude
	case n.stage == asking:
		n.stage = settled
		return End
	case tells.Final:
		n.left = true
		return Leave
	case still >= DepartTime:
		n.stage = settled
		return GiveUp
	}
	return Nothing
}

// mayLeave says whether the run goes on without a node that was told to end: it holds a builder unit, which may be
// taken out, and nothing else: no readout unit, no decision unit, and not the scheduler.
func (c *Core) mayLeave(name string) bool {
	n := c.nodes[name]
	return name != c.scheduler && c.MayExclude(name) == nil && !n.readout && !n.decides
}

// Stay undoes Exclude, but that the builder unit is out.
func (c *Core) Stay(name string) { c.node(name).stage = asking }

// Leavers are the nodes that were told to end in this run, in the order of the view.
func (c *Core) Leavers() (names []string) {
	for _, name := range c.names {
		if c.nodes[name].stage != staying {
			names = append(names, name)
		}
	}
	return names
}

// Left is how a node has left in good order; empty if it has not.
func (c *Core) Left(name string) string {
	if n := c.nodes[name]; n != nil && n.left {
		return left
	}
	return ""
}
