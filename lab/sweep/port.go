package sweep

import (
	"cmp"
)

// flows is what one event brings to the busiest port, as shares of the event: what crosses it, and that with what a
// node sends itself.
type flows struct{ cross, all float64 }

// portFlows assumes what the disciplines bring about: every builder unit builds the same number of events, every
// readout unit has the same part of each. Node i is on host i mod hosts; readout units are on the first nodes, builder
// units on the last. A port carries both directions at the same time, so the busier one counts.
func portFlows(nodes, rus, bus, hosts int) flows {
	if nodes < 1 || rus < 1 || bus < 1 || hosts < 1 {
		return flows{}
	}
	hosts = min(hosts, nodes)
	readers, builders := make([]float64, hosts), make([]float64, hosts)
	for i := range rus {
		readers[i%hosts]++
	}
	for i := nodes - bus; i < nodes; i++ {
		builders[i%hosts]++
	}
	n, m := float64(rus), float64(bus)
	var out flows
	for h := range hosts {
		in, sent := builders[h]/m, readers[h]/n
		own := in * sent
		out.cross = max(out.cross, in-own, sent-own)
		out.all = max(out.all, in, sent)
	}
	return out
}

// hosts that a cell's nodes are on: as many as the test bed has, or one for each.
func (c *Cell) hosts() int {
	if c.Ground.Hosts > 0 {
		return min(c.Ground.Hosts, c.Config.Nodes)
	}
	return c.Config.Nodes
}

func (c *Cell) flows() flows { return portFlows(c.Config.Nodes, c.Config.RUs, c.Config.BUs, c.hosts()) }

// Crosses is the share of what is built that goes from one process to another. A node with both units sends its own
// builder unit one of n parts of one of m MEPs, so of n folded nodes it is (n-1)/n.
func (c *Cell) Crosses() float64 {
	n, m := c.Config.RUs, c.Config.BUs
	return 1 - float64(max(0, n+m-c.Config.Nodes))/float64(n*m)
}

// eventBits is the mean size of an event with its share of a MEP's headers, or 0 where only an input or a simulated
// detector knows.
func (c *Cell) eventBits() float64 {
	if c.Config.Input != "" || c.Config.Simulated() {
		return 0
	}
	ordinary := c.Config
	ordinary.Debug.LargeEvery = 0
	low, high := ordinary.MEPSize(0)
	mean := float64(low+high) / 2
	if d := c.Config.Debug; d.LargeEvery > 0 { // one readout unit's part of one MEP in so many
		mean *= 1 + float64(d.LargeFactor-1)/float64(c.Config.RUs*d.LargeEvery)
	}
	return mean * 8 / float64(c.Config.Packing)
}

// portBitsPerEvent is what an event brings to the busiest port. One node alone has nothing that crosses a port, so all
// counts.
func portBitsPerEvent(c *Cell) float64 {
	f := c.flows()
	return c.eventBits() * cmp.Or(f.cross, f.all)
}
