package fault

import (
	"fmt"
	"slices"
)

// takers is how many builder units take MEPs.
func (c *Core) takers() (takers int) {
	for _, n := range c.nodes {
		if n.in {
			takers++
		}
	}
	return takers
}

// readers is how many readout units take part.
func (c *Core) readers() (readers int) {
	for _, n := range c.nodes {
		if n.readout && !n.lost {
			readers++
		}
	}
	return readers
}

// MayExclude says why a node's builder unit cannot be taken out of the run; nil if it can.
func (c *Core) MayExclude(name string) error {
	n := c.nodes[name]
	switch {
	case n == nil || !n.builder && !n.readout && !n.decides:
		return fmt.Errorf("the view has no node called %s", name)
	case n.decidesAlone():
		return fmt.Errorf("%s holds the decision unit alone: no builder unit is there to be excluded", name)
	case !n.builder:
		return fmt.Errorf("%s holds a readout unit and no builder unit: without it no event is whole, "+
			"so it can be excluded only outside of a run", name)
	case n.in && !c.loss.Bears(c.takers()-1):
		return fmt.Errorf("%s is one of %d builder units that take MEPs, and builder-loss is %s",
			name, c.takers(), c.loss)
	}
	return nil
}

// Exclude takes a node's builder unit out.
func (c *Core) Exclude(name string) error {
	if err := c.MayExclude(name); err != nil {
		return err
	}
	n := c.nodes[name]
	c.ever, n.in = c.ever || n.in, false
	return nil
}

// MayInclude says why a node's builder unit cannot be taken in; nil if it can.
func (c *Core) MayInclude(name string) error {
	n := c.nodes[name]
	switch {
	case n != nil && n.stage == leaving:
		return fmt.Errorf("%s was told to end, and leaves this run", name)
	case n != nil && n.lost && !n.builder:
		return fmt.Errorf("%s was lost in this run: it takes part again by itself when its process has joined the cluster",
			name)
	case n != nil && n.lost:
		return fmt.Errorf("%s was lost in this run: its links come back with the next configure", name)
	case n == nil || !n.builder:
		return fmt.Errorf("the view has no builder unit on a node called %s", name)
	}
	return nil
}

// Include takes a node's builder unit in again.
func (c *Core) Include(name string) error {
	if err := c.MayInclude(name); err != nil {
		return err
	}
	c.nodes[name].in = true
	return nil
}

// Lost says whether a node is lost to this run.
func (c *Core) Lost(name string) bool {
	n := c.nodes[name]
	return n != nil && n.lost
}

// Strays says, once, of a node that is heard to go on with the run, that the run has lost it for good.
func (c *Core) Strays(name string) bool {
	n := c.nodes[name]
	if n == nil || !n.lost || !n.builder || n.strayed || !c.running || c.silenced {
		return false
	}
	n.strayed = true
	return true
}

// Adopt takes over what a scheduler tells of a unit in a run that an earlier control has begun.
func (c *Core) Adopt(name string, lost, excluded bool) {
	n := c.node(name)
	n.lost = n.lost || lost
	if lost || excluded {
		n.in, c.ever = false, true
	}
}

// Out lists the nodes whose builder unit takes no MEPs now.
func (c *Core) Out() (out []string) {
	for name, n := range c.nodes {
		if n.builder && !n.in {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Degraded says whether a unit was lost or excluded at any time of the run.
func (c *Core) Degraded() bool { return c.ever }
