package fault

import (
	"time"

	"ringlet/internal/stopwatch"
)

// departure is how far a node is that was told to end during a run, by SIGTERM for example.
//
//	it asks ─► the run goes on without its builder unit, its only unit ─► its final report ─► withdrawn
//	        │                                                         └► no progress for DepartTimeout ─► lost
//	        ├► it holds other units, and the run tolerates their loss ─► lost, told to end; it stops
//	        └► the run needs it, or ends anyway ─► the run ends in good order
type departure uint8

const (
	notDeparting       departure = iota
	departureRequested           // it asks to be let go
	departureUnderWay            // its builder unit was taken out: the run goes on without it
	departureClosed              // the run ends for it, or it is lost
	departureAsLoss              // the run goes on without all its units, as after a loss
)

// departureText is what happened to a node that was told to end, as a clause.
const departureText = "it was told to end"

// DepartureLoss is the observation for LoseLeaver: the loss of a node that was told to end.
func DepartureLoss(name string) Observation {
	return Observation{Kind: SelfReported, Fault: Fault{
		Component: name,
		Subsystem: SubsystemProcess,
		What:      departureText,
		Evidence:  "seen by " + name,
	}}
}

// withdrawnText is the clause for Presence.Withdrawn.
const withdrawnText = "it was told to end, and has left the run in good order"

// DepartTimeout is how long a departing node may go without progress before it is lost. It waits for the MEPs under way
// to it, for its disk, and until the control has read its final report.
const DepartTimeout = 60 * time.Second

// DepartureReport is the part of a node's report that its departure depends on.
type DepartureReport struct {
	Requested bool   // the node was told to end
	Final     bool   // the node has sent its final report of the run
	Progress  uint64 // a sum of the node's counters: it changes while anything moves there
}

// UpdateDeparture says what to do now about a node that may have been told to end, while a run goes on or ends. If the
// scheduler does not carry ExcludeUnit out, RetryExclude has the next call return it again.
func (c *Core) UpdateDeparture(name string, report DepartureReport, ending bool, now time.Time) Action {
	n := c.node(name)
	if n.departureStage == notDeparting && report.Requested {
		n.departureStage, n.departureStall, n.everLeft = departureRequested, stopwatch.StallDetector{}, true
	}
	if n.departureStage == notDeparting || n.departureStage >= departureClosed || n.lostToRun || n.withdrawn {
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
	case n.departureStage == departureRequested && c.inRun && !c.ignoresFaults && len(c.fatalObservations) == 0 &&
		c.tolerates(n, DepartureLoss(name)):
		n.departureStage = departureAsLoss
		return LoseLeaver
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

// RetryExclude has the next UpdateDeparture return ExcludeUnit again. The builder unit stays out.
func (c *Core) RetryExclude(name string) { c.node(name).departureStage = departureRequested }

// NoteLeft notes that the scheduler has no unit of a withdrawn node any more: another process may take its place.
func (c *Core) NoteLeft(name string) { c.node(name).lostToRun = true }

// Leavers are the nodes that were told to end in this run, in the order of the view.
func (c *Core) Leavers() (names []string) {
	for _, name := range c.names {
		if c.nodes[name].everLeft {
			names = append(names, name)
		}
	}
	return names
}
