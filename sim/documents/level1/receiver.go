package level1

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// torusToOne has several nodes of the document's torus of 10 by 3 write to its node 19.
var torusToOne = study.Model{
	Name: "sci-torus-to-one",
	Help: "Nodes of a torus of 10 by 3 that write to node 19, along its row, along its column, or both ways.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		cfg, d, until := ReadNetwork(p), readDMA(p), readDuration(p)
		rate := p.Quantity("rate-of-a-sender", study.Bandwidth)
		if !(rate > 0) {
			p.AddError("rate-of-a-sender", "must be above 0")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		d.clock = sim.Time(float64(sim.Period(rate/float64(d.burstBytes))) /
			float64(d.setUpClocks+d.burstBytes/8+d.idleClocks))
		g := &modelRun{env: env}
		rates := map[string]float64{}
		for _, c := range combinations {
			s := env.Sim()
			net := sci.New(s, cfg, 10, 3)
			m := newMeter(s, net.Node(19))
			for _, node := range c.nodes() {
				d.newEngine(s, net, node, d.burstBytes, func(int64) int { return 19 }).sendForever()
			}
			if err := g.play(ctx, s, until); err != nil {
				return g.out, err
			}
			rates[c.name] = sim.PerSecond(m.bytes, until)
			g.addResult(rates[c.name], study.Bandwidth, "throughput-%s", c.name)
		}
		g.out.Add("cost-of-two-route-nodes", study.Share(rates["ten-ii"]/rates["ten-i"]-1))
		return g.out, nil
	},
}

// combination is a set of nodes of L1-farm §5.1.2: count nodes from each of firstNodes on.
type combination struct {
	name       string
	firstNodes []int
	count      int
}

var combinations = []combination{
	{"two-i", []int{0, 20}, 1},
	{"two-ii", []int{0, 10}, 1},
	{"two-iii", []int{9, 20}, 1},
	{"five", []int{0}, 5},
	{"ten-i", []int{0}, 10},
	{"ten-ii", []int{0, 20}, 5},
	{"ten-iii", []int{10, 20}, 5},
	{"fifteen", []int{0, 10, 20}, 5},
}

func (c *combination) nodes() (all []int) {
	for _, first := range c.firstNodes {
		for i := range c.count {
			all = append(all, first+i)
		}
	}
	return all
}
