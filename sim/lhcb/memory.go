package lhcb

import (
	"context"
	"fmt"
	"sync"

	"ringlet/sim/builder"
	"ringlet/sim/study"
)

// memory keeps what runs came to, since several figures are of the same runs: what is played once is the same each
// time.
type memory struct {
	mu       sync.Mutex
	outcomes map[string]*played
}

// played is a run that is played by whoever comes first.
type played struct {
	mu   sync.Mutex
	over bool
	outcome
}

// outcome is what is kept of a run.
type outcome struct {
	from, to builder.Snapshot
	gone     int
	events   uint64
}

// play gives the outcome of a run. One that was interrupted, or that somebody looks into, is
// not kept.
func (m *memory) play(ctx context.Context, c *setup, env study.Env) (outcome, error) {
	if env.Trace != nil || env.Inside != nil {
		return play(ctx, c, env)
	}
	key := fmt.Sprintf("%d %+v", env.Seed, *c)
	m.mu.Lock()
	p := m.outcomes[key]
	if p == nil {
		p = new(played)
		m.outcomes[key] = p
	}
	m.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return p.outcome, nil
	}
	o, err := play(ctx, c, env)
	p.outcome, p.over = o, err == nil && o.to.At > 0
	return o, err
}

// play makes a run.
func play(ctx context.Context, c *setup, env study.Env) (outcome, error) {
	r, err := open(c, env)
	if err != nil {
		return outcome{}, err
	}
	_, err = r.Play(ctx, env.Limits(0))
	return r.outcome(), err
}

func (r *run) outcome() outcome {
	return outcome{
		from:   r.From,
		to:     r.To,
		gone:   r.gone,
		events: r.s.Executed(),
	}
}

// addResults adds the results of a run, and returns its rate.
func (o *outcome) addResults(out *study.Outcome, c *setup, name string) float64 {
	took := (o.to.At - o.from.At).Seconds()
	parts, bytes := float64(o.to.Parts-o.from.Parts), float64(o.to.Placed-o.from.Placed)
	n := float64(c.nodes)
	rate := parts / n * float64(c.packing) / took
	out.Add("rate-"+name, study.Q(rate, study.Rate))
	throughput := study.Q(bytes/took, study.Bandwidth)
	out.Add("throughput-"+name, throughput)
	out.Add("event-"+name, study.Q(bytes/(parts/n*float64(c.packing)), study.Bytes))
	out.Add("phases-"+name, study.Q(parts/n/took, study.Rate))
	out.Add("events-per-phase-"+name, study.Q(rate/(parts/n/took), study.Count))
	for d, what := range builder.ActivityNames {
		spent := (o.to.Spent[d] - o.from.Spent[d]).Seconds()
		out.Add("share-"+what+"-"+name, study.Share(spent/n/took))
	}
	if c.slow > 0 {
		out.Add("discarded-"+name, study.Q(float64(o.gone), study.Count))
	}
	return rate
}
