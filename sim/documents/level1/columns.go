package level1

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// farmColumns loads every row of the planned farm as fully as one link allows, and looks for the number of columns of
// computing nodes from which on no readout unit is refused.
var farmColumns = study.Model{
	Name: "level1-columns",
	Help: "The planned farm with full rows and more and fewer columns of computing nodes: which hold up a readout unit.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		f := readFarm(p)
		computing, link := p.Ints("computing-columns", 2, 98), p.Quantity("link", study.Bandwidth)
		if !(link > 0) {
			p.AddError("link", "must be above 0")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		f.period = sim.Period(link / float64(2*f.fragment))
		g := &modelRun{env: env}
		curve := study.Curve{Name: "refused bursts per fragment"}
		needed := 0
		for _, n := range computing {
			f.columns, f.secondColumn = n+2, (n+2)/2 // the second unit is in the middle of its row
			held, err := g.refusedPerFragment(ctx, &f, n)
			if err != nil {
				return g.out, err
			}
			if held == 0 && (needed == 0 || n < needed) {
				needed = n
			}
			curve.Points = append(curve.Points, [2]float64{float64(n), held})
		}
		if needed > 0 {
			g.addResult(float64(needed), study.Count, "columns-needed")
		}
		g.out.Plots = []study.Plot{{
			Name:   "retries",
			X:      "columns of computing nodes",
			Y:      "retries per fragment",
			Curves: []study.Curve{curve},
		}}
		return g.out, nil
	},
}

// refusedPerFragment simulates the farm with the given number of columns of computing nodes. It returns how many bursts
// were refused, per fragment.
func (g *modelRun) refusedPerFragment(ctx context.Context, f *farm, computing int) (float64, error) {
	s := g.env.Sim()
	net := sci.New(s, f.cfg, f.columns, f.rows)
	r := f.newRun(s, net)
	// Read the links while the farm is full: when the last event comes.
	var row, column float64
	s.ScheduleAt(sim.Time(f.events)*f.period, sim.Func(func(int64, int64) {
		for node := range f.columns * f.rows {
			row, column = max(row, net.OutputUse(node, 0)), max(column, net.OutputUse(node, 1))
		}
	}), 0, 0)
	if err := g.play(ctx, s, 0); err != nil {
		return 0, err
	}
	fragments := float64(f.events * len(r.units))
	g.addResult(float64(r.refusedBursts), study.Count, "retries-%d", computing)
	g.addResult(float64(net.Retried()), study.Count, "busy-echoes-%d", computing)
	g.addResult(float64(int64(f.events)-r.finishedEvents), study.Count, "events-lost-%d", computing)
	g.out.Add(fmt.Sprintf("busiest-link-of-a-row-%d", computing), study.Share(row))
	g.out.Add(fmt.Sprintf("busiest-link-of-a-column-%d", computing), study.Share(column))
	g.addResult(sim.Time(r.fragmentLatency.Max()).Seconds(), study.Time, "network-longest-%d", computing)
	return float64(r.refusedBursts) / fragments, nil
}
