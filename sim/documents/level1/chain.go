package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// tagnetChain simulates the prototype: the first node of each row is a readout unit, the last node of all the decision
// unit, and all others compute.
var tagnetChain = study.Model{
	Name: "tagnet-chain",
	Help: "Readout units in the TagNet's chain that write to the computing nodes of a torus, one after the other.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		t := torus{
			cfg:         ReadNetwork(p),
			dma:         readDMA(p),
			columns:     p.Int("columns", 2, 100),
			rows:        p.Int("rows", 2, 100),
			extraClocks: p.Int("tag-clocks", 0, 1000),
			period:      p.Time("period"),
		}
		t.dma.clockDrift = 0 // the tag sets the time of all units
		sizes, until, buffers := p.Sizes("blocks", 8, 1<<20), readDuration(p), p.Int("buffers", 1, 64)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		plot := study.Curve{Name: "TagNet"}
		for _, size := range sizes {
			s := env.Sim()
			net := sci.New(s, t.cfg, t.columns, t.rows)
			m := newMeter(s, net.Node(1))
			c := t.chain(s, net, size, t.firstNodes(), t.target)
			if err := g.play(ctx, s, until); err != nil {
				return g.out, err
			}
			blocks := uint64(c.units[t.rows-1].blocks)
			rate := sim.PerSecond(blocks, until)
			pieces := (size + t.burstBytes - 1) / t.burstBytes
			hit := until.Seconds() * float64(t.rows*pieces) / float64(m.packets)
			burst := float64(pieces*(t.setUpClocks+t.idleClocks) + size/8)
			g.addResult(rate, study.Rate, "rate-%d", size)
			g.addResult(rate*float64(size), study.Bandwidth, "throughput-%d", size)
			g.addResult(1/(burst*t.clock.Seconds())-rate, study.Rate, "below-an-engine-alone-%d", size)
			g.addResult(1/(rate*t.clock.Seconds())-burst+float64(t.idleClocks), study.Count, "idle-clocks-%d", size)
			g.addResult(hit, study.Time, "node-hit-every-%d", size)
			g.addResult(hit*float64(buffers), study.Time, "buffer-hit-every-%d", size)
			g.addResult(float64(c.lostTags), study.Count, "lost-tags-%d", size)
			g.addResult(float64(c.retries()+net.Retried()), study.Count, "retries-%d", size)
			plot.Points = append(plot.Points, [2]float64{float64(size), rate / 1e6})
		}
		g.out.Plots = []study.Plot{{
			Name:   "rate",
			X:      "block (B)",
			Y:      "MHz",
			LogX:   true,
			Curves: []study.Curve{plot},
		}}
		return g.out, nil
	},
}

// torus describes the prototype.
type torus struct {
	dma
	cfg           sci.Config
	columns, rows int
	extraClocks   int      // clocks that a tag adds to a transfer
	period        sim.Time // of tags at the first unit; 0: a tag whenever the unit can take one
}

// target is the computing node of event n: row by row.
func (t *torus) target(n int64) int {
	i := int(n % int64(t.columns*t.rows-t.rows-1))
	return i + i/(t.columns-1) + 1
}

// tagChain is the TagNet: a unit sends when it has a tag, and passes the tag on when its transfer is done and the next
// unit has space. One tag may wait at a unit.
type tagChain struct {
	units       []unit
	selfTagging bool // the first unit makes its own tags
	lostTags    int  // tags for which the first unit had no space
}

// unit is a readout unit. A tag is the number of an event, or -1 for none.
type unit struct {
	*engine
	busy       bool
	waitingTag int64 // tag behind the one in work
	heldTag    int64 // tag that the next unit had no space for
}

// firstNodes are the first nodes of the rows.
func (t *torus) firstNodes() (nodes []int) {
	for row := range t.rows {
		nodes = append(nodes, row*t.columns)
	}
	return nodes
}

// chain is a TagNet of units at those nodes, in this order, which write event n to target(n).
func (t *torus) chain(s *sim.Sim, net *sci.Net, block int, nodes []int, target func(n int64) int) *tagChain {
	c := &tagChain{selfTagging: t.period == 0}
	for i, node := range nodes {
		e := t.newEngine(s, net, node, block, target)
		e.blockExtraClocks = t.extraClocks
		e.onBlockDone = func(n int64) { c.transferDone(i, n) }
		c.units = append(c.units, unit{engine: e, waitingTag: -1, heldTag: -1})
	}
	if c.selfTagging {
		c.offerTag(0, 0)
		return c
	}
	var tick sim.Func
	tick = func(n, _ int64) {
		if !c.offerTag(0, n) {
			c.lostTags++
		}
		s.ScheduleAfter(t.period, tick, n+1, 0)
	}
	s.ScheduleAt(0, tick, 0, 0)
	return c
}

// offerTag offers a tag to a unit, and reports whether the unit took it.
func (c *tagChain) offerTag(i int, tag int64) bool {
	u := &c.units[i]
	if !u.busy {
		u.busy = true
		u.startBlock(tag)
		return true
	}
	if u.waitingTag >= 0 {
		return false
	}
	u.waitingTag = tag
	return true
}

// transferDone passes the tag on after a unit's transfer.
func (c *tagChain) transferDone(i int, tag int64) {
	if i+1 < len(c.units) && !c.offerTag(i+1, tag) {
		c.units[i].heldTag = tag // the unit begins no transfer until the tag has gone
		return
	}
	c.advance(i, tag)
}

// advance lets a unit go on, and the unit before it pass on its tag.
func (c *tagChain) advance(i int, tag int64) {
	u := &c.units[i]
	u.busy = false
	if waiting := u.waitingTag; waiting >= 0 {
		u.waitingTag = -1
		c.offerTag(i, waiting)
	} else if i == 0 && c.selfTagging {
		c.offerTag(0, tag+1)
	}
	if i == 0 || c.units[i-1].heldTag < 0 {
		return
	}
	held := c.units[i-1].heldTag
	c.units[i-1].heldTag = -1
	c.offerTag(i, held)
	c.advance(i-1, held)
}

// retries is the sum of all units' retries on their buses.
func (c *tagChain) retries() (sum uint64) {
	for _, u := range c.units {
		sum += u.engine.retries
	}
	return sum
}
