package lhcb

import (
	"context"
	"fmt"
	"slices"

	"ringlet/sim/study"
)

// Models lists the models of this package. They share the outcomes of equal runs.
func Models() []study.Model {
	return []study.Model{eventBuilderModel(&outcomeCache{outcomes: map[string]*cachedOutcome{}}), barrierTimeModel,
		treeLinks}
}

// eventBuilderModel runs the event builder at several scales, with several barriers and sizes.
func eventBuilderModel(m *outcomeCache) study.Model {
	return study.Model{
		Name: "event-builder",
		Help: "The event builder of LHCb-EB: nodes in phases over a fat tree, with each barrier, scale and size.",
		Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
			g, c := readGrid(p), read(p)
			if err := p.Err(); err != nil {
				return study.Outcome{}, err
			}
			return g.play(ctx, c, env, m)
		},
	}
}

// grid lists the runs of a study: each barrier with each scale, size and number of slow outputs.
type grid struct {
	nodes, perLeaf, dummies, slowOutputs []int
	barriers, sizes                      []string
}

func readGrid(p *study.Params) grid {
	g := grid{
		nodes:       p.Ints("nodes", 2, 4096),
		perLeaf:     p.Ints("per-leaf", 1, 4096),
		dummies:     p.Ints("dummies", 0, 4096),
		slowOutputs: p.Ints("slow-outputs", 0, 4096),
		barriers: p.Words("barriers", "none", "central", "tournament", "dissemination", disciplinePull, disciplineFree,
			disciplineTagRing, disciplinePush),
		sizes: p.Words("sizes", sizesRealistic, sizesGrouped, sizesLargest, sizesMaximal),
	}
	for _, name := range []string{"per-leaf", "dummies"} {
		if n := len(map[string][]int{"per-leaf": g.perLeaf, "dummies": g.dummies}[name]); n != len(g.nodes) {
			p.AddError(name, "has %d values for %d of nodes", n, len(g.nodes))
		}
	}
	return g
}

// result is the result of a run of the grid.
type result struct {
	barrier, size      string
	nodes, slowOutputs int
	rate               float64
}

func (r *result) name() string {
	name := fmt.Sprintf("%s-%d-%s", r.barrier, r.nodes, r.size)
	if r.slowOutputs > 0 {
		name += fmt.Sprintf("-slow-%d", r.slowOutputs)
	}
	return name
}

// runs lists all runs, without their rates.
func (g *grid) runs() (all []result) {
	for _, size := range g.sizes {
		for _, slow := range g.slowOutputs {
			for _, nodes := range g.nodes {
				for _, name := range g.barriers {
					all = append(all, result{
						barrier:     name,
						size:        size,
						nodes:       nodes,
						slowOutputs: slow,
					})
				}
			}
		}
	}
	return all
}

// play makes the runs in turn. After an interruption the outcome has the results of the complete runs.
func (g *grid) play(ctx context.Context, c setup, env study.Env, m *outcomeCache) (study.Outcome, error) {
	var out study.Outcome
	var all []result
	for _, r := range g.runs() {
		one := c
		at := slices.Index(g.nodes, r.nodes)
		one.nodes, one.perLeaf, one.dummies = r.nodes, g.perLeaf[at], g.dummies[at]
		one.sizeRule, one.slowBUs = r.size, r.slowOutputs
		one.applyWord(r.barrier)
		o, err := m.play(ctx, &one, env)
		if err != nil {
			return out, err
		}
		out.Events += o.events
		if o.countedTo.At == 0 { // interrupted
			break
		}
		r.rate = o.addResults(&out, &one, r.name())
		all = append(all, r)
	}
	addComparisons(&out, all)
	out.Plots = g.plots(all)
	return out, nil
}

// addComparisons adds how much lower a run's rate is than that of each run that differs in one thing.
func addComparisons(out *study.Outcome, all []result) {
	for _, r := range all {
		for _, than := range all {
			if what, one := r.difference(&than); one {
				out.Add("lower-"+r.name()+"-than-"+what, study.Share(1-r.rate/than.rate))
			}
		}
	}
}

// difference names the difference to another run, if there is exactly one.
func (r *result) difference(than *result) (what string, one bool) {
	n := 0
	for _, d := range []struct {
		differs bool
		what    string
	}{
		{r.barrier != than.barrier, than.barrier},
		{r.size != than.size, than.size},
		{r.nodes != than.nodes, fmt.Sprint(than.nodes)},
		{r.slowOutputs != than.slowOutputs, fmt.Sprintf("slow-%d", than.slowOutputs)},
	} {
		if d.differs {
			n++
			what = d.what
		}
	}
	return what, n == 1
}

// plots are the document's plots: rate against scale, with each barrier.
func (g *grid) plots(all []result) []study.Plot {
	var plots []study.Plot
	if len(g.nodes) < 2 {
		return nil
	}
	for _, size := range g.sizes {
		p := study.Plot{
			Name: "rate-" + size,
			X:    "nodes",
			Y:    "rate / MHz",
		}
		for _, name := range g.barriers {
			curve := study.Curve{Name: name}
			for _, r := range all {
				if r.size == size && r.barrier == name && r.slowOutputs == 0 {
					curve.Points = append(curve.Points, [2]float64{float64(r.nodes), r.rate / 1e6})
				}
			}
			slices.SortFunc(curve.Points, func(a, b [2]float64) int { return int(a[0] - b[0]) })
			p.Curves = append(p.Curves, curve)
		}
		plots = append(plots, p)
	}
	return plots
}
