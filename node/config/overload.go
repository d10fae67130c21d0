package config

import (
	"cmp"
	"time"
)

// Defaults of suspensions: long enough to use up slots, rare enough to tell them apart.
const (
	defaultSuspendEvery = 2 * time.Second
	defaultSuspendFor   = 100 * time.Millisecond
)

// suspendAll stands for every builder unit.
const suspendAll = "all"

// CreditPerBU is how many MEPs a builder unit may have at a time. It needs a completed configuration.
func (c Config) CreditPerBU() int { return min(c.Slots, c.Debug.LookAhead) }

// MaxOutputBacklog is how many complete MEPs may wait for the output of a builder unit before it discards more; 0 means
// that it discards none. It is half of the builder unit's credit, so that the network goes on at its pace: a unit with
// one free slot would get one MEP at a time and, if cycles wait for it, so would the others.
func (c Completed) MaxOutputBacklog() int {
	if c.Overload == OverloadHold {
		return 0
	}
	return max(1, c.CreditPerBU()/2)
}

// resolveOverload checks the settings for builder units that are too slow, or are suspended. Slots are resolved, unless
// there are problems already.
func (c *draft) resolveOverload() {
	if c.Overload == OverloadDiscard {
		if c.Slots > 0 && c.Debug.LookAhead > 0 && c.CreditPerBU() < 2 {
			c.add("overload", "discard needs a place for the MEP that waits and one more: give at least 2 slots and a "+
				"look-ahead of 2")
		}
		if c.RoI != "" {
			c.add("overload", "discard does not go with a region of interest, whose decisions wait for the output "+
				"too: use hold, or leave out roi")
		}
	}
	if c.Debug.SuspendBUs != "" {
		c.checkSuspension()
		return
	}
	const why = "no builder unit is suspended: give debug.suspend-bus, or leave it out"
	if c.Debug.SuspendEvery != 0 {
		c.add("debug.suspend-every", why)
	}
	if c.Debug.SuspendFor != 0 {
		c.add("debug.suspend-for", why)
	}
}

func (c *draft) checkSuspension() {
	d := &c.Debug
	d.SuspendEvery, d.SuspendFor = cmp.Or(d.SuspendEvery, defaultSuspendEvery), cmp.Or(d.SuspendFor, defaultSuspendFor)
	if d.SuspendFor < 0 || d.SuspendFor >= d.SuspendEvery {
		c.add("debug.suspend-for", "%v is not between 0 and the %v from one suspension to the next", d.SuspendFor,
			d.SuspendEvery)
	}
	if d.SuspendBUs == suspendAll {
		return
	}
	if _, err := parseIndices(d.SuspendBUs, c.BUs, "builder unit"); err != nil {
		c.add("debug.suspend-bus", "%v", err)
	}
}

// SuspendedBUs lists the builder units that are suspended in turn.
func (c Completed) SuspendedBUs() []int {
	if c.Debug.SuspendBUs == suspendAll {
		all := make([]int, c.BUs)
		for i := range all {
			all[i] = i
		}
		return all
	}
	bus, _ := parseIndices(c.Debug.SuspendBUs, c.BUs, "") // Complete has checked it
	return bus
}
