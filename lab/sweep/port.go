package sweep

import (
	"cmp"

	"ringlet/event/placing"
)

// portShares are shares of an event at the busiest port: the part that crosses it, and that part with what a node sends
// to itself.
type portShares struct{ crossing, total float64 }

// computePortShares assumes that every builder unit builds the same number of events, as the disciplines make them, and
// that every source has the same share of each event. Node i is on host i mod hosts; readout units are on the first
// nodes, builder units on the last. A port carries both directions at the same time, so the busier direction counts.
func computePortShares(nodes int, d placing.Division, bus, hosts int) portShares {
	rus := d.Units()
	if nodes < 1 || rus < 1 || bus < 1 || hosts < 1 {
		return portShares{}
	}
	hosts = min(hosts, nodes)
	readers, builders := make([]float64, hosts), make([]float64, hosts)
	for i := range rus {
		readers[i%hosts] += float64(d.SourceCount(i))
	}
	for i := nodes - bus; i < nodes; i++ {
		builders[i%hosts]++
	}
	n, m := float64(d.Sources()), float64(bus)
	var out portShares
	for h := range hosts {
		in, sent := builders[h]/m, readers[h]/n
		local := in * sent
		out.crossing = max(out.crossing, in-local, sent-local)
		out.total = max(out.total, in, sent)
	}
	return out
}

// hosts is the number of hosts of a cell's nodes: that of the test bed, or one for each node.
func (c *Cell) hosts() int {
	if c.BedSummary.Hosts > 0 {
		return min(c.BedSummary.Hosts, c.Config.Nodes)
	}
	return c.Config.Nodes
}

func (c *Cell) portShares() portShares {
	return computePortShares(c.Config.Nodes, c.division(), c.Config.BUs, c.hosts())
}

// division has the sources of each readout unit; for a file, whose sources are not known here, one of each unit.
func (c *Cell) division() placing.Division {
	if d := c.Config.Division(); d.Units() > 0 {
		return d
	}
	return placing.EvenDivision(c.Config.RUs, 1)
}

// CrossingShare is the share of built bytes that goes from one process to another. A node with both units sends its
// part of one of m MEPs to its own builder unit, so of n folded nodes the share is (n-1)/n.
func (c *Cell) CrossingShare() float64 {
	d, m := c.division(), c.Config.BUs
	local := 0
	for ru := max(0, c.Config.Nodes-m); ru < d.Units(); ru++ {
		local += d.SourceCount(ru)
	}
	return 1 - float64(local)/float64(d.Sources()*m)
}

// eventBits is the mean size of an event, with its share of a MEP's headers; 0 for an input or a simulated detector,
// whose sizes are not known here.
func (c *Cell) eventBits() float64 {
	if c.Config.Input != "" || c.Config.SimulatesDetector() {
		return 0
	}
	ordinary := c.Config
	ordinary.Debug.LargeEvery = 0
	low, high := ordinary.MEPSize(0)
	mean := float64(low+high) / 2
	if d := c.Config.Debug; d.LargeEvery > 0 { // the part of one readout unit is larger in one MEP of LargeEvery
		all := c.division()
		mean *= 1 + float64((d.LargeFactor-1)*all.SourceCount(d.LargeRU))/float64(all.Sources()*d.LargeEvery)
	}
	return mean * 8 / float64(c.Config.Packing)
}

// portBitsPerEvent is the number of bits of an event at the busiest port. For a single node, from which nothing crosses
// a port, all bits count.
func portBitsPerEvent(c *Cell) float64 {
	f := c.portShares()
	return c.eventBits() * cmp.Or(f.crossing, f.total)
}
