package lhcb

import (
	"context"
	"fmt"

	"ringlet/barrier"
	"ringlet/lab/topology"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/builder"
	"ringlet/sim/study"
)

// barrierTimeModel measures the time of one barrier that all nodes enter together.
var barrierTimeModel = study.Model{
	Name: "barrier-time",
	Help: "How long one barrier takes among so many nodes that arrive together, as in LHCb-EB §III.D.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := setup{messageDelay: p.Time("message-flight"), messageCost: p.Time("message-cost")}
		nodes := p.Ints("nodes", 2, 65535)
		kinds := p.Words("barriers", "central", "tournament", "dissemination")
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		plot := study.Plot{
			Name: "barrier",
			X:    "nodes",
			Y:    "time of a barrier / µs",
		}
		for _, name := range kinds {
			curve := study.Curve{Name: name}
			var first, last sim.Time
			for i, n := range nodes {
				c.nodes = n
				c.barrier, _ = barrier.ParseKind(name)
				w, err := runBarrier(ctx, &c, env)
				if err != nil {
					return out, err
				}
				last = w.s.Now()
				if i == 0 {
					first = last
				}
				out.Events += w.s.Executed()
				out.Add(fmt.Sprintf("time-%s-%d", name, n), study.Q(last.Seconds(), study.Time))
				out.Add(fmt.Sprintf("messages-%s-%d", name, n), study.Q(float64(w.BarrierMessageCount), study.Count))
				curve.Points = append(curve.Points, [2]float64{float64(n), last.Micros()})
			}
			out.Add("growth-"+name, study.Q(float64(last)/float64(first), study.Count))
			plot.Curves = append(plot.Curves, curve)
		}
		out.Plots = []study.Plot{plot}
		return out, nil
	},
}

// runBarrier has all nodes enter a barrier at time 0. The run ends when all have left it.
func runBarrier(ctx context.Context, c *setup, env study.Env) (*run, error) {
	r := newRun(c, env)
	var err error
	r.World, err = builder.RunBarrier(ctx, r.s, r.config(), r, env.Limits(0))
	return r, err
}

// treeLinks counts the flows of the shift on the links of a fat tree.
var treeLinks = study.Model{
	Name: "tree-links",
	Help: "How many flows of a phase of the shift share a link of a fat tree, as in LHCb-EB §IV.A.",
	Run: func(_ context.Context, p *study.Params, _ study.Env) (study.Outcome, error) {
		leaves, perLeaf := p.Ints("leaves", 1, 100), p.Ints("per-leaf", 1, 100)
		spines, links := p.Ints("spines", 1, 100), p.Ints("links", 1, 10)
		if len(perLeaf) != len(leaves) || len(spines) != len(leaves) || len(links) != len(leaves) {
			p.AddError("leaves", "per-leaf, spines and links must have as many values")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		for i := range leaves {
			n := leaves[i] * perLeaf[i]
			of := fmt.Sprintf("-%d", n)
			link, spine := maxLinkFlows(n, perLeaf[i], spines[i], links[i])
			out.Add("ports"+of, study.Q(float64(n), study.Count))
			out.Add("most-flows-on-a-link"+of, study.Q(float64(link), study.Count))
			out.Add("most-flows-of-a-leaf-through-a-spine"+of, study.Q(float64(spine), study.Count))
		}
		return out, nil
	},
}

// maxLinkFlows is the most flows in any phase on any link, and between any leaf and spine.
func maxLinkFlows(nodes, perLeaf, spines, links int) (link, spine int) {
	var visits [][]int
	for i := range nodes {
		visits = append(visits, readoutunit.SeatsInOrder(nodes, nodes).Visits(i))
	}
	t := topology.FatTree(nodes, perLeaf, spines, links)
	var route []int
	for phase := range nodes {
		on, through := make([]int, t.Links()), make([]int, t.Links()/links)
		for i, to := range visits {
			route = t.Route(route[:0], i, to[phase])
			for _, l := range route {
				leaf, class := l/2/(spines*links), l/2%(spines*links)
				s := 2*(leaf*spines+class%spines) + l%2
				on[l]++
				through[s]++
				link, spine = max(link, on[l]), max(spine, through[s])
			}
		}
	}
	return link, spine
}
