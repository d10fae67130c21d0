package fault

import (
	"fmt"
	"slices"
	"time"
)

// MayReadmit says why another process may not take the place of a node that was lost in the run that goes on; nil if
// it may.
func (c *Core) MayReadmit(name string) error {
	n := c.nodes[name]
	switch {
	case n == nil || !n.readout && !n.builder && !n.decision:
		return fmt.Errorf("the view has no node called %s", name)
	case !n.lost:
		return fmt.Errorf("%s is not lost to this run", name)
	case n.builder:
		return fmt.Errorf("the MEPs of the builder unit on %s were given to other builder units: it joins again with the "+
			"next configure",
			name)
	case !c.running || c.ignoring || len(c.fatal) > 0:
		return fmt.Errorf("the run ends: %s joins again with the next configure", name)
	}
	return nil
}

// Readmit forgets the loss of a node: another process has its place, and takes part again.
func (c *Core) Readmit(name string) error {
	if err := c.MayReadmit(name); err != nil {
		return err
	}
	n := c.nodes[name]
	n.goneReason, n.process, n.resumedAt = "", "", time.Time{}
	n.processEnded, n.lost, n.finalReported = false, false, false
	concerns := func(x Observation) bool { return x.Component == name }
	for _, x := range c.losses {
		if concerns(x) {
			c.readmitted = append(c.readmitted, x)
		}
	}
	c.losses = slices.DeleteFunc(c.losses, concerns)
	return nil
}
