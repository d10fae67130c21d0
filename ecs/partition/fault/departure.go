package fault

import (
	"time"

	"ringlet/internal/stopwatch"
)

// departure is how far a node is that was told to end in a run.
//
//	it asks ─► the run goes on without it ─► its final report ─► withdrawn
//	        │                             └► nothing of it moves any more ─► lost
//	        └► the run needs it, or ends anyway ─► the run ends in good order
type departure uint8

const (
	notDeparting       departure = iota
	departureRequested           // to be let go
	departureUnderWay            // the run goes on without it, or will: its builder unit is out
	departureClosed              // nothing more is to be done: the run ends for it, or it is lost
)

// withdrawnText is how a node has left in good order.
const withdrawnText = "it was told to end, and has left the run in good order"

// DepartTimeout is how long a node that leaves may go without any progress before it is lost: it waits for what is
// under way to it, for its disk, and for its final report to be read.
const DepartTimeout = 60 * time.Second

// DepartureReport is what a node tells by which its departure goes.
type DepartureReport struct {
	Requested bool   // it was told to end
	Final     bool   // it has told its final report of the run
	Progress  uint64 // whatever moves at it
}

// UpdateDeparture looks after a node that may have been told to end, while a run goes on or ends: it says what is to be
// done about it now. Where it is ExcludeUnit, and that fails, RetryExclude has it asked for again.
func (c *Core) UpdateDeparture(name string, report DepartureReport, ending bool, now time.Time) Action {
	n := c.node(name)
	if n.departureStage == notDeparting && report.Requested {
		n.departureStage, n.departureStall = departureRequested, stopwatch.StallDetector{}
	}
	if n.departureStage == notDeparting || n.departureStage == departureClosed || n.lostToRun || n.withdrawn {
		return NoAction
	}
	still := n.departureStall.Observe(c.clock.tick(now), report.Progress)
	switch {
	case n.departureStage == departureRequested && ending:
		n.departureStage = departureClosed
		return ConfirmEnd
	case n.departureStage == departureRequested && name != c.scheduler && c.MayExclude(name) == nil && !n.holdsReadout &&
		!n.holdsDecision: // it holds a builder unit, which may be taken out, and nothing else
		c.everDegraded, n.takesMEPs, n.departureStage = c.everDegraded || n.takesMEPs, false, departureUnderWay
		return ExcludeUnit
	case n.departureStage == departureRequested:
		n.departureStage = departureClosed
		return DrainRun
	case report.Final:
		n.withdrawn = true
		return NoteWithdrawal
	case still >= DepartTimeout:
		n.departureStage = departureClosed
		return DeclareMissing
	}
	return NoAction
}

// RetryExclude undoes ExcludeUnit, but that the builder unit is out.
func (c *Core) RetryExclude(name string) { c.node(name).departureStage = departureRequested }

// Leavers are the nodes that were told to end in this run, in the order of the view.
func (c *Core) Leavers() (names []string) {
	for _, name := range c.names {
		if c.nodes[name].departureStage != notDeparting {
			names = append(names, name)
		}
	}
	return names
}
