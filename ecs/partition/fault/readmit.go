package fault

import (
	"fmt"
	"slices"
	"time"
)

// MayReadmit says why a node that was lost in the present run may not take part in it again; nil if it may.
func (c *Core) MayReadmit(name string) error {
	n := c.nodes[name]
	switch {
	case n == nil || !n.holdsReadout && !n.holdsBuilder && !n.holdsDecision:
		return fmt.Errorf("the view has no node called %s", name)
	case !n.lostToRun:
		return fmt.Errorf("%s is not lost to this run", name)
	case n.departureStage != notDeparting && !n.processEnded:
		return fmt.Errorf("%s was told to end, and its process has not ended yet", name)
	case !c.inRun || c.ignoresFaults || len(c.fatalObservations) > 0:
		return fmt.Errorf("the run ends: %s joins again with the next configure", name)
	}
	return nil
}

// Readmit notes that a lost node takes part again, in another process or in the same one; MayReadmit has the errors.
func (c *Core) Readmit(name string) error {
	if err := c.MayReadmit(name); err != nil {
		return err
	}
	n := c.nodes[name]
	n.goneReason, n.processID, n.resumedAt = "", "", time.Time{}
	n.processEnded, n.lostToRun, n.finalReported, n.retired = false, false, false, false
	n.withdrawn, n.departureStage = false, notDeparting
	n.takesMEPs = n.holdsBuilder
	concerns := func(x Observation) bool { return x.Component == name }
	for _, x := range c.lossObservations {
		if concerns(x) {
			c.readmittedLosses = append(c.readmittedLosses, x)
		}
	}
	c.lossObservations = slices.DeleteFunc(c.lossObservations, concerns)
	return nil
}
