package fault

import (
	"fmt"
	"slices"
	"time"
)

// MayComeBack says why another process may not take the place of a node that was lost in the run that goes on; nil if
// it may.
func (c *Core) MayComeBack(name string) error {
	n := c.nodes[name]
	switch {
	case n == nil || !n.readout && !n.builder && !n.decides:
		return fmt.Errorf("the view has no node called %s", name)
	case !n.lost:
		return fmt.Errorf("%s is not lost to this run", name)
	case n.builder:
		return fmt.Errorf("the MEPs of the builder unit on %s were given to other builder units: it joins again with the "+
			"next configure",
			name)
	case !c.running || c.silenced || len(c.seen) > 0:
		return fmt.Errorf("the run ends: %s joins again with the next configure", name)
	}
	return nil
}

// ComeBack forgets the loss of a node: another process has its place, and takes part again.
func (c *Core) ComeBack(name string) error {
	if err := c.MayComeBack(name); err != nil {
		return err
	}
	n := c.nodes[name]
	n.gone, n.process, n.ended, n.lost, n.final, n.woke = "", "", false, false, false, time.Time{}
	of := func(x Sight) bool { return x.Component == name }
	for _, x := range c.losses {
		if of(x) {
			c.mended = append(c.mended, x)
		}
	}
	c.losses = slices.DeleteFunc(c.losses, of)
	return nil
}
