package tagfarm

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/documents/level1"
	"ringlet/sim/study"
	"ringlet/tagnet/core"
)

// torusShape describes a 3-D torus: each row of each core layer has two feeding nodes, half a ring apart.
type torusShape struct {
	columns, rows, coreLayers, layers int
	computers                         int
	order                             string // of the feeding nodes in the control ring
}

// The orders of the feeding nodes in the control ring.
const (
	byRow    = "rows"    // the two of a row, then those of the next
	byLayer  = "layers"  // the same, with the rows of the layers in turn
	byColumn = "columns" // the first one of each row, then the second ones
)

// placeNodes returns the positions: feeding nodes in the order of the control ring, computing nodes layer by layer, and
// the columns. Packets go along X, then vertically, then along Z, so only the rings of core layers and the Z-rings
// carry packets; the others stay empty.
func (h torusShape) placeNodes() (size, feeders, computers []int, columns [][]int) {
	size = []int{h.columns + 2, h.rows, h.layers}
	second := (h.columns + 2) / 2
	at := func(x, row, layer int) int { return x + size[0]*(row+size[1]*layer) }
	feeders = h.orderFeeders(func(side, row, layer int) int { return at(side*second, row, layer) })
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

// orderFeeders lists the feeding nodes in the order of the control ring; side 0 is the first node of each row, side 1
// the second.
func (h torusShape) orderFeeders(at func(side, row, layer int) int) (all []int) {
	for i := range 2 * h.rows * h.coreLayers {
		side, row, layer := i%2, i/2%h.rows, i/2/h.rows
		switch h.order {
		case byLayer:
			row, layer = i/2/h.coreLayers, i/2%h.coreLayers
		case byColumn:
			side, row, layer = i/(h.rows*h.coreLayers), i%h.rows, i/h.rows%h.coreLayers
		}
		all = append(all, at(side, row, layer))
	}
	return all
}

// readTorus reads the parameters that all figures of the 3-D torus share.
func readTorus(p *study.Params) config {
	h := torusShape{
		columns:    p.Int("columns", 1, 32),
		rows:       p.Int("rows", 1, 32),
		coreLayers: p.Int("core-layers", 1, 8),
		layers:     p.Int("layers", 1, 32),
		computers:  p.Int("computing-nodes", 1, 4096),
		order:      p.Word("feeder-order", byRow, byLayer, byColumn),
	}
	c := config{
		bus:         readBus(p),
		net:         level1.ReadNetwork(p),
		scheduler:   -1,
		watchedBU:   -1,
		controlRing: controlRing{processing: p.Time("hop")},
		scheduling: schedulingConfig{
			clock:           sim.Period(p.Quantity("scheduler-clock", study.Rate)),
			latencyClocks:   p.Int("scheduler-latency", 0, 1000),
			selectionClocks: p.Int("scheduler-selection", 0, 1000),
			slots:           p.Int("buffers", 1, 1000),
			policy:          core.Skip,
		},
		compute: compute{
			processors:    p.Int("processors", 1, 64),
			feedbackDelay: p.Time("feedback-time"),
		},
	}
	c.setShape(h)
	c.input(p)
	return c
}

// setShape puts the nodes of a torus into a config.
func (c *config) setShape(h torusShape) { c.size, c.feeders, c.computers, c.columns = h.placeNodes() }

// withFixedParts gives each feeding node a part of that number of bytes in every event.
func (c config) withFixedParts(bytes int) config {
	parts := make([]int, len(c.feeders))
	for i := range parts {
		parts[i] = bytes
	}
	c.drawPartBytes = func(*sim.RandomStream) []int { return parts }
	return c
}

// sizeParams describe detector data: event sizes have an Erlang distribution, and the feeding nodes have equal parts.
type sizeParams struct {
	mean        float64 // of an event
	erlangOrder int
	largeShare  float64 // of events that are larger
	largeFactor float64
}

func readSizes(p *study.Params) sizeParams {
	return sizeParams{
		mean:        p.Quantity("event", study.Bytes),
		erlangOrder: p.Int("event-shape", 1, 100),
	}
}

// withDrawnParts draws event sizes from that distribution.
func (c config) withDrawnParts(d sizeParams) config {
	parts := make([]int, len(c.feeders))
	c.drawPartBytes = func(r *sim.RandomStream) []int {
		sum := 0.0
		for range d.erlangOrder {
			sum += r.ExpFloat64()
		}
		sum *= d.mean / float64(d.erlangOrder)
		if d.largeShare > 0 && r.Float64() < d.largeShare {
			sum *= d.largeFactor
		}
		for i := range parts {
			parts[i] = max(1, int(sum/float64(len(parts))+0.5))
		}
		return parts
	}
	return c
}

// meanMicros is a histogram's mean, for a plot.
func meanMicros(h *sim.Histogram) float64 { return h.Mean() / float64(sim.Microsecond) }

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
		c := readTorus(p)
		rates := p.Quantities("rates", study.Rate)
		part := p.Size("part", 1, 1<<16)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		building, fullCurve := study.Curve{Name: "from the first burst"}, study.Curve{Name: "from the trigger"}
		c = c.withFixedParts(part)
		var retries, echoes, again, highest uint64
		var first float64
		for _, r := range rates {
			f := play(ctx, c.atRate(r), env, &out)
			env.Trace = nil
			at := removeSpaces(study.Q(r, study.Rate).String())
			out.Add("latency-"+at, f.meanTime(&f.burstToFirstPart))
			out.Add("latency-p1-"+at, quantile(&f.burstToFirstPart, 0.01))
			out.Add("latency-p99-"+at, quantile(&f.burstToFirstPart, 0.99))
			out.Add("deviation-"+at, study.Q(f.burstToFirstPart.Deviation()/float64(sim.Second), study.Time))
			if first == 0 {
				first = f.burstToFirstPart.Mean()
			}
			out.Add("growth-"+at, study.Share(f.burstToFirstPart.Mean()/first-1))
			out.Add("from-trigger-"+at, f.meanTime(&f.triggerToFirstPart))
			out.Add("rate-"+at, f.ratePerSecond(f.built))
			building.Points = append(building.Points, [2]float64{r / 1e6, meanMicros(&f.burstToFirstPart)})
			fullCurve.Points = append(fullCurve.Points, [2]float64{r / 1e6, meanMicros(&f.triggerToFirstPart)})
			out.Add("pci-retries-"+at, countQuantity(f.retries()))
			out.Add("busy-echoes-"+at, countQuantity(f.net.Retried()))
			retries += f.retries()
			echoes += f.net.Retried()
			again += f.sched.sameColumnAgain
			highest = max(highest, uint64(f.feeders[0].queue.Length.Peak()))
			if len(rates) == 1 {
				out.Plots = append(out.Plots, study.Plot{
					Name:   "distribution",
					X:      "building latency (µs)",
					Y:      "share of events",
					Curves: []study.Curve{distribution(at, &f.burstToFirstPart)},
				})
			}
		}
		out.Add("pci-retries", countQuantity(retries))
		out.Add("busy-echoes", countQuantity(echoes))
		out.Add("same-column-again", countQuantity(again))
		out.Add("queue-peak", countQuantity(highest))
		out.Plots = append(out.Plots, study.Plot{
			Name:   "latency",
			X:      "event rate (MHz)",
			Y:      "µs",
			Curves: []study.Curve{building, fullCurve},
		})
		return out, nil
	},
}

// retries counts the refused starts on all feeding nodes' buses.
func (f *farm) retries() (n uint64) {
	for _, fn := range f.feeders {
		n += fn.retries
	}
	return n
}

// longestQueue is the greatest length of a feeding node's queue.
func (f *farm) longestQueue() (n int64) {
	for _, fn := range f.feeders {
		n = max(n, fn.queue.Length.Peak())
	}
	return n
}

var torusData = study.Model{
	Name: "torus-data",
	Help: "The 3-D torus of TagNet-farm: building latency of detector data against a factor on their size.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readTorus(p)
		d := readSizes(p)
		scales := p.Quantities("scales", study.Count)
		c.bus.fullBursts = p.Word("bursts", "whole", "as-long-as-data") == "whole"
		part := p.Size("part", 1, 1<<16)
		c.secondPartShare = p.Number("on-demand")
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		small := c.withFixedParts(part)
		small.secondPartShare = 0
		base := play(ctx, small, study.Env{Seed: env.Seed}, &out)
		out.Add("latency-one-burst", base.meanTime(&base.burstToFirstPart))
		plot := study.Plot{Name: "distribution", X: "building latency (µs)", Y: "share of events"}
		curve := study.Curve{Name: "mean"}
		var first float64
		for i, scale := range scales {
			scaled := d
			scaled.mean *= scale
			f := play(ctx, c.withDrawnParts(scaled), env, &out)
			env.Trace = nil
			at := fmt.Sprint(scale)
			mean := f.burstToFirstPart.Mean()
			if i == 0 {
				first = mean
				out.Add("ratio", study.Q(mean/base.burstToFirstPart.Mean(), study.Count))
			}
			out.Add("latency-"+at, f.meanTime(&f.burstToFirstPart))
			out.Add("latency-p99-"+at, quantile(&f.burstToFirstPart, 0.99))
			out.Add("growth-"+at, study.Share(mean/first-1))
			out.Add("carried-"+at, study.Share(sim.PerSecond(f.built, f.measuredTime())*c.period.Seconds()))
			out.Add("backlog-"+at, study.Q(float64(f.longestQueue()), study.Count))
			out.Add("bursts-per-part-"+at, study.Q(f.burstsPerPart(), study.Count))
			out.Add("pci-retries-"+at, countQuantity(f.retries()))
			out.Add("busy-echoes-"+at, countQuantity(f.net.Retried()))
			if c.secondPartShare > 0 {
				out.Add("short", f.meanTime(&f.onePartLatency))
				out.Add("long", f.meanTime(&f.twoPartLatency))
				out.Add("long-over-short", study.Q(f.twoPartLatency.Mean()/f.onePartLatency.Mean(), study.Count))
				out.Add("long-share", study.Share(float64(f.twoPartLatency.Count())/float64(f.allLatency.Count())))
			}
			curve.Points = append(curve.Points, [2]float64{scale, meanMicros(&f.burstToFirstPart)})
			plot.Curves = append(plot.Curves, distribution("factor "+at, &f.allLatency))
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
	for _, n := range f.feeders {
		bursts += n.bursts
		transfers += n.transfers
	}
	return float64(bursts) / float64(max(1, transfers))
}
