package lhcb

import (
	"context"
	"fmt"

	"ringlet/barrier"
	"ringlet/sim/study"
)

// Models are the models of this room.
func Models() []study.Model { return []study.Model{builder} }

// builder runs the event builder at several scales, with several barriers and sizes.
var builder = study.Model{
	Name: "event-builder",
	Help: "LHCb's event builder of document 002: nodes in phases over a fat tree, with each barrier, scale and size.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := read(p)
		scales := p.Ints("nodes", 2, 4096)
		perLeaf := p.Ints("per-leaf", 1, 4096)
		if len(perLeaf) != len(scales) {
			p.Wrong("per-leaf", "has %d values for %d of nodes", len(perLeaf), len(scales))
		}
		barriers := p.Words("barriers", "none", "central", "tournament", "dissemination")
		sizes := p.Words("sizes", realistic, grouped, largest, maximal)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		out := study.Outcome{}
		for _, size := range sizes {
			for i, nodes := range scales {
				for _, name := range barriers {
					one := c
					one.nodes, one.perLeaf, one.sizes = nodes, perLeaf[i], size
					one.barrier, _ = barrier.ParseKind(name)
					w, err := newWorld(&one, env.Seed)
					if err == nil {
						err = w.play(ctx, env)
					}
					if err != nil {
						return out, err
					}
					w.say(&out, fmt.Sprintf("%s-%d-%s", name, nodes, size))
				}
			}
		}
		return out, nil
	},
}

// say adds the results of a run.
func (w *world) say(out *study.Outcome, name string) {
	took := (w.to.at - w.from.at).Seconds()
	parts, bytes := float64(w.to.parts-w.from.parts), float64(w.to.placed-w.from.placed)
	n := float64(len(w.nodes))
	out.Events += w.s.Executed()
	out.Say("rate-"+name, study.Q(parts/n*float64(w.c.packing)/took, study.Rate))
	out.Say("throughput-"+name, study.Q(bytes/took, study.Bandwidth))
	for d, what := range []string{"idle", "software", "transfer", "barrier"} {
		spent := (w.to.spent[d] - w.from.spent[d]).Seconds()
		out.Say("share-"+what+"-"+name, study.Share(spent/n/took))
	}
}
