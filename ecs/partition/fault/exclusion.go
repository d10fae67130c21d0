package fault

import (
	"fmt"
	"slices"
)

// builds says that the node's builder unit takes MEPs; reads says that its readout unit takes part.
func (n *node) builds() bool { return n.takesMEPs }
func (n *node) reads() bool  { return n.holdsReadout && !n.lostToRun }

// count returns the number of nodes for which is holds.
func (c *Core) count(is func(*node) bool) (nodes int) {
	for _, n := range c.nodes {
		if is(n) {
			nodes++
		}
	}
	return nodes
}

// MayExclude says why a node's builder unit cannot be taken out of the run; nil if it can.
func (c *Core) MayExclude(name string) error {
	n := c.nodes[name]
	switch {
	case n == nil || !n.holdsBuilder && !n.holdsReadout && !n.holdsDecision:
		return fmt.Errorf("the view has no node called %s", name)
	case n.holdsDecisionOnly():
		return fmt.Errorf("%s holds the decision unit alone: no builder unit is there to be excluded", name)
	case !n.holdsBuilder:
		return fmt.Errorf("%s holds a readout unit and no builder unit: without it no event is whole, "+
			"so it can be excluded only outside of a run", name)
	case n.takesMEPs && !c.builderLoss.Tolerates(c.count((*node).builds)-1):
		return fmt.Errorf("%s is one of %d builder units that take MEPs, and builder-loss is %s",
			name, c.count((*node).builds), c.builderLoss)
	}
	return nil
}

// Exclude notes that a node's builder unit takes no more MEPs; MayExclude has the errors.
func (c *Core) Exclude(name string) error {
	if err := c.MayExclude(name); err != nil {
		return err
	}
	n := c.nodes[name]
	c.everDegraded, n.takesMEPs = c.everDegraded || n.takesMEPs, false
	return nil
}

// MayInclude says why a node's builder unit cannot be included again; nil if it can.
func (c *Core) MayInclude(name string) error {
	n := c.nodes[name]
	switch {
	case n != nil && n.departureStage == departureUnderWay:
		return fmt.Errorf("%s was told to end, and leaves this run: it takes part again by itself when its process was "+
			"started again", name)
	case n != nil && n.lostToRun:
		return fmt.Errorf("%s was lost in this run: it takes part again by itself when its process has joined the cluster",
			name)
	case n == nil || !n.holdsBuilder:
		return fmt.Errorf("the view has no builder unit on a node called %s", name)
	}
	return nil
}

// MayLose says why the run cannot go on without a node; nil if it can.
func (c *Core) MayLose(name string) error {
	n := c.nodes[name]
	switch {
	case n == nil:
		return fmt.Errorf("the view has no node called %s", name)
	case name == c.scheduler && !c.successors:
		return fmt.Errorf("the scheduler is on %s, and no other node can take it over in this run", name)
	case !c.tolerates(n, Observation{Fault: Fault{Component: name}}):
		return fmt.Errorf("the run cannot go on without %s until another node has its units (readout-loss is %s, "+
			"builder-loss is %s)", name, c.readoutLoss, c.builderLoss)
	}
	return nil
}

// Include notes that a node's builder unit takes MEPs again; MayInclude has the errors.
func (c *Core) Include(name string) error {
	if err := c.MayInclude(name); err != nil {
		return err
	}
	c.nodes[name].takesMEPs = true
	return nil
}

// RetireOnce returns true once for a node that still works on a run which has lost it, and does not know: it holds a
// builder unit and was suspended or cut off for a while, or it was told to end. The caller tells the node to stop.
func (c *Core) RetireOnce(name string) bool {
	n := c.nodes[name]
	if n == nil || !n.lostToRun || !n.holdsBuilder && n.departureStage != departureAsLoss || n.retired || !c.inRun ||
		c.ignoresFaults {
		return false
	}
	n.retired = true
	return true
}

// AdoptUnit notes what the scheduler reports of a unit in a run that an earlier control began: whether it is lost,
// whether it is a builder unit that takes no MEPs now, and whether it ever was lost or excluded.
func (c *Core) AdoptUnit(name string, lost, takesNoMEPs, ever bool) {
	n := c.node(name)
	n.lostToRun = n.lostToRun || lost
	n.takesMEPs = n.takesMEPs && !lost && !takesNoMEPs
	c.everDegraded = c.everDegraded || ever
}

// InactiveBuilders lists the nodes whose builder unit takes no MEPs now.
func (c *Core) InactiveBuilders() (out []string) {
	for name, n := range c.nodes {
		if n.holdsBuilder && !n.takesMEPs {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// WasDegraded says whether a unit was lost or excluded at any time of the run.
func (c *Core) WasDegraded() bool { return c.everDegraded }
