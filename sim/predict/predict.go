package predict

import (
	"context"

	"ringlet/sim"
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
	CPU        float64 `json:"processors"` // share of their time
	Slots      int     `json:"slots"`      // that are used, as memory allows
	Binds      string  `json:"binds"`      // what gives the most when there is twice as much of it
	Gains      []Gain  `json:"gains"`
}

// Gain is how much the rate rises with twice as much of something.
type Gain struct {
	Of   string  `json:"of"`
	Rate float64 `json:"rate"` // as a share
}

// one plays one run.
func one(ctx context.Context, f *File, c Setup, costs Costs) (*Prediction, error) {
	w, err := newWorld(f, c, costs)
	if err == nil {
		err = w.play(ctx)
	}
	if err != nil {
		return nil, err
	}
	took := (w.ended - w.begun).Seconds()
	meps := float64(w.count)
	if c.SuspendFor > 0 {
		meps = float64(w.parts) / float64(len(w.rus))
	}
	bytes, cross := 0.0, 0.0
	for _, r := range w.rus {
		bytes += float64(r.part)
		for _, b := range w.bus {
			if b.host != r.host {
				cross += float64(r.part) / float64(len(w.bus))
			}
		}
	}
	port := 1 / w.perByte.Seconds() * float64(len(w.hosts))
	cores := float64(w.f.Hosts.Cores)
	if !w.f.Hosts.Shared {
		cores *= float64(len(w.hosts))
	}
	return &Prediction{
		Nodes:      c.Nodes,
		Rate:       meps * float64(c.Packing) / took,
		Gbps:       meps * bytes * 8 / took / 1e9,
		Efficiency: meps * cross / took / port,
		All:        meps * bytes / took / port,
		Latency:    sim.Time(w.latency.Quantile(0.5)).Seconds(),
		P99:        sim.Time(w.latency.Quantile(0.99)).Seconds(),
		Barrier:    sim.Time(w.barriers.Quantile(0.5)).Seconds(),
		CPU:        (w.busy() - w.work).Seconds() / took / cores,
		Slots:      w.slots,
	}, nil
}
