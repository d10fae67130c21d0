package lhcb

import (
	"math"

	"ringlet/barrier"
	"ringlet/sim"
	"ringlet/sim/study"
)

// setup is one run: who takes part, and what everything costs.
type setup struct {
	nodes, perLeaf, spines, links int
	dummies                       int // seats without a node, the last ports of the last leaf
	barrier                       barrier.Kind
	discipline                    string // shift, pull, free or tagring
	credit                        int    // parts that a builder unit asks for at a time, with pull
	sizes                         string // realistic, grouped, largest, maximal
	drawnByMFP                    bool   // one draw for all fragments of an MFP, else one for each
	packing, streams              int
	groups                        []int // mean size of a fragment, by group of nodes
	maximal                       int   // size of a fragment

	perByte      sim.Time // of a port
	mtu, header  int
	segment      int // bytes of data
	buffer       int // of a port of a switch
	hop          sim.Time
	flight, cost sim.Time // of a message: between processors; of a processor at each end
	software     sim.Time
	jitter       sim.Time
	evenJitter   bool // all delays up to twice the mean are as likely; else it is exponential
	slots        int
	writes       int // without an acknowledgement that a node may have, where no barrier ends its phases

	slow    int      // builder units whose output is slow: the first ones
	consume sim.Time // of a MEP by a slow output
	output  int      // MEPs that an output holds; a builder unit discards the next one

	warm, phases           int // left out; counted
	looseWarm, loosePhases int // the same without a barrier, where nodes drift apart for long
}

// The sizes of fragments that a run may have.
const (
	realistic = "realistic" // by group, and fluctuating
	grouped   = "grouped"   // by group, all of a group alike
	largest   = "largest"   // all as large as those of the largest group
	maximal   = "maximal"   // the largest that there are
)

// The disciplines. A word of a study is one of them without phases, or the barrier that ends the phases of the shift.
const (
	shift   = "shift"
	pull    = "pull"
	free    = "free"
	tagring = "tagring"
)

// applyWord sets what a word of a study stands for.
func (c *setup) applyWord(word string) {
	c.discipline = shift
	switch word {
	case pull, free, tagring:
		c.discipline, word = word, "none"
	}
	c.barrier, _ = barrier.ParseKind(word) // the study allows no other
	if c.barrier == barrier.None {
		c.warm, c.phases = c.looseWarm, c.loosePhases
	}
}

// read reads what the runs of a study have in common.
func read(p *study.Params) setup {
	c := setup{
		spines:  p.Int("spines", 1, 100),
		links:   p.Int("links", 1, 10),
		flight:  p.Time("message-flight"),
		cost:    p.Time("message-cost"),
		consume: p.Time("slow-output"),
		output:  p.Int("output", 1, 64),
	}
	c.drawnByMFP = p.Word("drawn", "mfp", "fragment") == "mfp"
	c.packing = p.Int("packing", 1, 65535)
	c.streams = p.Int("streams", 1, 64)
	c.groups = p.Sizes("fragments", 1, 1<<20)
	c.maximal = p.Size("largest-fragment", 1, 1<<20)
	port := p.Quantity("port", study.Bandwidth)
	if c.perByte = sim.Time(math.Round(float64(sim.Second) / port)); c.perByte < 1 {
		p.Wrong("port", "is faster than a byte in a picosecond")
	}
	c.mtu = p.Size("mtu", 64, 1<<20)
	c.header = p.Size("header", 0, 1000)
	c.segment = p.Size("segment", 1<<10, 1<<28)
	c.buffer = p.Size("buffer", 1<<10, 1<<30)
	c.hop = p.Time("hop")
	c.software = p.Time("software")
	c.jitter = p.Time("jitter")
	c.evenJitter = p.Word("jitter-shape", "exponential", "uniform") == "uniform"
	c.slots = p.Int("slots", 1, 64)
	c.writes = p.Int("writes", 1, 64)
	c.warm = p.Int("warm", 1, 10000)
	c.phases = p.Int("phases", 1, 10000)
	c.credit = p.Int("credit", 1, 4096)
	c.looseWarm = p.Int("loose-warm", 1, 100000)
	c.loosePhases = p.Int("loose-phases", 1, 100000)
	return c
}

// delay draws the jitter of a phase.
func (c *setup) delay(r *sim.Stream) sim.Time {
	if c.evenJitter {
		return sim.Time(r.Float64() * 2 * float64(c.jitter))
	}
	return r.Exp(c.jitter)
}

// wire is how many bytes so many take with their headers.
func (c *setup) wire(data int) int32 {
	return int32(data + (data+c.mtu-1)/c.mtu*c.header)
}

// partSize draws the size of what a node sends of a MEP.
func (c *setup) partSize(node int, r *sim.Stream) int {
	group := c.groups[node*len(c.groups)/c.nodes]
	size := 0
	for range c.streams {
		switch {
		case c.sizes == maximal:
			size += c.maximal * c.packing
		case c.sizes == largest:
			size += c.groups[len(c.groups)-1] * c.packing
		case c.sizes == grouped:
			size += group * c.packing
		case c.drawnByMFP:
			size += r.Poisson(float64(group)) * c.packing
		default:
			size += r.Poisson(float64(group * c.packing))
		}
	}
	return max(1, size)
}
