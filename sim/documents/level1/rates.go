package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// engineAlone sends blocks of several sizes to a neighbour.
var engineAlone = study.Model{
	Name: "dma-alone",
	Help: "A DMA engine that writes blocks to its neighbour on an SCI ring, as fast as its bus goes.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, d, until := ReadNetwork(p), readDMA(p), readDuration(p)
		sizes := p.Sizes("blocks", 8, 1<<20)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		c := study.Curve{Name: "one engine"}
		for _, size := range sizes {
			s := env.Sim()
			net := sci.New(s, cfg, 6)
			m := newMeter(s, net.Node(1))
			e := d.newEngine(s, net, 0, size, func(int64) int { return 1 })
			e.sendForever()
			if err := g.play(ctx, s, until); err != nil {
				return g.out, err
			}
			rate := sim.PerSecond(m.bytes, until)
			g.addResult(sim.PerSecond(uint64(e.blocks), until), study.Rate, "rate-%d", size)
			g.addResult(rate, study.Bandwidth, "throughput-%d", size)
			g.addResult(float64(e.retries), study.Count, "retries-%d", size)
			gap := float64(m.gaps.Quantile(0.5))/float64(cfg.PCIClock) - float64(cfg.PCIHeadClocks+min(size, cfg.MaxData)/8)
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

// interleavedEngines has engines take turns on one bus.
var interleavedEngines = study.Model{
	Name: "dma-interleaved",
	Help: "DMA engines that take turns on one PCI bus: bursts of address, wait, data and idle clocks.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		clock, until := p.Time("clock"), readDuration(p)
		clocks := p.Int("address-clocks", 0, 100) + p.Int("wait-clocks", 0, 100) + p.Int("data-clocks", 1, 10_000) +
			p.Int("idle-clocks", 0, 100)
		n := p.Int("engines", 1, 100)
		if clock <= 0 {
			p.AddError("clock", "takes time")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		s := env.Sim()
		bus := component.NewBus(s, 0)
		all := make([]burstClient, n)
		for i := range all {
			all[i].busTime = sim.Time(clocks) * clock
			bus.Attach(&all[i])
		}
		bus.Kick()
		err := g.play(ctx, s, until)
		g.addResult(sim.PerSecond(bus.Transfers, until), study.Rate, "rate")
		least, most := all[0].served, all[0].served
		for _, b := range all {
			least, most = min(least, b.served), max(most, b.served)
		}
		g.addResult(float64(most-least), study.Count, "unequal")
		return g.out, err
	},
}

// burstClient is an engine that always has a burst for its bus.
type burstClient struct {
	busTime sim.Time
	served  int
}

func (b *burstClient) Offer() (sim.Time, bool) { return b.busTime, true }
func (b *burstClient) Begin()                  {}
func (b *burstClient) End()                    { b.served++ }

// manyToOne has more and more senders write to the last node of a ring.
var manyToOne = study.Model{
	Name: "sci-many-to-one",
	Help: "One to several senders on an SCI ring that write to one receiver, each as fast as its software goes.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, d, until := ReadNetwork(p), readDMA(p), readDuration(p)
		nodes, most := p.Int("nodes", 2, 1000), p.Int("senders", 1, 999)
		rate := p.Quantity("rate-of-a-sender", study.Bandwidth)
		bursts := float64(d.setUpClocks + d.burstBytes/8 + d.idleClocks)
		if !(rate > 0) || most >= nodes {
			p.AddError("rate-of-a-sender", "must be above 0, with fewer senders than nodes")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		d.clock = sim.Time(float64(sim.Period(rate/float64(d.burstBytes))) / bursts)
		g := &modelRun{env: env}
		for n := 1; n <= most; n++ {
			s := env.Sim()
			net := sci.New(s, cfg, nodes)
			m := newMeter(s, net.Node(nodes-1))
			for i := range n {
				d.newEngine(s, net, i, d.burstBytes, func(int64) int { return nodes - 1 }).sendForever()
			}
			if err := g.play(ctx, s, until); err != nil {
				return g.out, err
			}
			g.addResult(sim.PerSecond(m.bytes, until), study.Bandwidth, "throughput-of-%d", n)
		}
		return g.out, nil
	},
}
