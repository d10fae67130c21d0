package fault

import (
	"slices"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node/config"
)

// Core keeps the observations of the nodes of a partition, and which nodes a run goes on without.
type Core struct {
	nodes map[string]*node
	names []string // of nodes, in the order in which they became known

	timeouts    *config.Timeouts  // of the configuration
	scheduler   string            // the node whose process runs it; empty: the control does
	successors  bool              // another node can take over the scheduler
	readoutLoss config.LossPolicy // of readout units
	builderLoss config.LossPolicy // of builder units
	spawnsNodes bool              // the control starts the processes of nodes by itself

	inRun bool // a run goes on, which tolerates losses
	attention
	clock             awakeClock
	fatalObservations []Observation // not tolerated, each once
	lossObservations  []Observation // tolerated by a loss policy, each once
	readmittedLosses  []Observation // losses of nodes that were readmitted
	everDegraded      bool          // a unit was lost or excluded in the run
	complaints        complaints    // while the control was blind lately
}

// node is what is known of one node.
type node struct {
	timeouts        *config.Timeouts // of the Core
	host, processID string           // where it runs; empty: not known
	lastReport      time.Time        // when the control got its last report; awake time
	// when a report came after a silence of Timeouts.Missed or more; zero: there was no such silence; awake time
	resumedAt                  time.Time
	silenceBeforeResume        time.Duration // how long that silence was
	goneReason                 string        // the first observation of its end; empty: it is there
	processEnded               bool          // its process has ended
	withdrawn                  bool          // it has left a run in good order
	holdsReadout, holdsBuilder bool          // units that it holds in the view
	holdsDecision              bool          // it holds the decision unit
	takesMEPs                  bool          // its builder unit takes MEPs
	lostToRun                  bool          // the present run goes on without it
	lostAt                     time.Time     // when it was lost; awake time
	retired                    bool          // it is lost, and RetireOnce has said so
	finalReported              bool          // it has sent its final report of the run
	departureStage             departure     // how far its departure is, if it was told to end
	everLeft                   bool          // it was told to end in this run
	departureStall             stopwatch.StallDetector
}

// holdsDecisionOnly says that the node holds the decision unit and no other unit.
func (n *node) holdsDecisionOnly() bool { return n.holdsDecision && !n.holdsReadout && !n.holdsBuilder }

// attention says which reports and faults count.
type attention struct {
	ignoresFaults bool // nodes are being ended on purpose
	// what nodes report of themselves counts; before they are loaded they may still report an earlier run
	acceptsReports bool
}

// Action is what the caller does about an observation or a departure.
type Action uint8

// Actions.
const (
	NoAction Action = iota
	EndRun          // the run ends, or does not begin
	LoseUnit        // take the node's units out of the schedule: the run goes on without them

	ExcludeUnit    // take the builder unit of a departing node out of the schedule
	ConfirmEnd     // tell the departing node that the run ends
	LoseLeaver     // Observe the departing node as DepartureLoss: the run goes on without all its units
	DrainRun       // end the run in good order, and tell the departing node
	NoteWithdrawal // the node has left in good order: publish it, have the scheduler lose its unit, and call NoteLeft
	ObserveAgain   // Observe the same after MinHold, unless it is repeated anyway: it cannot be judged yet
	DeclareMissing // Observe the departing node as lost: nothing has moved at it for DepartTimeout
)

// New makes a Core; spawnsNodes says that the control itself restarts node processes that have ended.
func New(spawnsNodes bool, timeouts config.Timeouts) *Core {
	return &Core{nodes: map[string]*node{}, spawnsNodes: spawnsNodes, timeouts: &timeouts,
		clock: awakeClock{pauseThreshold: timeouts.Missed}}
}

func (c *Core) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{timeouts: c.timeouts}
		c.nodes[name], c.names = n, append(c.names, name)
	}
	return n
}

// SetLocation notes the host and the process id of a node; an empty one leaves what is known.
func (c *Core) SetLocation(name, host, process string) {
	n := c.node(name)
	if host != "" {
		n.host = host
	}
	if process != "" {
		n.processID = process
	}
}

// LocalProcess is the process id of a node whose process the control started; else empty.
func (c *Core) LocalProcess(name string) string {
	if n := c.nodes[name]; n != nil && c.spawnsNodes {
		return n.processID
	}
	return ""
}

// NodesOfLocalProcess are the nodes that share the process of a node, with itself, if the control started the process.
func NodesOfLocalProcess(c *Core, name string) (names []string) {
	process := c.LocalProcess(name)
	for _, other := range c.names {
		if process != "" && c.LocalProcess(other) == process {
			names = append(names, other)
		}
	}
	return names
}

// NoteReport notes that the control got a report of a node; final says that it is the node's final report of the run.
func (c *Core) NoteReport(name string, at time.Time, final bool) {
	n, now := c.node(name), c.clock.tick(at)
	if silent := now.Sub(n.lastReport); !n.lastReport.IsZero() && silent >= c.timeouts.Missed {
		n.resumedAt, n.silenceBeforeResume = now, silent
	}
	n.lastReport, n.finalReported = now, final
}

// NoteAnswer notes that a node answered a control that had come back only after some time: it stood still or was cut
// off meanwhile, as after a silence between reports. Call it after BeginRun.
func NoteAnswer(c *Core, name string, at time.Time, after time.Duration) {
	if now := c.clock.tick(at); after >= c.timeouts.Missed {
		n := c.node(name)
		n.resumedAt, n.silenceBeforeResume = now, after
	}
}

// Unit is what a node holds in a view.
type Unit struct {
	Node             string
	Readout, Builder bool
	Decision         bool // it holds the decision unit
}

// SetView sets the units of the view for the run that is about to begin.
func (c *Core) SetView(view []Unit, scheduler string, readout, builder config.LossPolicy) {
	c.successors = false
	c.scheduler, c.readoutLoss, c.builderLoss, c.everDegraded, c.inRun = scheduler, readout, builder, false, false
	c.lossObservations, c.readmittedLosses = nil, nil
	for _, n := range c.nodes {
		n.holdsReadout, n.holdsBuilder, n.holdsDecision, n.takesMEPs = false, false, false, false
		n.lostToRun, n.departureStage, n.everLeft, n.retired = false, notDeparting, false, false
	}
	former := c.names
	c.names = nil // in the order of the view, then other known nodes
	for _, u := range view {
		n := c.nodes[u.Node]
		if n == nil {
			n = &node{timeouts: c.timeouts}
			c.nodes[u.Node] = n
		}
		c.names = append(c.names, u.Node)
		n.holdsReadout, n.holdsBuilder, n.takesMEPs = u.Readout, u.Builder, u.Builder
		n.holdsDecision = u.Decision
	}
	for _, name := range former {
		if !slices.Contains(c.names, name) {
			c.names = append(c.names, name)
		}
	}
}

// BeginRun has the loss policies apply from now on: every node was told to start.
func (c *Core) BeginRun() {
	c.inRun = true
	c.complaints = complaints{}
	for _, n := range c.nodes {
		n.resumedAt = time.Time{} // before the run a silence means nothing
	}
}

// SetScheduler notes which node's process runs the scheduler. With successors, the run goes on when that node is lost,
// if the policies allow it: another node takes the scheduler over.
func (c *Core) SetScheduler(node string, successors bool) {
	c.scheduler, c.successors = node, successors
}

// AcceptReports has what nodes report of themselves count from now on.
func (c *attention) AcceptReports() { c.acceptsReports = true }

// AcceptsReports says whether what a node reports of itself counts.
func (c *attention) AcceptsReports() bool { return c.acceptsReports }

// IgnoreFaults has no fault count until Clear: the control ends nodes on purpose.
func (c *attention) IgnoreFaults() { c.ignoresFaults = true }

// Clear forgets the fatal observations, and has faults count again.
func (c *Core) Clear() { c.fatalObservations, c.inRun, c.ignoresFaults = nil, false, false }

// IgnoresFaults says that IgnoreFaults was called: call Clear before another run.
func (c *attention) IgnoresFaults() bool { return c.ignoresFaults }

// Observe takes an observation of a component, and returns what the caller does and the fault for which. The fault may
// be another node's: if n1 was suspended for 6 s and then reports that its link to n2 broke, the fault is n1's (see
// admit).
func (c *Core) Observe(x Observation) (Action, Fault) {
	n := c.node(x.Component)
	if x.ReportedBy != "" {
		c.node(x.ReportedBy)
	}
	n.processEnded = n.processEnded || x.Kind.processEnded()
	if c.inRun && !c.ignoresFaults && x.Kind == Disconnected {
		counts, held := c.compare(x)
		if held {
			return ObserveAgain, x.Fault
		}
		x = counts
	}
	x, counts := c.admit(x)
	if !counts {
		return NoAction, x.Fault
	}
	return c.judge(c.node(x.Component), x), x.Fault
}

// judge decides on an observation that admit lets in.
func (c *Core) judge(n *node, x Observation) Action {
	if x.ReportedBy != "" && x.ReportedBy != x.Component && x.Kind <= Disconnected && !c.inRun {
		return NoAction // outside of a run a broken link does no harm
	}
	if c.ignoresFaults || !c.inRun {
		return c.noteFatal(n, x)
	}
	if !c.tolerates(n, x) || x.Kind == Disconnected && hasGivenUp(c.fatalObservations, x.Component) {
		return c.noteFatal(n, x)
	}
	if n.goneReason == "" {
		n.goneReason = x.What // commands do not wait for it any more: its process may hang
	}
	first := !n.lostToRun
	if first {
		n.lostAt = c.clock.now()
	}
	n.lostToRun, n.takesMEPs, c.everDegraded = true, false, true
	c.lossObservations = appendNew(c.lossObservations, x)
	if first {
		return LoseUnit
	}
	return NoAction
}

// noteFatal notes an observation that is not tolerated; the first one ends the run.
func (c *Core) noteFatal(n *node, x Observation) Action {
	if (x.Kind.processEnded() || x.Kind == SilentToControl) && n.goneReason == "" {
		n.goneReason = x.What
	}
	if c.ignoresFaults {
		return NoAction
	}
	first := len(c.fatalObservations) == 0
	c.fatalObservations = appendNew(c.fatalObservations, x)
	if first {
		return EndRun
	}
	return NoAction
}

// hasGivenUp says that a node has given the run up and named another node as the reason. It closes its links then, so
// that other nodes lose theirs to it.
func hasGivenUp(observations []Observation, name string) bool {
	return slices.ContainsFunc(observations, func(x Observation) bool {
		return x.Kind == ReportedByPeer && x.ReportedBy == name
	})
}

// appendNew appends an observation that is not there yet: each report of a node repeats the node's fault.
func appendNew(observations []Observation, x Observation) []Observation {
	if slices.ContainsFunc(observations, func(y Observation) bool {
		return y.Kind == x.Kind && y.Component == x.Component && y.ReportedBy == x.ReportedBy && y.What == x.What
	}) {
		return observations
	}
	return append(observations, x)
}

// tolerates says whether the run goes on after a fault of a node. It does not where a node gave up for the fault, since
// that node has closed its links, nor where the configuration is wrong, since every unit has the same one.
func (c *Core) tolerates(n *node, x Observation) bool {
	if x.Kind == ReportedByPeer || x.Component == c.scheduler && !c.successors || x.Subsystem == subsystemConfig {
		return false
	}
	if n.lostToRun || n.holdsDecisionOnly() {
		return true
	}
	return (n.holdsReadout || n.holdsBuilder) &&
		(!n.holdsReadout || c.readoutLoss.Tolerates(c.count((*node).reads)-1)) &&
		(!n.takesMEPs || c.builderLoss.Tolerates(c.count((*node).builds)-1))
}

// Presence says whether a node is there.
type Presence struct {
	Gone         string // the first observation of its end or its Error; empty: there was none, or it has withdrawn
	Withdrawn    string // a clause that it has left the run in good order; empty: it has not
	ProcessEnded bool   // its process is known to have ended
	Lost         bool   // it is lost to the run, which goes on without it
	Departed     bool   // it was told to end, and is not back
}

// HasLeftRun says that the run went on without the node: it is lost or has withdrawn.
func (p Presence) HasLeftRun() bool { return p.Lost || p.Withdrawn != "" }

// PresenceOf says whether a node is there, as far as the control knows.
func (c *Core) PresenceOf(name string) (p Presence) {
	n := c.nodes[name]
	switch {
	case n == nil:
		return p
	case n.withdrawn:
		p.Withdrawn = withdrawnText
	default:
		p.Gone = n.goneReason
	}
	p.ProcessEnded, p.Lost, p.Departed = n.processEnded, n.lostToRun, n.departureStage != notDeparting
	return p
}

// NoteGoneAfterRun notes that a node is gone after its final report of the run: this is no fault, and commands do not
// wait for the node.
func (c *Core) NoteGoneAfterRun(name, what string) {
	n := c.node(name)
	if n.goneReason == "" {
		n.goneReason = what
	}
	n.processEnded = n.processEnded || n.departureStage != notDeparting // it was told to end: it does not come back
}
