package lhcb

import (
	"context"
	"fmt"
	"sync"

	"ringlet/sim/builder"
	"ringlet/sim/study"
)

// outcomeCache keeps the outcomes of runs: several figures use the same runs, and equal runs give equal outcomes.
type outcomeCache struct {
	mu       sync.Mutex
	outcomes map[string]*cachedOutcome
}

// cachedOutcome is a run that the first figure to need it makes.
type cachedOutcome struct {
	mu   sync.Mutex
	done bool
	outcome
}

// outcome is the part of a run's results that is kept.
type outcome struct {
	countedFrom, countedTo builder.Snapshot
	discardedMEPs          int
	events                 uint64
}

// play returns the outcome of a run. It does not keep the outcome of a run that was interrupted or is observed.
func (m *outcomeCache) play(ctx context.Context, c *setup, env study.Env) (outcome, error) {
	if env.Trace != nil || env.Details != nil {
		return play(ctx, c, env)
	}
	key := fmt.Sprintf("%d %+v", env.Seed, *c)
	m.mu.Lock()
	p := m.outcomes[key]
	if p == nil {
		p = new(cachedOutcome)
		m.outcomes[key] = p
	}
	m.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return p.outcome, nil
	}
	o, err := play(ctx, c, env)
	p.outcome, p.done = o, err == nil && o.countedTo.At > 0
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
		countedFrom:   r.CountedFrom,
		countedTo:     r.CountedTo,
		discardedMEPs: r.discardedMEPs,
		events:        r.s.Executed(),
	}
}

// addResults adds the results of a run, and returns its rate.
func (o *outcome) addResults(out *study.Outcome, c *setup, name string) float64 {
	took := (o.countedTo.At - o.countedFrom.At).Seconds()
	parts, bytes := float64(o.countedTo.PlacedParts-o.countedFrom.PlacedParts),
		float64(o.countedTo.PlacedBytes-o.countedFrom.PlacedBytes)
	n := float64(c.nodes)
	rate := parts / n * float64(c.packing) / took
	out.Add("rate-"+name, study.Q(rate, study.Rate))
	throughput := study.Q(bytes/took, study.Bandwidth)
	out.Add("throughput-"+name, throughput)
	out.Add("event-"+name, study.Q(bytes/(parts/n*float64(c.packing)), study.Bytes))
	out.Add("phases-"+name, study.Q(parts/n/took, study.Rate))
	out.Add("events-per-phase-"+name, study.Q(rate/(parts/n/took), study.Count))
	for d, what := range builder.ActivityNames {
		spent := (o.countedTo.TimeSpent[d] - o.countedFrom.TimeSpent[d]).Seconds()
		out.Add("share-"+what+"-"+name, study.Share(spent/n/took))
	}
	if c.slowBUs > 0 {
		out.Add("discarded-"+name, study.Q(float64(o.discardedMEPs), study.Count))
	}
	return rate
}
