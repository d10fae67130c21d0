package predict

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/builder"
	"ringlet/sim/study"
)

// Prediction is the predicted performance of a configuration on a cluster.
type Prediction struct {
	Nodes               int     `json:"nodes"`
	Rate                float64 `json:"event_rate_hz"`
	Gbps                float64 `json:"built_gbps"`     // of all builder units
	Efficiency          float64 `json:"efficiency"`     // share of the ports' rate, by bytes that cross them
	EfficiencyWithLocal float64 `json:"efficiency_all"` // the same with bytes that stay on their host
	Latency             float64 `json:"latency_p50_s"`  // from a MEP's token until it is complete
	P99                 float64 `json:"latency_p99_s"`
	BarrierTime         float64 `json:"barrier_p50_s"`
	BarrierShare        float64 `json:"barrier_share"` // of the readout units' time
	ProcessorShare      float64 `json:"processors"`    // share of their time in use
	Slots               int     `json:"slots"`         // in use, as memory allows
	Bottleneck          string  `json:"binds"`         // the resource that gains most when doubled
	Gains               []Gain  `json:"gains"`
}

// Gain is how much the rate rises with twice as much of a resource.
type Gain struct {
	Resource string  `json:"of"`
	RateRise float64 `json:"rate"` // as a share
}

// resources that are doubled to find the bottleneck
var resources = []struct {
	name  string
	twice func(f *File, c *Setup, costs *Costs)
}{
	{"port", func(f *File, _ *Setup, _ *Costs) { f.Hosts.Port = multiplied(f.Hosts.Port, 2) }},
	{"processor", func(_ *File, _ *Setup, x *Costs) { x.halveDataWork() }},
	{"barrier", func(_ *File, c *Setup, x *Costs) {
		if !c.withoutBarrier() {
			x.Message, x.MessageDelay = x.Message/2, x.MessageDelay/2
		}
	}},
	{"slots", func(_ *File, c *Setup, _ *Costs) { c.Slots, c.LookAhead = 2*c.Slots, 2*c.LookAhead }},
	{"memory", func(f *File, _ *Setup, _ *Costs) { f.Hosts.Memory = multiplied(f.Hosts.Memory, 2) }},
}

func multiplied(q *study.Quantity, by float64) *study.Quantity {
	if q == nil {
		return nil
	}
	x := study.Q(by*q.Value, q.Dimension)
	return &x
}

const (
	offeredRateShare = 0.97 // a rate this near to the offered rate is bound by it
	minBindingGain   = 0.02 // a resource that gains less when doubled is no bottleneck
)

// Predict predicts the rate of the file's configuration; if nodes is not 0, with that number of folded nodes in place
// of its own. To find the bottleneck it repeats the run with twice as much of each resource.
func (f *File) Predict(ctx context.Context, costs Costs, nodes int) (*Prediction, error) {
	c := f.Setup
	if nodes > 0 {
		c = c.ofNodes(nodes)
	}
	p, err := predictOne(ctx, f, c, costs)
	if err != nil {
		return nil, err
	}
	p.Bottleneck = "nothing alone"
	if c.Rate > 0 && p.Rate >= offeredRateShare*c.Rate {
		p.Bottleneck = "rate offered"
		return p, nil
	}
	most := minBindingGain
	for _, r := range resources {
		g, d, x := *f, c, costs
		r.twice(&g, &d, &x)
		if g == *f && d == c && x == costs || r.name == "slots" && p.Slots < c.Slots {
			continue
		}
		q, err := predictOne(ctx, &g, d, x)
		if err != nil {
			return nil, err
		}
		gain := Gain{Resource: r.name, RateRise: q.Rate/p.Rate - 1}
		if p.Gains = append(p.Gains, gain); gain.RateRise > most {
			most, p.Bottleneck = gain.RateRise, r.name
		}
	}
	return p, nil
}

// predictOne simulates one run.
func predictOne(ctx context.Context, f *File, c Setup, costs Costs) (*Prediction, error) {
	w, err := newWorld(f, c, costs)
	if err == nil {
		err = w.play(ctx)
	}
	if err != nil {
		return nil, err
	}
	took := (w.CountedTo.At - w.CountedFrom.At).Seconds()
	meps := float64(w.CountedTo.PlacedParts-w.CountedFrom.PlacedParts) / float64(c.RUs)
	bytes, cross := 0.0, 0.0
	for i, part := range w.partBytes {
		bytes += float64(part)
		for j := range c.BUs {
			if i%w.hostCount() != w.rank(j)%w.hostCount() {
				cross += float64(part) / float64(c.BUs)
			}
		}
	}
	port := 1 / w.perByte.Seconds() * float64(w.hostCount())
	cores := float64(f.Hosts.Cores)
	if !f.Hosts.Shared {
		cores *= float64(w.hostCount())
	}
	waits := (w.CountedTo.TimeSpent[builder.InBarrier] - w.CountedFrom.TimeSpent[builder.InBarrier]).Seconds()
	return &Prediction{
		Nodes:               c.Nodes,
		Rate:                meps * float64(c.Packing) / took,
		Gbps:                meps * bytes * 8 / took / 1e9,
		Efficiency:          meps * cross / took / port,
		EfficiencyWithLocal: meps * bytes / took / port,
		Latency:             sim.Time(w.BuildLatency.Quantile(0.5)).Seconds(),
		P99:                 sim.Time(w.BuildLatency.Quantile(0.99)).Seconds(),
		BarrierTime:         sim.Time(w.BarrierTimes.Quantile(0.5)).Seconds(),
		BarrierShare:        waits / took / float64(c.RUs),
		ProcessorShare:      w.totalBusyTime().Seconds() / w.CountedTo.At.Seconds() / cores,
		Slots:               w.slots,
	}, nil
}
