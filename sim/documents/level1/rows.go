package level1

import (
	"context"
	"slices"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

// rowPair has two readout units of each row send under the TagNet: next to each other, or displaced.
var rowPair = study.Model{
	Name: "tagnet-row-pair",
	Help: "Two readout units in each row of a torus, under the TagNet: retries at the full rate, and the rate without.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		r := twoInRow{torus: torus{
			cfg:         ReadNetwork(p),
			dma:         readDMA(p),
			columns:     p.Int("columns", 3, 100),
			rows:        p.Int("rows", 2, 100),
			extraClocks: p.Int("tag-clocks", 0, 1000),
		}}
		r.clockDrift = 0 // the tag sets the time of all units
		r.secondColumn, r.rowsOfUnits = p.Int("second-unit", 1, r.columns-1), p.Int("rows-of-units", 1, r.rows)
		patterns := p.Words("patterns", "all", "balanced", "one-partition", "one-column")
		sizes, until := p.Sizes("blocks", 8, 1<<20), readDuration(p)
		r.maxStretchClocks = p.Int("slower-clocks", 0, 1000)
		if r.columns-r.secondColumn < 2 || r.secondColumn < 2 && !slices.Contains(patterns, "all") {
			p.AddError("second-unit", "a partition is empty")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		g := &modelRun{env: env}
		for _, r.pattern = range patterns {
			for _, size := range sizes {
				if err := g.addPairResults(ctx, r, size, until); err != nil {
					return g.out, err
				}
			}
		}
		return g.out, nil
	},
}

// addPairResults simulates a block size at the full rate, and slower until no burst is refused.
func (g *modelRun) addPairResults(ctx context.Context, r twoInRow, size int, until sim.Time) error {
	full, err := g.playPair(ctx, r, size, until)
	if err != nil {
		return err
	}
	g.addResult(full.upstreamRetries, study.Count, "retries-upstream-%s-%d", r.pattern, size)
	g.addResult(full.downstreamRetries, study.Count, "retries-downstream-%s-%d", r.pattern, size)
	g.addResult(full.rowRate, study.Bandwidth, "throughput-%s-%d", r.pattern, size)
	lossless := full
	for last := r.extraClocks + r.maxStretchClocks; lossless.upstreamRetries+lossless.downstreamRetries > 0; {
		if r.extraClocks++; r.extraClocks > last {
			return nil // no rate without retries
		}
		if lossless, err = g.playPair(ctx, r, size, until); err != nil {
			return err
		}
	}
	g.addResult(lossless.rowRate, study.Bandwidth, "without-retry-%s-%d", r.pattern, size)
	return nil
}

// twoInRow is a torus with two readout units in each row: at column 0, and at secondColumn, further down the ring.
type twoInRow struct {
	torus
	secondColumn     int
	rowsOfUnits      int
	maxStretchClocks int // by how many clocks a transfer may be stretched, in search of a rate without retries
	pattern          string
}

// units lists the nodes with units in the order of the chain: in each row the downstream unit first. With one-column
// only the first row has units: more units than those would send more than the column's ring carries.
func (r *twoInRow) units() (nodes []int) {
	rows := r.rowsOfUnits
	if r.pattern == "one-column" {
		rows = 1
	}
	for row := range rows {
		nodes = append(nodes, row*r.columns+r.secondColumn, row*r.columns)
	}
	return nodes
}

// eventTarget is the target of event n. Partition A is between the units, partition B behind the second.
func (r *twoInRow) eventTarget(n int64) int {
	a, b := r.secondColumn-1, r.columns-r.secondColumn-1 // columns in A and B
	i := int(n)
	in := func(first, count, i int) int { return first + i/r.rows%count + r.columns*(i%r.rows) }
	switch r.pattern {
	case "balanced": // alternating, so the two units never send into the same partition
		if i /= 2; n%2 == 0 {
			return in(1, a, i)
		}
		return in(r.secondColumn+1, b, i)
	case "one-partition":
		return in(r.secondColumn+1, b, i)
	case "one-column":
		return in(r.columns-1, 1, i%(r.rows-1)+1)
	}
	if i %= (a + b) * r.rows; i%(a+b) < a {
		return 1 + i%(a+b) + r.columns*(i/(a+b))
	}
	return 2 + i%(a+b) + r.columns*(i/(a+b))
}

// pairResult has the results of the units in the rows.
type pairResult struct {
	upstreamRetries, downstreamRetries float64
	rowRate                            float64 // bytes per second of a row
}

func (g *modelRun) playPair(ctx context.Context, r twoInRow, block int, until sim.Time) (pairResult, error) {
	s := g.env.Sim()
	net := sci.New(s, r.cfg, r.columns, r.rows)
	c := r.chain(s, net, block, r.units(), r.eventTarget)
	err := g.play(ctx, s, until)
	var sum pairResult
	for i, u := range c.units {
		if i%2 == 0 {
			sum.downstreamRetries += float64(u.engine.retries)
		} else {
			sum.upstreamRetries += float64(u.engine.retries)
		}
	}
	sum.rowRate = sim.PerSecond(uint64((c.units[0].blocks+c.units[1].blocks)*int64(block)), until)
	return sum, err
}
