package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/filter/decision"
)

// DecisionRank is the rank of the node with the decision unit, among nodes of these names; NoUnit if there is none.
func (c Operation) DecisionRank(names []string) int {
	if c.DecisionNode == "" {
		return NoUnit
	}
	return slices.Index(names, c.DecisionNode)
}

// hasDecisionOnlyNode says whether one node has neither a readout unit nor a builder unit, and has the decision unit.
func (c *draft) hasDecisionOnlyNode() bool {
	if c.DecisionNode == "" || c.RUs+c.BUs != c.Nodes-1 {
		return false
	}
	names, apart := c.MemberNames(), c.RUs // readout units are on the nodes before it, builder units behind it
	if len(names) == c.Nodes {
		return names[apart] == c.DecisionNode
	}
	return c.DecisionNode == "n"+strconv.Itoa(apart)
}

// maxDefaultDecisionTimeout bounds the default time-out: later decisions are of no use.
const maxDefaultDecisionTimeout = 10 * time.Second

// EffectiveDecisionTimeout is the time-out of decisions. An event is complete when its MEP is, so the time for an event
// (1.6 ms, as in L1-farm) counts for each event of a MEP.
func (c Completed) EffectiveDecisionTimeout() time.Duration {
	if c.DecisionTimeout > 0 {
		return c.DecisionTimeout
	}
	return min(time.Duration(c.Packing)*decision.DefaultTimeout, maxDefaultDecisionTimeout)
}

// maxPendingDecisions bounds the memory of the decision unit: 16 bytes for each event.
const maxPendingDecisions = 16 << 20

// MaxPendingDecisions is how many events may wait for their decision: four times as many as can be under way, since
// results of other builder units arrive while the decision unit waits for one; 1820 at least, as in L1-farm.
func (c Completed) MaxPendingDecisions() int {
	under := float64(4) * float64(c.BUs) * float64(c.CreditPerBU()) * float64(c.Packing)
	return int(min(math.Max(under, decision.DefaultMaxPending), maxPendingDecisions))
}

// DecisionOutlets lists the outlets of decisions. It needs a completed configuration.
func (c Operation) DecisionOutlets() []decision.OutletAddress {
	out, _ := decision.ParseAddresses(c.DecisionOutput) // Complete has checked it
	return out
}

// FreesRejected says whether readout units free a MEP as soon as they learn that all its events were rejected: builder
// units pull, they reject by a region before they request the rest, and no MEP is built again by another unit, since
// the run tolerates the loss of no builder unit. With written, readout units also free parts that were fetched: no
// output gets rejected MEPs.
func (c Completed) FreesRejected() (frees, written bool) {
	_, builders := c.LossPolicies()
	frees = c.DecisionNode != "" && c.DisciplineKind().Pull && c.RoI != "" && !builders.Tolerates(c.BUs-1)
	return frees, frees && c.dropsRejected()
}

// dropsRejected says whether no output gets a MEP whose events are all rejected. Without a filter only the region
// rejects.
func (c Completed) dropsRejected() bool {
	outputs := c.outputs()
	if c.Route().NeedsFilter {
		outputs = outputs[len(outputs)-1:]
	}
	return c.Filter == "" || !slices.ContainsFunc(outputs, func(one Config) bool { return !one.SinkKind().Drops })
}

// checkDecisions checks the settings of the decision unit.
func (c *draft) checkDecisions() {
	if _, err := decision.ParseAddresses(c.DecisionOutput); err != nil {
		c.add("decision-output", "%v", err)
	}
	if c.DecisionTimeout != 0 && c.DecisionTimeout < time.Microsecond {
		c.add("decision-timeout", "%v is not a time to wait: give 1µs or more, or 0", c.DecisionTimeout)
	}
	if c.DecisionNode == "" {
		const why = "there is no decision unit: give decision-node, or leave it out"
		if c.DecisionTimeout != 0 {
			c.add("decision-timeout", why)
		}
		if c.DecisionOutput != "" {
			c.add("decision-output", why)
		}
		return
	}
	c.checkDecisionBuffers()
	if names := c.MemberNames(); names != nil {
		c.checkDecisionNode(names)
	}
}

// checkDecisionBuffers refuses a buffer of decisions with the name of a builder unit's buffer: NAME-0 of buffer:NAME.
func (c *draft) checkDecisionBuffers() {
	for _, outlet := range c.DecisionOutlets() {
		for _, one := range c.outputs() {
			name, _, err := sink.ParseBufferName(one.Output)
			unit, of := strings.CutPrefix(outlet.Location, name+"-")
			if n, bad := strconv.Atoi(unit); err == nil && one.SinkKind().Shared && of && bad == nil && n >= 0 && n < c.BUs {
				c.add("decision-output", "the buffer %s is what builder unit %d calls its own: give one of both another name",
					outlet.Location, n)
			}
		}
	}
}

// checkDecisionNode checks that the node with the decision unit takes part.
func (c *draft) checkDecisionNode(names []string) {
	if c.DecisionNode != "" && !slices.Contains(names, c.DecisionNode) {
		c.add("decision-node", "there is no node called %s: members are %s", c.DecisionNode, strings.Join(names, ", "))
	}
}
