package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// sideBySide has senders that are next to each other on a ring send as fast as they can: first one, then two, and so
// on.
var sideBySide = study.Model{
	Name: "sci-side-by-side",
	Help: "Unsynchronised senders side by side on an SCI ring, each with receivers of its own downstream.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, d, until := ReadNetwork(p), readDMA(p), readDuration(p)
		nodes, senders := p.Int("nodes", 2, 1000), p.Int("senders", 1, 100)
		each := p.Int("receivers-each", 1, 100)
		if senders*(each+1) > nodes {
			p.AddError("nodes", "%d senders with %d receivers each are more than %d", senders, each, nodes)
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		for n := 1; n <= senders; n++ {
			all, sum, err := g.runFreeEngines(ctx, cfg, d, until, n, func(i int) (to []int) {
				for r := range each {
					to = append(to, senders+i*each+r)
				}
				return to
			}, nodes)
			if err != nil {
				return g.out, err
			}
			for i, e := range all {
				g.addResult(sim.PerSecond(uint64(e.blocks), until), study.Rate, "rate-%d-of-%d", i+1, n)
				g.addResult(float64(e.retries), study.Count, "retries-%d-of-%d", i+1, n)
			}
			g.addResult(sum, study.Bandwidth, "throughput-of-%d", n)
		}
		return g.out, nil
	},
}

// runFreeEngines runs free engines at the first nodes of a torus; engine i sends to targets(i) in turn. It returns the
// engines, and the bytes per second that all receivers got.
func (g *modelRun) runFreeEngines(ctx context.Context, cfg sci.Config, d dma, until sim.Time, senders int,
	targets func(i int) []int, size ...int) ([]*engine, float64, error) {
	s := g.env.Sim()
	net := sci.New(s, cfg, size...)
	var meters []*meter
	var all []*engine
	for i := range senders {
		to := targets(i)
		for _, node := range to {
			meters = append(meters, newMeter(s, net.Node(node)))
		}
		e := d.newEngine(s, net, i, d.burstBytes, func(n int64) int { return to[int(n)%len(to)] })
		e.sendForever()
		all = append(all, e)
	}
	err := g.play(ctx, s, until)
	var bytes uint64
	for _, m := range meters {
		bytes += m.bytes
	}
	return all, sim.PerSecond(bytes, until), err
}

// routeNode compares two senders on one ring with the same two through one route node.
var routeNode = study.Model{
	Name: "sci-route-node",
	Help: "Two senders of an SCI torus with a receiver each: all on one ring, and all over one route node.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, d, until := ReadNetwork(p), readDMA(p), readDuration(p)
		columns, rows := p.Int("columns", 5, 1000), p.Int("rows", 3, 1000)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		_, ring, err := g.runFreeEngines(ctx, cfg, d, until, 2, func(i int) []int { return []int{3 + i} }, columns)
		if err != nil {
			return g.out, err
		}
		_, routed, err := g.runFreeEngines(ctx, cfg, d, until, 2, func(i int) []int { return []int{4 + columns*(1+i)} },
			columns, rows)
		g.addResult(ring, study.Bandwidth, "throughput-ring")
		g.addResult(routed, study.Bandwidth, "throughput-routed")
		g.out.Add("cost", study.Share(routed/ring-1))
		return g.out, err
	},
}
