package lhcb

import (
	"context"
	"fmt"

	"ringlet/barrier"
	"ringlet/readoutunit"
	"ringlet/sim"
	"ringlet/sim/study"
)

// barrierTime is how long one barrier takes at which all nodes arrive together.
var barrierTime = study.Model{
	Name: "barrier-time",
	Help: "How long one barrier takes among so many nodes that arrive together, as in document 002, III.D.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := setup{flight: p.Time("message-flight"), cost: p.Time("message-cost")}
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
				w, err := meet(ctx, &c, env)
				if err != nil {
					return out, err
				}
				last = w.s.Now()
				if i == 0 {
					first = last
				}
				out.Events += w.s.Executed()
				out.Say(fmt.Sprintf("time-%s-%d", name, n), study.Q(last.Seconds(), study.Time))
				out.Say(fmt.Sprintf("messages-%s-%d", name, n), study.Q(float64(w.messages), study.Count))
				curve.Points = append(curve.Points, [2]float64{float64(n), last.Micros()})
			}
			out.Say("growth-"+name, study.Q(float64(last)/float64(first), study.Count))
			plot.Curves = append(plot.Curves, curve)
		}
		out.Plots = []study.Plot{plot}
		return out, nil
	},
}

// meet has all nodes enter a barrier at time 0. The run ends when all have left it.
func meet(ctx context.Context, c *setup, env study.Env) (*world, error) {
	w := &world{c: c, s: sim.New(env.Seed)}
	for i := range c.nodes {
		n := &node{w: w, index: i, alone: true}
		var err error
		if n.gate, err = barrier.NewCore(c.barrier, c.nodes, i); err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		n.enter()
	}
	w.s.Run(ctx, env.Limits(0))
	for _, n := range w.nodes {
		if n.phases != 1 && w.err == nil && ctx.Err() == nil {
			w.err = fmt.Errorf("node %d did not leave the barrier", n.index)
		}
	}
	return w, w.err
}

// treeLinks counts the flows of the shift on the links of a fat tree.
var treeLinks = study.Model{
	Name: "tree-links",
	Help: "How many flows of a phase of the shift share a link of a fat tree, as in document 002, IV.A.",
	Run: func(_ context.Context, p *study.Params, _ study.Env) (study.Outcome, error) {
		leaves, perLeaf := p.Ints("leaves", 1, 100), p.Ints("per-leaf", 1, 100)
		spines, links := p.Ints("spines", 1, 100), p.Ints("links", 1, 10)
		if len(perLeaf) != len(leaves) || len(spines) != len(leaves) || len(links) != len(leaves) {
			p.Wrong("leaves", "per-leaf, spines and links have as many values")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		for i := range leaves {
			n := leaves[i] * perLeaf[i]
			of := fmt.Sprintf("-%d", n)
			link, spine := shared(newTree(n, perLeaf[i], spines[i], links[i]), n)
			out.Say("ports"+of, study.Q(float64(n), study.Count))
			out.Say("most-flows-on-a-link"+of, study.Q(float64(link), study.Count))
			out.Say("most-flows-of-a-leaf-through-a-spine"+of, study.Q(float64(spine), study.Count))
		}
		return out, nil
	},
}

// shared is the most flows on any link, and from or to any leaf through a spine, in any phase.
func shared(t *tree, nodes int) (link, spine int) {
	var orders []*readoutunit.Shift
	for i := range nodes {
		orders = append(orders, readoutunit.NewShift(i, readoutunit.InOrder(nodes, nodes), nodes, 1, true))
	}
	size := t.leaves * t.uplinks()
	for phase := range nodes {
		up, down := make([]int, size), make([]int, size)
		through := make([]int, 2*t.leaves*t.spines)
		for i, o := range orders {
			r := t.route(i, o.Visits()[phase])
			if r == local {
				continue
			}
			up[r.up]++
			down[r.down]++
			a, b := r.up/t.uplinks()*t.spines+r.up%t.spines, r.down/t.uplinks()*t.spines+r.down%t.spines
			through[a]++
			through[t.leaves*t.spines+b]++
			link = max(link, up[r.up], down[r.down])
			spine = max(spine, through[a], through[t.leaves*t.spines+b])
		}
	}
	return link, spine
}
