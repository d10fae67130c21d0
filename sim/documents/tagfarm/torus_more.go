package tagfarm

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/documents/sci"
	"ringlet/sim/study"
)

var torusBypass = study.Model{
	Name: "torus-bypass",
	Help: "The 3-D torus of TagNet-farm with some large events: busy feeding nodes by-passed, or waited for.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readTorus(p)
		d := readSizes(p)
		d.largeShare, d.largeFactor = p.Number("large-share"), p.Number("large-factor")
		c.bus.fullBursts = p.Word("bursts", "whole", "as-long-as-data") == "whole"
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		plot := study.Plot{
			Name: "distribution",
			X:    "building latency (µs)",
			Y:    "share of events",
			LogY: true,
		}
		for _, mode := range []struct {
			name   string
			bypass bool
		}{{"waiting", false}, {"by-pass", true}} {
			run := c.withDrawnParts(d)
			run.scheduling.bypass = mode.bypass
			f := play(ctx, run, env, &out)
			env.Trace = nil
			out.Add("latency-"+mode.name, f.meanTime(&f.burstToFirstPart))
			out.Add("latency-p99-"+mode.name, quantile(&f.burstToFirstPart, 0.99))
			out.Add("latency-p999-"+mode.name, quantile(&f.burstToFirstPart, 0.999))
			out.Add("carried-"+mode.name, study.Share(sim.PerSecond(f.built, f.measuredTime())*c.period.Seconds()))
			var passed uint64
			for _, n := range f.feeders {
				passed += n.passedUnserved
			}
			out.Add("passed-"+mode.name, countQuantity(passed))
			out.Add("pci-retries-"+mode.name, countQuantity(f.retries()))
			plot.Curves = append(plot.Curves, distribution(mode.name, &f.burstToFirstPart))
		}
		out.Plots = append(out.Plots, plot)
		return out, nil
	},
}

var torusSize = study.Model{
	Name: "torus-size",
	Help: "The 3-D torus of TagNet-farm with more columns and cover layers: building latency, and the longest path.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readTorus(p)
		h := torusShape{rows: p.Int("rows", 1, 32), coreLayers: p.Int("core-layers", 1, 8), order: byRow}
		columns, layers := p.Ints("more-columns", 1, 32), p.Ints("more-layers", 1, 32)
		part := p.Size("part", 1, 1<<16)
		if len(columns) != len(layers) {
			p.AddError("more-layers", "are %d, and %d more-columns", len(layers), len(columns))
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		curve := study.Curve{Name: "mean"}
		var path, mean []float64
		var nodes []int
		for i := range columns {
			h.columns, h.layers = columns[i], layers[i]
			h.computers = h.columns * h.rows * h.layers
			c.setShape(h)
			f := play(ctx, c.withFixedParts(part), env, &out)
			env.Trace = nil
			longest := c.longestPathLatency(ctx, part, &out)
			name := fmt.Sprintf("%dx%dx%d", h.columns, h.rows, h.layers)
			out.Add("latency-"+name, f.meanTime(&f.burstToFirstPart))
			out.Add("longest-"+name, study.Q(longest.Seconds(), study.Time))
			processors := float64(h.computers * c.compute.processors)
			curve.Points = append(curve.Points, [2]float64{processors, meanMicros(&f.burstToFirstPart)})
			path, mean, nodes = append(path, longest.Seconds()), append(mean, f.burstToFirstPart.Mean()), append(nodes,
				h.computers)
		}
		last := len(path) - 1
		out.Add("longest-grows", study.Q(path[last]-path[0], study.Time))
		out.Add("latency-grows", study.Share(mean[last]/mean[0]-1))
		out.Add("nodes-grow", study.Share(float64(nodes[last])/float64(nodes[0])-1))
		out.Plots = append(out.Plots, study.Plot{
			Name:   "latency",
			X:      "processors",
			Y:      "µs",
			Curves: []study.Curve{curve},
		})
		return out, nil
	},
}

// longestPathLatency is the latency of a packet over the longest path of an empty torus: first word to first word.
func (c *config) longestPathLatency(ctx context.Context, bytes int, out *study.Outcome) sim.Time {
	s := sim.New(1)
	net := sci.New(s, c.net, c.size...)
	m := &latencyProbe{s: s}
	for _, to := range c.computers {
		net.Node(to).Receiver = m
	}
	const apart = 20 * sim.Microsecond // longer than any path
	n := sim.Time(0)
	for _, from := range c.feeders {
		for _, to := range c.computers {
			s.ScheduleAt(n*apart, sim.Func(func(int64, int64) { net.Node(from).Send(to, bytes, 0, 0) }), 0, 0)
			n++
		}
	}
	s.Run(ctx, sim.Limits{})
	out.Events += s.Executed()
	return m.maxLatency
}

type latencyProbe struct {
	s          *sim.Sim
	maxLatency sim.Time
}

func (m *latencyProbe) Receive(p *sci.Packet) {
	m.maxLatency = max(m.maxLatency, m.s.Now()-p.AcceptedAt)
}

var torusProcessors = study.Model{
	Name: "torus-processors",
	Help: "The 3-D torus of TagNet-farm: how many of its processors are in use.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readTorus(p)
		part := p.Size("part", 1, 1<<16)
		c.compute.meanWork = p.Time("work")
		control := p.Time("control")
		event := p.Quantity("whole-event", study.Bytes)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		f := newFarm(env.Sim(), c.withFixedParts(part), env.Trace)
		series := f.s.Watch("processors in use", c.triggersEnd/512, f.busyProcessors.Value)
		if !f.run(ctx, env.OnProgress) {
			out.Notes = append(out.Notes, "interrupted at "+f.s.Now().String())
		}
		out.Events = f.s.Executed()
		rate := 1 / c.period.Seconds()
		all := float64(len(c.computers) * c.compute.processors)
		out.Add("processors", study.Q(all, study.Count))
		out.Add("busy", study.Q(f.busyProcessors.Mean(f.s.Now()), study.Count))
		out.Add("busy-peak", study.Q(float64(f.busyProcessors.Peak()), study.Count))
		out.Add("all-busy", study.Share(f.allBusy.Mean(f.s.Now())))
		out.Add("events-inside", study.Q(f.eventsInside.Mean(f.s.Now()), study.Count))
		out.Add("carried", study.Share(sim.PerSecond(f.returned, f.measuredTime())/rate))
		perNode := (c.compute.meanWork + control).Seconds() * rate / float64(c.compute.processors)
		out.Add("computing-nodes-needed", study.Q(perNode, study.Count))
		burst := f.clocks(c.bus.grantClocks + c.bus.addressClocks + c.bus.setUpClocks + c.bus.burstBytes/8)
		out.Add("feeding-nodes-needed", study.Q(event*rate/(float64(c.bus.burstBytes)/burst.Seconds()), study.Count))
		curve := study.Curve{Name: "in use"}
		for i, v := range series.Values {
			at := sim.Time(i+1) * series.Every
			curve.Points = append(curve.Points, [2]float64{at.Seconds() * 1e3, float64(v)})
		}
		out.Plots = append(out.Plots, study.Plot{
			Name:   "processors",
			X:      "ms",
			Y:      "in use",
			Curves: []study.Curve{curve},
		})
		return out, nil
	},
}
