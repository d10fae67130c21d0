package tagfarm

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/level1"
	"ringlet/sim/study"
	"ringlet/tagnet"
)

// shape is that of a 3-D torus: each row of each core layer has two feeding nodes, half a ring from one another.
type shape struct {
	columns, rows, core, layers int
	computers                   int
	order                       string // of the feeding nodes in the control ring
}

// The orders of the feeding nodes in the control ring.
const (
	byRow    = "rows"    // the two of a row, then those of the next
	byLayer  = "layers"  // the same, with the rows of the layers in turn
	byColumn = "columns" // the first ones of all rows, then the second ones
)

// nodes says where everybody stands: feeding nodes in the order of the control ring, computing nodes layer by layer,
// and the columns. Packets go along X, then vertically, then along Z, so only the rings of core layers and the Z-rings
// carry any; the others are there and stay empty.
func (h shape) nodes() (size, feeders, computers []int, columns [][]int) {
	size = []int{h.columns + 2, h.rows, h.layers}
	second := (h.columns + 2) / 2
	at := func(x, row, layer int) int { return x + size[0]*(row+size[1]*layer) }
	feeders = h.feeders(func(side, row, layer int) int { return at(side*second, row, layer) })
	columns = make([][]int, h.columns)
	for layer := range h.layers {
		for row := range h.rows {
			for column := range h.columns {
				x := column + 1
				if x >= second {
					x++
				}
				if bu := len(computers); bu < h.computers {
					computers = append(computers, at(x, row, layer))
					columns[column] = append(columns[column], bu)
				}
			}
		}
	}
	return size, feeders, computers, columns
}

// feeders are the feeding nodes in the order of the control ring; side 0 has the first of each row, side 1 the second.
func (h shape) feeders(at func(side, row, layer int) int) (all []int) {
	for i := range 2 * h.rows * h.core {
		side, row, layer := i%2, i/2%h.rows, i/2/h.rows
		switch h.order {
		case byLayer:
			row, layer = i/2/h.core, i/2%h.core
		case byColumn:
			side, row, layer = i/(h.rows*h.core), i%h.rows, i/h.rows%h.core
		}
		all = append(all, at(side, row, layer))
	}
	return all
}

// torus reads what all figures of the 3-D torus have in common.
func torus(p *study.Params) config {
	h := shape{
		columns:   p.Int("columns", 1, 32),
		rows:      p.Int("rows", 1, 32),
		core:      p.Int("core-layers", 1, 8),
		layers:    p.Int("layers", 1, 32),
		computers: p.Int("computing-nodes", 1, 4096),
		order:     p.Word("feeder-order", byRow, byLayer, byColumn),
	}
	c := config{
		bus:         readBus(p),
		net:         level1.Network(p),
		scheduler:   -1,
		watch:       -1,
		controlRing: controlRing{processing: p.Time("hop")},
		order: order{
			clock:     sim.Period(p.Quantity("scheduler-clock", study.Rate)),
			latency:   p.Int("scheduler-latency", 0, 1000),
			selection: p.Int("scheduler-selection", 0, 1000),
			slots:     p.Int("buffers", 1, 1000),
			policy:    tagnet.Skip,
		},
		compute: compute{
			processors: p.Int("processors", 1, 64),
			feedback:   p.Time("feedback-time"),
		},
	}
	c.shape(h)
	c.input(p)
	return c
}

// shape puts the nodes of a torus into a config.
func (c *config) shape(h shape) { c.size, c.feeders, c.computers, c.columns = h.nodes() }

// fixed lets each feeding node have so many bytes of every event.
func (c config) fixed(bytes int) config {
	parts := make([]int, len(c.feeders))
	for i := range parts {
		parts[i] = bytes
	}
	c.bytes = func(*sim.Stream) []int { return parts }
	return c
}

// sizes are those of detector data: the events' sizes are an Erlang distribution, and the feeding nodes have equal
// parts.
type sizes struct {
	mean   float64 // of an event
	order  int
	large  float64 // share of events that are larger
	factor float64
}

func readSizes(p *study.Params) sizes {
	return sizes{
		mean:  p.Quantity("event", study.Bytes),
		order: p.Int("event-shape", 1, 100),
	}
}

// drawn lets events have such sizes.
func (c config) drawn(d sizes) config {
	parts := make([]int, len(c.feeders))
	c.bytes = func(r *sim.Stream) []int {
		sum := 0.0
		for range d.order {
			sum += r.ExpFloat64()
		}
		sum *= d.mean / float64(d.order)
		if d.large > 0 && r.Float64() < d.large {
			sum *= d.factor
		}
		for i := range parts {
			parts[i] = max(1, int(sum/float64(len(parts))+0.5))
		}
		return parts
	}
	return c
}

// micros is a histogram's mean for a plot.
func micros(h *sim.Histogram) float64 { return h.Mean() / float64(sim.Microsecond) }

func quantile(h *sim.Histogram, q float64) study.Quantity {
	return study.Q(sim.Time(h.Quantile(q)).Seconds(), study.Time)
}

// distribution is a histogram as a curve.
func distribution(name string, h *sim.Histogram) study.Curve {
	c := study.Curve{Name: name}
	for low, n := range h.Bins() {
		c.Points = append(c.Points, [2]float64{float64(low) / float64(sim.Microsecond), float64(n) / float64(h.Count())})
	}
	return c
}

var torusRates = study.Model{
	Name: "torus-rates",
	Help: "The 3-D torus of TagNet-farm: building latency of 128 B per feeding node against the event rate.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := torus(p)
		rates := p.Quantities("rates", study.Rate)
		part := p.Size("part", 1, 1<<16)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		building, fullCurve := study.Curve{Name: "from the first burst"}, study.Curve{Name: "from the trigger"}
		c = c.fixed(part)
		var retries, echoes, again, highest uint64
		var first float64
		for _, r := range rates {
			f := play(ctx, c.atRate(r), env, &out)
			env.Trace = nil
			at := squeeze(study.Q(r, study.Rate).String())
			out.Add("latency-"+at, f.mean(&f.building))
			out.Add("latency-p1-"+at, quantile(&f.building, 0.01))
			out.Add("latency-p99-"+at, quantile(&f.building, 0.99))
			out.Add("deviation-"+at, study.Q(f.building.Deviation()/float64(sim.Second), study.Time))
			if first == 0 {
				first = f.building.Mean()
			}
			out.Add("growth-"+at, study.Share(f.building.Mean()/first-1))
			out.Add("from-trigger-"+at, f.mean(&f.triggered))
			out.Add("rate-"+at, f.per(f.built))
			building.Points = append(building.Points, [2]float64{r / 1e6, micros(&f.building)})
			fullCurve.Points = append(fullCurve.Points, [2]float64{r / 1e6, micros(&f.triggered)})
			out.Add("pci-retries-"+at, count(f.retries()))
			out.Add("busy-echoes-"+at, count(f.net.Retried()))
			retries += f.retries()
			echoes += f.net.Retried()
			again += f.sched.sameAgain
			highest = max(highest, uint64(f.fns[0].queue.Length.Peak()))
			if len(rates) == 1 {
				out.Plots = append(out.Plots, study.Plot{
					Name:   "distribution",
					X:      "building latency (µs)",
					Y:      "share of events",
					Curves: []study.Curve{distribution(at, &f.building)},
				})
			}
		}
		out.Add("pci-retries", count(retries))
		out.Add("busy-echoes", count(echoes))
		out.Add("same-column-again", count(again))
		out.Add("queue-peak", count(highest))
		out.Plots = append(out.Plots, study.Plot{
			Name:   "latency",
			X:      "event rate (MHz)",
			Y:      "µs",
			Curves: []study.Curve{building, fullCurve},
		})
		return out, nil
	},
}

// retries is how many starts were refused on all feeding nodes' buses.
func (f *farm) retries() (n uint64) {
	for _, fn := range f.fns {
		n += fn.retries
	}
	return n
}

// backlog is the longest that a queue of a feeding node became.
func (f *farm) backlog() (n int64) {
	for _, fn := range f.fns {
		n = max(n, fn.queue.Length.Peak())
	}
	return n
}

var torusData = study.Model{
	Name: "torus-data",
	Help: "The 3-D torus of TagNet-farm: building latency of detector data against a factor on their size.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := torus(p)
		d := readSizes(p)
		scales := p.Quantities("scales", study.Count)
		c.bus.fullBursts = p.Word("bursts", "whole", "as-long-as-data") == "whole"
		part := p.Size("part", 1, 1<<16)
		c.again = p.Number("on-demand")
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		small := c.fixed(part)
		small.again = 0
		base := play(ctx, small, study.Env{Seed: env.Seed}, &out)
		out.Add("latency-one-burst", base.mean(&base.building))
		plot := study.Plot{Name: "distribution", X: "building latency (µs)", Y: "share of events"}
		curve := study.Curve{Name: "mean"}
		var first float64
		for i, scale := range scales {
			scaled := d
			scaled.mean *= scale
			f := play(ctx, c.drawn(scaled), env, &out)
			env.Trace = nil
			at := fmt.Sprint(scale)
			mean := f.building.Mean()
			if i == 0 {
				first = mean
				out.Add("ratio", study.Q(mean/base.building.Mean(), study.Count))
			}
			out.Add("latency-"+at, f.mean(&f.building))
			out.Add("latency-p99-"+at, quantile(&f.building, 0.99))
			out.Add("growth-"+at, study.Share(mean/first-1))
			out.Add("carried-"+at, study.Share(sim.PerSecond(f.built, f.measured())*c.period.Seconds()))
			out.Add("backlog-"+at, study.Q(float64(f.backlog()), study.Count))
			out.Add("bursts-per-part-"+at, study.Q(f.burstsPerPart(), study.Count))
			out.Add("pci-retries-"+at, count(f.retries()))
			out.Add("busy-echoes-"+at, count(f.net.Retried()))
			if c.again > 0 {
				out.Add("short", f.mean(&f.full))
				out.Add("long", f.mean(&f.long))
				out.Add("long-over-short", study.Q(f.long.Mean()/f.full.Mean(), study.Count))
				out.Add("long-share", study.Share(float64(f.long.Count())/float64(f.tail.Count())))
			}
			curve.Points = append(curve.Points, [2]float64{scale, micros(&f.building)})
			plot.Curves = append(plot.Curves, distribution("factor "+at, &f.tail))
		}
		out.Plots = append(out.Plots, plot, study.Plot{
			Name:   "latency",
			X:      "factor",
			Y:      "µs",
			Curves: []study.Curve{curve},
		})
		return out, nil
	},
}

func (f *farm) burstsPerPart() float64 {
	var bursts, transfers uint64
	for _, n := range f.fns {
		bursts += n.bursts
		transfers += n.transfers
	}
	return float64(bursts) / float64(max(1, transfers))
}
