package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/sci"
	"ringlet/sim/study"
)

// engineAlone sends blocks of several sizes to a neighbour.
var engineAlone = study.Model{
	Name: "dma-alone",
	Help: "A DMA engine that writes blocks to its neighbour on an SCI ring, as fast as its bus goes.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, d, until := Network(p), engines(p), length(p)
		sizes := p.Sizes("blocks", 8, 1<<20)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		c := study.Curve{Name: "one engine"}
		for _, size := range sizes {
			s := env.Sim()
			net := sci.New(s, cfg, 6)
			m := watch(s, net.Node(1))
			e := d.engine(s, net, 0, size, func(int64) int { return 1 })
			e.free()
			if err := g.play(ctx, s, until); err != nil {
				return g.out, err
			}
			rate := sim.PerSecond(m.bytes, until)
			g.addResult(sim.PerSecond(uint64(e.blocks), until), study.Rate, "rate-%d", size)
			g.addResult(rate, study.Bandwidth, "throughput-%d", size)
			g.addResult(float64(e.retries), study.Count, "retries-%d", size)
			gap := float64(m.gaps.Quantile(0.5))/float64(cfg.PCIClock) - float64(cfg.PCIHead+min(size, cfg.MaxData)/8)
			g.addResult(gap, study.Count, "receiving-gap-%d", size)
			c.Points = append(c.Points, [2]float64{float64(size), rate / (1 << 20)})
		}
		g.out.Plots = []study.Plot{{
			Name:   "throughput",
			X:      "block (B)",
			Y:      "MiB/s",
			Curves: []study.Curve{c},
		}}
		return g.out, nil
	},
}

// interleaved lets engines take turns on one bus.
var interleaved = study.Model{
	Name: "dma-interleaved",
	Help: "DMA engines that take turns on one PCI bus: bursts of address, wait, data and idle clocks.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		clock, until := p.Time("clock"), length(p)
		clocks := p.Int("address-clocks", 0, 100) + p.Int("wait-clocks", 0, 100) + p.Int("data-clocks", 1, 10_000) +
			p.Int("idle-clocks", 0, 100)
		n := p.Int("engines", 1, 100)
		if clock <= 0 {
			p.Wrong("clock", "takes time")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		s := env.Sim()
		bus := component.NewBus(s, 0)
		all := make([]burst, n)
		for i := range all {
			all[i].hold = sim.Time(clocks) * clock
			bus.Attach(&all[i])
		}
		bus.Kick()
		err := g.play(ctx, s, until)
		g.addResult(sim.PerSecond(bus.Served, until), study.Rate, "rate")
		least, most := all[0].n, all[0].n
		for _, b := range all {
			least, most = min(least, b.n), max(most, b.n)
		}
		g.addResult(float64(most-least), study.Count, "unequal")
		return g.out, err
	},
}

// burst is an engine that always has a burst for its bus.
type burst struct {
	hold sim.Time
	n    int
}

func (b *burst) Offer() (sim.Time, bool) { return b.hold, true }
func (b *burst) Begin()                  {}
func (b *burst) End()                    { b.n++ }

// manyToOne lets more and more senders write to the last node of a ring.
var manyToOne = study.Model{
	Name: "sci-many-to-one",
	Help: "One to several senders on an SCI ring that write to one receiver, each as fast as its software goes.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, d, until := Network(p), engines(p), length(p)
		nodes, most := p.Int("nodes", 2, 1000), p.Int("senders", 1, 999)
		rate := p.Quantity("rate-of-a-sender", study.Bandwidth)
		bursts := float64(d.setUp + d.piece/8 + d.idle)
		if !(rate > 0) || most >= nodes {
			p.Wrong("rate-of-a-sender", "a sender sends, and one node receives")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		d.clock = sim.Time(float64(sim.Period(rate/float64(d.piece))) / bursts)
		g := &modelRun{env: env}
		for n := 1; n <= most; n++ {
			s := env.Sim()
			net := sci.New(s, cfg, nodes)
			m := watch(s, net.Node(nodes-1))
			for i := range n {
				d.engine(s, net, i, d.piece, func(int64) int { return nodes - 1 }).free()
			}
			if err := g.play(ctx, s, until); err != nil {
				return g.out, err
			}
			g.addResult(sim.PerSecond(m.bytes, until), study.Bandwidth, "throughput-of-%d", n)
		}
		return g.out, nil
	},
}
