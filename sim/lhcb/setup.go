package lhcb

import (
	"math"

	"ringlet/barrier"
	"ringlet/sim"
	"ringlet/sim/study"
)

// setup describes one run: the nodes, and the cost of everything.
type setup struct {
	nodes, perLeaf, spines, links int
	dummies                       int // seats without a node, the last ports of the last leaf
	barrier                       barrier.Kind
	discipline                    string // shift, pull, free or tagring
	requestCredit                 int    // parts that a builder unit requests at a time, with pull
	sizeRule                      string // realistic, grouped, largest, maximal
	oneDrawPerMFP                 bool   // one draw for all fragments of an MFP, else one for each fragment
	packing, streams              int
	groupMeans                    []int // mean size of a fragment, by group of nodes
	maxFragmentBytes              int

	perByte                   sim.Time // of a port
	mtu, header               int
	segment                   int // bytes of data in a segment
	buffer                    int // bytes, of a switch's port
	hop                       sim.Time
	messageDelay, messageCost sim.Time // of a message: between processors; at each end
	softwareTime              sim.Time
	jitter                    sim.Time
	uniformJitter             bool // delays up to twice the mean are equally likely; else they are exponential
	slots                     int
	maxUnackedWrites          int // writes of a node that may wait for acknowledgements, if no barrier ends its phases

	slowBUs        int      // builder units with a slow output: the first ones
	consumeTime    sim.Time // of a MEP by a slow output
	outputCapacity int      // MEPs that an output holds; a builder unit discards the next one

	warm, phases              int // cycles left out; cycles counted
	looseWarmUp, looseCounted int // the same without a barrier, where nodes need long to drift apart
}

// Rules for the sizes of fragments.
const (
	sizesRealistic = "realistic" // by group, and fluctuating
	sizesGrouped   = "grouped"   // by group, constant within it
	sizesLargest   = "largest"   // all as in the largest group
	sizesMaximal   = "maximal"   // all of the greatest size allowed
)

// The disciplines. A word of a study is a discipline without phases, the barrier that ends the phases of the shift,
// or push with a tournament.
const (
	disciplineShift   = "shift"
	disciplinePull    = "pull"
	disciplineFree    = "free"
	disciplineTagRing = "tagring"
	disciplinePush    = "push"
)

// applyWord sets the discipline and barrier that a word of a study stands for.
func (c *setup) applyWord(word string) {
	c.discipline = disciplineShift
	switch word {
	case disciplinePush:
		c.discipline, word = word, "tournament"
	case disciplinePull, disciplineFree, disciplineTagRing:
		c.discipline, word = word, "none"
	}
	c.barrier, _ = barrier.ParseKind(word) // the study allows only its words
	if c.barrier == barrier.None {
		c.warm, c.phases = c.looseWarmUp, c.looseCounted
	}
}

// read reads the parameters that the runs of a study share.
func read(p *study.Params) setup {
	c := setup{
		spines:         p.Int("spines", 1, 100),
		links:          p.Int("links", 1, 10),
		messageDelay:   p.Time("message-flight"),
		messageCost:    p.Time("message-cost"),
		consumeTime:    p.Time("slow-output"),
		outputCapacity: p.Int("output", 1, 64),
	}
	c.oneDrawPerMFP = p.Word("drawn", "mfp", "fragment") == "mfp"
	c.packing = p.Int("packing", 1, 65535)
	c.streams = p.Int("streams", 1, 64)
	c.groupMeans = p.Sizes("fragments", 1, 1<<20)
	c.maxFragmentBytes = p.Size("largest-fragment", 1, 1<<20)
	port := p.Quantity("port", study.Bandwidth)
	if c.perByte = sim.Time(math.Round(float64(sim.Second) / port)); c.perByte < 1 {
		p.AddError("port", "is faster than a byte in a picosecond")
	}
	c.mtu = p.Size("mtu", 64, 1<<20)
	c.header = p.Size("header", 0, 1000)
	c.segment = p.Size("segment", 1<<10, 1<<28)
	c.buffer = p.Size("buffer", 1<<10, 1<<30)
	c.hop = p.Time("hop")
	c.softwareTime = p.Time("software")
	c.jitter = p.Time("jitter")
	c.uniformJitter = p.Word("jitter-shape", "exponential", "uniform") == "uniform"
	c.slots = p.Int("slots", 1, 64)
	c.maxUnackedWrites = p.Int("writes", 1, 64)
	c.warm = p.Int("warm", 1, 10000)
	c.phases = p.Int("phases", 1, 10000)
	c.requestCredit = p.Int("credit", 1, 4096)
	c.looseWarmUp = p.Int("loose-warm", 1, 100000)
	c.looseCounted = p.Int("loose-phases", 1, 100000)
	return c
}

// drawJitter draws the jitter of a phase.
func (c *setup) drawJitter(r *sim.RandomStream) sim.Time {
	if c.uniformJitter {
		return sim.Time(r.Float64() * 2 * float64(c.jitter))
	}
	return r.Exp(c.jitter)
}

// wireBytes is the number of bytes with headers.
func (c *setup) wireBytes(data int) int32 {
	return int32(data + (data+c.mtu-1)/c.mtu*c.header)
}

// drawPartSize draws the size of a node's part of a MEP.
func (c *setup) drawPartSize(node int, r *sim.RandomStream) int {
	group := c.groupMeans[node*len(c.groupMeans)/c.nodes]
	size := 0
	for range c.streams {
		switch {
		case c.sizeRule == sizesMaximal:
			size += c.maxFragmentBytes * c.packing
		case c.sizeRule == sizesLargest:
			size += c.groupMeans[len(c.groupMeans)-1] * c.packing
		case c.sizeRule == sizesGrouped:
			size += group * c.packing
		case c.oneDrawPerMFP:
			size += r.Poisson(float64(group)) * c.packing
		default:
			size += r.Poisson(float64(group * c.packing))
		}
	}
	return max(1, size)
}
