package tagfarm

import (
	"context"
	"fmt"
	"strings"

	"ringlet/sim"
	"ringlet/sim/documents/level1"
	"ringlet/sim/study"
	"ringlet/tagnet/core"
)

// Models lists the models of TagNet-farm.
func Models() []study.Model {
	return []study.Model{prototypeRate, prototypeLatency, prototypeSuspension, prototypeRetries,
		torusRates, torusData, torusBypass, torusSize, torusProcessors,
		switchUnshaped, pullBuilder}
}

// readPrototype reads the parameters that all figures of the prototype share. The positions of the nodes are those of
// TagNet-farm §VII.A: rows FN1 CN1 CN2 passive CN3 to CN6, and FN2 CN7 CN8 scheduler CN9 to CN12.
func readPrototype(p *study.Params) config {
	c := config{
		bus:       readBus(p),
		net:       level1.ReadNetwork(p),
		size:      []int{8, 2},
		feeders:   []int{0, 8},
		computers: []int{1, 2, 4, 5, 6, 7, 9, 10, 12, 13, 14, 15},
		scheduler: 11,
		watchedBU: -1,
		driver: driver{
			period:        sim.Period(p.Quantity("driver-rate", study.Rate)),
			gap:           p.Time("driver-gap"),
			gapBusyClocks: p.Int("driver-clocks", 0, 1000),
		},
		controlRing: controlRing{
			words:      p.Int("message-words", 1, 64),
			wordTime:   sim.Period(p.Quantity("strobe", study.Rate)),
			wireDelay:  p.Time("wire"),
			processing: p.Time("processing"),
		},
		scheduling: schedulingConfig{
			clock:           sim.Period(p.Quantity("scheduler-clock", study.Rate)),
			latencyClocks:   p.Int("scheduler-latency", 0, 1000),
			selectionClocks: p.Int("scheduler-selection", 0, 1000),
			slots:           p.Int("buffers", 1, 1000),
			policy:          core.Skip,
		},
		compute: compute{
			processors:      1,
			minFeedbackTime: p.Time("feedback-after"),
			feedbackBytes:   p.Size("feedback", 1, 128),
		},
	}
	for x := range 6 {
		c.columns = append(c.columns, []int{x, x + 6})
	}
	size := p.Size("part", 1, 1<<16)
	parts := []int{size, size}
	c.drawPartBytes = func(*sim.RandomStream) []int { return parts }
	return c
}

func readBus(p *study.Params) bus {
	return bus{
		clock:         p.Time("clock"),
		grantClocks:   p.Int("grant", 0, 1000),
		addressClocks: p.Int("address", 0, 1000),
		setUpClocks:   p.Int("setup", 0, 1000),
		refusedClocks: p.Int("refused", 0, 1000),
		burstBytes:    p.Size("burst", 8, 128),
	}
}

// input reads the rate of events, and for how long they come.
func (c *config) input(p *study.Params) {
	c.period = sim.Period(p.Quantity("rate", study.Rate))
	c.triggersEnd = p.Time("duration")
	c.warmUpEnd = c.triggersEnd / 4
}

func (c *config) atRate(rate float64) config {
	d := *c
	d.period = sim.Period(rate)
	return d
}

// play makes a farm and runs it.
func play(ctx context.Context, c config, env study.Env, out *study.Outcome) *farm {
	f := newFarm(env.Sim(), c, env.Trace)
	if !f.run(ctx, env.OnProgress) {
		out.Notes = append(out.Notes, "interrupted at "+f.s.Now().String())
	}
	out.Events += f.s.Executed()
	if f.sched.coreRefusals > 0 {
		out.Notes = append(out.Notes, "the scheduler's core refused an input of the model")
	}
	return f
}

// ratePerSecond is the rate of n since the warm-up.
func (f *farm) ratePerSecond(n uint64) study.Quantity {
	return study.Q(sim.PerSecond(n, f.measuredTime()), study.Rate)
}

func (f *farm) meanTime(h *sim.Histogram) study.Quantity {
	return study.Q(h.Mean()/float64(sim.Second), study.Time)
}

func countQuantity(n uint64) study.Quantity { return study.Q(float64(n), study.Count) }

var prototypeRate = study.Model{
	Name: "tagfarm-rate",
	Help: "The prototype of TagNet-farm at one rate: rates, the feeding nodes' bus, the scheduler's clocks.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readPrototype(p)
		c.input(p)
		basic := p.Quantity("basic-rate", study.Rate)
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		f := play(ctx, c, env, &out)
		fn := f.feeders[len(f.feeders)-1]
		out.Add("peak-rate", study.Q(1/f.feeders[0].minBurstGap.Seconds(), study.Rate))
		out.Add("mean-rate", f.ratePerSecond(f.feeders[0].transfers))
		out.Add("mean-rate-last", f.ratePerSecond(fn.transfers))
		out.Add("built-rate", f.ratePerSecond(f.built))
		out.Add("data-rate", study.Q(sim.PerSecond(fn.bytes, f.measuredTime()), study.Bandwidth))
		out.Add("bus-idle", study.Share(1-fn.busUtilization()))
		data := f.clocks(int(fn.dataClocks)).Seconds() / f.measuredTime().Seconds()
		out.Add("bus-data", study.Share(data))
		out.Add("bus-overhead", study.Share(fn.busUtilization()-data))
		rate := sim.PerSecond(fn.transfers, f.measuredTime())
		out.Add("gain", study.Share(rate/basic-1))
		out.Add("retries", f.ratePerSecond(fn.retries))
		out.Add("driver-accesses", f.ratePerSecond(fn.driverAccesses))
		out.Add("scheduler-latency", study.Q(float64(f.sched.latencyClocks.Quantile(0.5)), study.Count))
		out.Add("scheduler-selection", study.Q(float64(c.scheduling.selectionClocks), study.Count))
		out.Add("clocks-between-events", study.Q(1/rate/c.scheduling.clock.Seconds(), study.Count))
		out.Add("same-column-again", countQuantity(f.sched.sameColumnAgain))
		out.Add("out-of-order", countQuantity(f.packetsOutOfOrder))
		out.Add("system-latency", f.meanTime(&f.systemLatency))
		out.Add("node-traffic", study.Q(sim.PerSecond(f.computers[6].bytes, f.s.Now()), study.Bandwidth))
		f.addIdleBusResults(ctx, env, &out)
		return out, nil
	},
}

// addIdleBusResults adds the use of a feeding node's bus without load, with and without the driver.
func (f *farm) addIdleBusResults(ctx context.Context, env study.Env, out *study.Outcome) {
	for _, with := range []struct {
		name  string
		every sim.Time
	}{{"bus-idle-before-driver", 0}, {"bus-idle-without-load", f.cfg.driver.period}} {
		c := f.cfg
		c.driver.period = with.every
		c.period, c.warmUpEnd, c.triggersEnd = sim.Second, sim.Millisecond, sim.Second/10
		quiet := play(ctx, c, study.Env{Seed: env.Seed}, out)
		out.Add(with.name, study.Share(1-quiet.feeders[len(quiet.feeders)-1].busUtilization()))
	}
}

var prototypeLatency = study.Model{
	Name: "tagfarm-latency",
	Help: "The prototype of TagNet-farm: latency on the control ring against the rate, and there and back.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readPrototype(p)
		c.triggersEnd = p.Time("duration")
		c.warmUpEnd = c.triggersEnd / 4
		rates := p.Quantities("rates", study.Rate)
		sleeps := p.Quantities("suspensions", study.Time)
		c.watchedBU = p.Int("node", 1, 12) - 1
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		out.Plots = append(out.Plots, c.latencyPlot(ctx, rates, env, &out))
		for _, sleep := range sleeps {
			d := c.atRate(rates[0])
			d.compute.minFeedbackTime += sim.Time(sleep * float64(sim.Second))
			f := play(ctx, d, study.Env{Seed: env.Seed}, &out)
			out.Add("system-"+removeSpaces(study.Q(sleep, study.Time).String()), f.meanTime(&f.systemLatency))
		}
		return out, nil
	},
}

// latencyPlot simulates each rate, with and without the SCI driver's gaps.
func (c *config) latencyPlot(ctx context.Context, rates []float64, env study.Env, out *study.Outcome) study.Plot {
	plot := study.Plot{Name: "latency", X: "event rate (kHz)", Y: "µs"}
	for _, driven := range []string{"", "-with-driver"} {
		curves := []study.Curve{{Name: "to FN1" + driven}, {Name: "to FN2" + driven}}
		var first float64
		for i, r := range rates {
			d := c.atRate(r)
			if driven == "" {
				d.driver.period = 0
			}
			f := play(ctx, d, env, out)
			env.Trace = nil
			at := removeSpaces(study.Q(r, study.Rate).String()) + driven
			for j, h := range f.messageLatency {
				curves[j].Points = append(curves[j].Points, [2]float64{r / 1e3, h.Mean() / float64(sim.Microsecond)})
				name := fmt.Sprintf("fn%d-%s", j+1, at)
				out.Add(name, f.meanTime(h))
				out.Add(name+"-deviation", study.Q(h.Deviation()/float64(sim.Second), study.Time))
			}
			last := f.messageLatency[len(f.messageLatency)-1].Mean()
			if i == 0 {
				first = last
			}
			out.Add("change-"+at, study.Share(last/first-1))
		}
		plot.Curves = append(plot.Curves, curves...)
	}
	return plot
}

// removeSpaces makes a quantity part of a name: "1 ms" becomes 1ms.
func removeSpaces(s string) string { return strings.ReplaceAll(s, " ", "") }

var prototypeSuspension = study.Model{
	Name: "tagfarm-suspension",
	Help: "The prototype of TagNet-farm: the maximum rate while one computing node at a time sleeps.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readPrototype(p)
		c.input(p)
		sleeps := p.Quantities("suspensions", study.Time)
		policies := p.Words("policies", core.Skip.String(), core.Wait.String())
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		plot := study.Plot{
			Name: "rate",
			X:    "suspension (µs)",
			Y:    "MHz",
			LogX: true,
		}
		for _, name := range policies {
			curve := study.Curve{Name: name}
			d := c
			d.scheduling.policy, _ = core.ParsePolicy(name) // the study allows only its words
			for _, sleep := range sleeps {
				d.compute.sleepTime = sim.Time(sleep * float64(sim.Second))
				f := play(ctx, d, env, &out)
				curve.Points = append(curve.Points, [2]float64{sleep * 1e6, sim.PerSecond(f.built, f.measuredTime()) / 1e6})
				at := removeSpaces(study.Q(sleep, study.Time).String())
				out.Add(name+"-"+at, f.ratePerSecond(f.built))
			}
			plot.Curves = append(plot.Curves, curve)
		}
		out.Plots = append(out.Plots, plot)
		return out, nil
	},
}

var prototypeRetries = study.Model{
	Name: "tagfarm-retries",
	Help: "The prototype of TagNet-farm: PCI retries at the last feeding node, with the rules and without them.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readPrototype(p)
		c.input(p)
		broken := c.atRate(p.Quantity("uncontrolled-rate", study.Rate))
		rows := p.Ints("in-a-row", 1, 1000)
		broken.controlRing.forwardAtOnce = true
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		var out study.Outcome
		last := len(c.feeders) - 1
		ok := play(ctx, c, env, &out)
		with := sim.PerSecond(ok.feeders[last].retries, ok.measuredTime())
		out.Add("controlled", study.Q(with, study.Rate))
		out.Add("controlled-busy-echoes", countQuantity(ok.net.Retried()))
		out.Add("controlled-rate", ok.ratePerSecond(ok.feeders[last].transfers))
		curve := study.Curve{Name: "without the rules"}
		for i, row := range rows {
			broken.scheduling.perColumn = row
			bad := play(ctx, broken, study.Env{Seed: env.Seed}, &out)
			without := sim.PerSecond(bad.feeders[last].retries, bad.measuredTime())
			curve.Points = append(curve.Points, [2]float64{float64(row), without / 1e3})
			name := "uncontrolled"
			if i > 0 {
				name = fmt.Sprint(name, "-", row)
			} else {
				out.Add("ratio", study.Q(without/max(1, with), study.Count))
			}
			out.Add(name, study.Q(without, study.Rate))
			out.Add(name+"-busy-echoes", bad.ratePerSecond(bad.net.Retried()))
		}
		out.Plots = []study.Plot{{
			Name:   "retries",
			X:      "successive events to a column",
			Y:      "kHz",
			Curves: []study.Curve{curve},
		}}
		return out, nil
	},
}
