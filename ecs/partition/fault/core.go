package fault

import (
	"slices"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node/config"
)

// Core knows what was seen of the nodes of a partition, and which of them a run goes on without.
type Core struct {
	nodes map[string]*node
	names []string // of nodes, in the order in which they became known

	scheduler   string            // the node on which it lives; empty: in the control
	readoutLoss config.LossPolicy // of readout units
	builderLoss config.LossPolicy // of builder units
	spawnsNodes bool              // the control starts the processes of nodes by itself

	inRun         bool // a run goes on, which tolerates losses
	ignoresFaults bool // nodes are being ended on purpose
	// to what nodes say of themselves: before they are loaded they may still speak of an earlier run
	acceptsReports    bool
	clock             awakeClock
	fatalObservations []Observation // that are not tolerated, each once
	lossObservations  []Observation // that the policy tolerates, each once
	readmittedLosses  []Observation // losses of nodes that are back
	everDegraded      bool          // a unit was lost or excluded in the run
}

// node is what is known of one.
type node struct {
	host, processID string    // where it runs; empty: not known
	lastReport      time.Time // last, by the control, of the time in which that was awake
	// when it was heard again after it had told nothing for long; zero: it always told
	resumedAt                  time.Time
	silenceBeforeResume        time.Duration // before that
	goneReason                 string        // what was seen first of its end; empty: it is there
	processEnded               bool          // its process has
	withdrawn                  bool          // it has left a run in good order
	holdsReadout, holdsBuilder bool          // units that it holds in the view
	holdsDecision              bool          // it holds the decision unit
	takesMEPs                  bool          // its builder unit takes MEPs
	lostToRun                  bool          // to this run
	lostAt                     time.Time     // it is lost, of the time in which the control was awake
	retired                    bool          // it is lost, and was heard to go on
	finalReported              bool          // it has done what it has to in the run
	departureStage             departure     // how far it is, if it was told to end
	departureStall             stopwatch.StallDetector
}

// holdsDecisionOnly says that it holds the decision unit, and no other.
func (n *node) holdsDecisionOnly() bool { return n.holdsDecision && !n.holdsReadout && !n.holdsBuilder }

// Action is what is to be done.
type Action uint8

// What is to be done.
const (
	NoAction Action = iota
	EndRun          // the run ends, or does not begin
	LoseUnit        // its unit is to be taken out of the schedule: the run goes on without it

	ExcludeUnit    // likewise, of a node that leaves
	ConfirmEnd     // tell it that the run ends
	DrainRun       // end the run, and tell it so
	NoteWithdrawal // nothing: it has left in good order
	DeclareMissing // see it as missing: it neither leaves nor moves
)

// New makes a Core; spawnsNodes says that the control starts processes of nodes that have ended by itself.
func New(spawnsNodes bool) *Core { return &Core{nodes: map[string]*node{}, spawnsNodes: spawnsNodes} }

func (c *Core) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{}
		c.nodes[name], c.names = n, append(c.names, name)
	}
	return n
}

// SetLocation notes where a node runs; what is empty leaves what is known.
func (c *Core) SetLocation(name, host, process string) {
	n := c.node(name)
	if host != "" {
		n.host = host
	}
	if process != "" {
		n.processID = process
	}
}

// NoteReport notes that the control has heard a node; final says that it has done what it has to in the run.
func (c *Core) NoteReport(name string, at time.Time, final bool) {
	n, now := c.node(name), c.clock.tick(at)
	if silent := now.Sub(n.lastReport); !n.lastReport.IsZero() && silent >= silentAfter {
		n.resumedAt, n.silenceBeforeResume = now, silent
	}
	n.lastReport, n.finalReported = now, final
}

// Unit is what a node holds in a view.
type Unit struct {
	Node             string
	Readout, Builder bool
	Decision         bool // the decision unit, whatever else it holds
}

// SetView takes the units of a view for a run that is to begin.
func (c *Core) SetView(view []Unit, scheduler string, readout, builder config.LossPolicy) {
	c.scheduler, c.readoutLoss, c.builderLoss, c.everDegraded, c.inRun = scheduler, readout, builder, false, false
	c.lossObservations, c.readmittedLosses = nil, nil
	for _, n := range c.nodes {
		n.holdsReadout, n.holdsBuilder, n.holdsDecision, n.takesMEPs = false, false, false, false
		n.lostToRun, n.departureStage, n.retired = false, notDeparting, false
	}
	former := c.names
	c.names = nil // in the order of the view, and then who else is known
	for _, u := range view {
		n := c.nodes[u.Node]
		if n == nil {
			n = &node{}
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

// BeginRun has losses tolerated from now on: every unit is on its way into the run.
func (c *Core) BeginRun() {
	c.inRun = true
	for _, n := range c.nodes {
		n.resumedAt = time.Time{} // nobody had to tell anything before
	}
}

// AcceptReports listens to what nodes say of themselves from now on.
func (c *Core) AcceptReports() { c.acceptsReports = true }

// AcceptsReports says whether what a node says of itself counts.
func (c *Core) AcceptsReports() bool { return c.acceptsReports }

// IgnoreFaults is for the time when nodes are ended on purpose.
func (c *Core) IgnoreFaults() { c.ignoresFaults = true }

// Clear forgets what broke and listens again.
func (c *Core) Clear() { c.fatalObservations, c.inRun, c.ignoresFaults = nil, false, false }

// IgnoresFaults says that nodes are being ended on purpose, or were: Clear is to come before another run of them.
func (c *Core) IgnoresFaults() bool { return c.ignoresFaults }

// Observe takes what was seen of a component. It returns what is to be done about it, and the fault for which: a word
// may count against whoever says it.
func (c *Core) Observe(x Observation) (Action, Fault) {
	n := c.node(x.Component)
	if x.ReportedBy != "" {
		c.node(x.ReportedBy)
	}
	n.processEnded = n.processEnded || x.Kind.processEnded()
	x, counts := c.admit(x)
	if !counts {
		return NoAction, x.Fault
	}
	return c.judge(c.node(x.Component), x), x.Fault
}

// judge takes what was admitted of a node.
func (c *Core) judge(n *node, x Observation) Action {
	if x.ReportedBy != "" && x.ReportedBy != x.Component && x.Kind <= Disconnected && !c.inRun {
		return NoAction // outside of a run a link that is down does not matter, nor what came over it
	}
	if c.ignoresFaults || !c.inRun {
		return c.noteFatal(n, x)
	}
	if !c.tolerates(n, x) || x.Kind == Disconnected && hasGivenUp(c.fatalObservations, x.Component) {
		return c.noteFatal(n, x)
	}
	if n.goneReason == "" {
		n.goneReason = x.What // it may stand still, so nobody waits for it either
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

// noteFatal notes what is not tolerated.
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

// hasGivenUp says that a node has given up and said why: others lose their links to it for that.
func hasGivenUp(observations []Observation, name string) bool {
	return slices.ContainsFunc(observations, func(x Observation) bool {
		return x.Kind == ReportedByPeer && x.ReportedBy == name
	})
}

// appendNew appends an observation that is not there yet. Nodes report what they say of themselves again and again.
func appendNew(observations []Observation, x Observation) []Observation {
	if slices.ContainsFunc(observations, func(y Observation) bool {
		return y.Kind == x.Kind && y.Component == x.Component && y.ReportedBy == x.ReportedBy && y.What == x.What
	}) {
		return observations
	}
	return append(observations, x)
}

// tolerates says whether the run goes on after a fault. The word of a node that has given up itself ends it: the others
// have lost their links to that node. What is wrong with the configuration is so for every unit.
func (c *Core) tolerates(n *node, x Observation) bool {
	if x.Kind == ReportedByPeer || x.Component == c.scheduler || x.Subsystem == subsystemConfig {
		return false
	}
	switch {
	case n.lostToRun || n.holdsDecisionOnly():
		return true
	case n.holdsReadout && !n.holdsBuilder:
		return c.readoutLoss.Tolerates(c.count((*node).reads) - 1)
	}
	return n.holdsBuilder && !n.holdsReadout && (!n.takesMEPs || c.builderLoss.Tolerates(c.count((*node).builds)-1))
}

// Presence says whether a node is there.
type Presence struct {
	Gone         string // what was seen first of its end or its Error; empty: neither was, or it has left in good order
	Withdrawn    string // how it has left in good order; empty: it has not
	ProcessEnded bool   // its process is known to have ended
	Lost         bool   // it is lost to the run, which goes on without it
}

// HasLeftRun says that the run went on without the node: it is lost, or has left in good order.
func (p Presence) HasLeftRun() bool { return p.Lost || p.Withdrawn != "" }

// PresenceOf says whether a node is there, as far as is known.
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
	p.ProcessEnded, p.Lost = n.processEnded, n.lostToRun
	return p
}

// NoteGoneAfterRun notes that a node is gone which had done what it has to in the run: nobody waits for it, and nothing
// has broken.
func (c *Core) NoteGoneAfterRun(name, what string) {
	if n := c.node(name); n.goneReason == "" {
		n.goneReason = what
	}
}
