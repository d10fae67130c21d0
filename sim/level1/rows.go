package level1

import (
	"context"
	"slices"

	"ringlet/sim"
	"ringlet/sim/sci"
	"ringlet/sim/study"
)

// rowPair lets two readout units of each row send under the TagNet: next to each other, or displaced.
var rowPair = study.Model{
	Name: "tagnet-row-pair",
	Help: "Two readout units in each row of a torus, under the TagNet: retries at the full rate, and the rate without.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		r := twoInRow{torus: torus{
			cfg:     Network(p),
			dma:     engines(p),
			columns: p.Int("columns", 3, 100),
			rows:    p.Int("rows", 2, 100),
			extra:   p.Int("tag-clocks", 0, 1000),
		}}
		r.quartz = 0 // the tag makes the time of all
		r.second, r.rowsOfUnits = p.Int("second-unit", 1, r.columns-1), p.Int("rows-of-units", 1, r.rows)
		patterns := p.Words("patterns", "all", "balanced", "one-partition", "one-column")
		sizes, until := p.Sizes("blocks", 8, 1<<20), length(p)
		r.slower = p.Int("slower-clocks", 0, 1000)
		if r.columns-r.second < 2 || r.second < 2 && !slices.Contains(patterns, "all") {
			p.Wrong("second-unit", "a partition is empty")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		for _, r.pattern = range patterns {
			for _, size := range sizes {
				if err := g.pairs(ctx, r, size, until); err != nil {
					return g.out, err
				}
			}
		}
		return g.out, nil
	},
}

// pairs plays a size of block at the full rate, and as much slower as it takes until nothing is refused.
func (g *modelRun) pairs(ctx context.Context, r twoInRow, size int, until sim.Time) error {
	full, err := g.pair(ctx, r, size, until)
	if err != nil {
		return err
	}
	g.addResult(full.upstream, study.Count, "retries-upstream-%s-%d", r.pattern, size)
	g.addResult(full.downstream, study.Count, "retries-downstream-%s-%d", r.pattern, size)
	g.addResult(full.rate, study.Bandwidth, "throughput-%s-%d", r.pattern, size)
	lossless := full
	for last := r.extra + r.slower; lossless.upstream+lossless.downstream > 0; {
		if r.extra++; r.extra > last {
			return nil // no rate without
		}
		if lossless, err = g.pair(ctx, r, size, until); err != nil {
			return err
		}
	}
	g.addResult(lossless.rate, study.Bandwidth, "without-retry-%s-%d", r.pattern, size)
	return nil
}

// twoInRow is a torus with two readout units in each row: at column 0, and at second, which is further down the ring.
type twoInRow struct {
	torus
	second      int
	rowsOfUnits int
	slower      int // clocks by which a transfer is stretched in search of a rate without retries, at most
	pattern     string
}

// units are the nodes with units in the order of the chain: in each row the one downstream comes first. What all rows
// send into one column is more than its ring carries: there, only the first row has units.
func (r *twoInRow) units() (nodes []int) {
	rows := r.rowsOfUnits
	if r.pattern == "one-column" {
		rows = 1
	}
	for row := range rows {
		nodes = append(nodes, row*r.columns+r.second, row*r.columns)
	}
	return nodes
}

// eventTarget is the target of event n. Partition A lies between the units, partition B behind the second.
func (r *twoInRow) eventTarget(n int64) int {
	a, b := r.second-1, r.columns-r.second-1 // columns in A and B
	i := int(n)
	in := func(first, count, i int) int { return first + i/r.rows%count + r.columns*(i%r.rows) }
	switch r.pattern {
	case "balanced": // one after the other, so the units never send into the same
		if i /= 2; n%2 == 0 {
			return in(1, a, i)
		}
		return in(r.second+1, b, i)
	case "one-partition":
		return in(r.second+1, b, i)
	case "one-column":
		return in(r.columns-1, 1, i%(r.rows-1)+1)
	}
	if i %= (a + b) * r.rows; i%(a+b) < a {
		return 1 + i%(a+b) + r.columns*(i/(a+b))
	}
	return 2 + i%(a+b) + r.columns*(i/(a+b))
}

// pairing is what the units in the rows do.
type pairing struct {
	upstream, downstream float64 // retries
	rate                 float64 // of a row, in bytes per second
}

func (g *modelRun) pair(ctx context.Context, r twoInRow, block int, until sim.Time) (pairing, error) {
	s := g.env.Sim()
	net := sci.New(s, r.cfg, r.columns, r.rows)
	c := r.chain(s, net, block, r.units(), r.eventTarget)
	err := g.play(ctx, s, until)
	var sum pairing
	for i, u := range c.units {
		if i%2 == 0 {
			sum.downstream += float64(u.engine.retries)
		} else {
			sum.upstream += float64(u.engine.retries)
		}
	}
	sum.rate = sim.PerSecond(uint64((c.units[0].blocks+c.units[1].blocks)*int64(block)), until)
	return sum, err
}
