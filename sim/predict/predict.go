package predict

import (
	"context"

	"ringlet/sim"
	"ringlet/sim/builder"
	"ringlet/sim/study"
)

// Prediction is what a configuration on a cluster comes to.
type Prediction struct {
	Nodes      int     `json:"nodes"`
	Rate       float64 `json:"event_rate_hz"`
	Gbps       float64 `json:"built_gbps"`     // of all builder units
	Efficiency float64 `json:"efficiency"`     // share of the ports' rate, of what crosses them
	All        float64 `json:"efficiency_all"` // the same with what stays on its host
	Latency    float64 `json:"latency_p50_s"`  // from a MEP's token to its whole
	P99        float64 `json:"latency_p99_s"`
	Barrier    float64 `json:"barrier_p50_s"`
	Waits      float64 `json:"barrier_share"` // of the readout units' time
	CPU        float64 `json:"processors"`    // share of their time
	Slots      int     `json:"slots"`         // that are used, as memory allows
	Binds      string  `json:"binds"`         // what gives the most when there is twice as much of it
	Gains      []Gain  `json:"gains"`
}

// Gain is how much the rate rises with twice as much of something.
type Gain struct {
	Resource string  `json:"of"`
	Rate     float64 `json:"rate"` // as a share
}

// what there may be twice as much of.
var resources = []struct {
	name  string
	twice func(f *File, c *Setup, costs *Costs)
}{
	{"port", func(f *File, _ *Setup, _ *Costs) { f.Hosts.Port = twice(f.Hosts.Port, 2) }},
	{"processor", func(_ *File, _ *Setup, x *Costs) { x.halve() }},
	{"barrier", func(_ *File, c *Setup, x *Costs) {
		if !c.none() {
			x.Message, x.Flight = x.Message/2, x.Flight/2
		}
	}},
	{"slots", func(_ *File, c *Setup, _ *Costs) { c.Slots, c.LookAhead = 2*c.Slots, 2*c.LookAhead }},
	{"memory", func(f *File, _ *Setup, _ *Costs) { f.Hosts.Memory = twice(f.Hosts.Memory, 2) }},
}

func twice(q *study.Quantity, by float64) *study.Quantity {
	if q == nil {
		return nil
	}
	x := study.Q(by*q.Value, q.Dimension)
	return &x
}

const (
	offered = 0.97 // a rate that is that near to the one that is offered is bound by it
	binding = 0.02 // what gives less when there is twice as much of it binds nothing
)

// Predict says what the file's configuration comes to, with so many folded nodes if nodes is not 0, and plays it again
// with twice as much of everything to say what binds.
func (f *File) Predict(ctx context.Context, costs Costs, nodes int) (*Prediction, error) {
	c := f.Setup
	if nodes > 0 {
		c = c.ofNodes(nodes)
	}
	p, err := predictOne(ctx, f, c, costs)
	if err != nil {
		return nil, err
	}
	p.Binds = "nothing alone"
	if c.Rate > 0 && p.Rate >= offered*c.Rate {
		p.Binds = "rate offered"
		return p, nil
	}
	most := binding
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
		gain := Gain{Resource: r.name, Rate: q.Rate/p.Rate - 1}
		if p.Gains = append(p.Gains, gain); gain.Rate > most {
			most, p.Binds = gain.Rate, r.name
		}
	}
	return p, nil
}

// predictOne plays one run.
func predictOne(ctx context.Context, f *File, c Setup, costs Costs) (*Prediction, error) {
	w, err := newWorld(f, c, costs)
	if err == nil {
		err = w.play(ctx)
	}
	if err != nil {
		return nil, err
	}
	took := (w.To.At - w.From.At).Seconds()
	meps := float64(w.To.Parts-w.From.Parts) / float64(c.RUs)
	bytes, cross := 0.0, 0.0
	for i, part := range w.parts {
		bytes += float64(part)
		for j := range c.BUs {
			if i%w.hosts() != w.rank(j)%w.hosts() {
				cross += float64(part) / float64(c.BUs)
			}
		}
	}
	port := 1 / w.perByte.Seconds() * float64(w.hosts())
	cores := float64(f.Hosts.Cores)
	if !f.Hosts.Shared {
		cores *= float64(w.hosts())
	}
	waits := (w.To.Spent[builder.Waiting] - w.From.Spent[builder.Waiting]).Seconds()
	return &Prediction{
		Nodes:      c.Nodes,
		Rate:       meps * float64(c.Packing) / took,
		Gbps:       meps * bytes * 8 / took / 1e9,
		Efficiency: meps * cross / took / port,
		All:        meps * bytes / took / port,
		Latency:    sim.Time(w.Latency.Quantile(0.5)).Seconds(),
		P99:        sim.Time(w.Latency.Quantile(0.99)).Seconds(),
		Barrier:    sim.Time(w.Barriers.Quantile(0.5)).Seconds(),
		Waits:      waits / took / float64(c.RUs),
		CPU:        w.busy().Seconds() / w.To.At.Seconds() / cores,
		Slots:      w.slots,
	}, nil
}
