package main

import (
	"cmp"
	"context"
	"time"

	"ringlet/filter/decision"
	"ringlet/lab/bench"
)

type benchDecisionsCmd struct {
	Carrier  string        `default:"quic" help:"What carries the results: quic, quic-go, stream, local."`
	Builders int           `default:"4" help:"Builder units, which have verdicts at once."`
	Depth    int           `default:"0" help:"Events that may wait for their decision, and so be under way; 0 = 1820, as in L1-farm."`
	Timeout  time.Duration `default:"0s" help:"When an event is decided without a result; 0 = 1.6ms, as in L1-farm."`
	Together int           `default:"16" help:"Events in a row that one builder unit has."`
	Rate     float64       `default:"0" help:"Events per second; 0 = as fast as it goes."`
	Duration time.Duration `default:"10s" help:"How long."`
	Spin     time.Duration `default:"50us" help:"How long who waits for the network looks before it sleeps. 0 = sleep at once."`
	JSON     bool          `name:"json" help:"Print one JSON object in place of the table."`
}

// Run measures decisions from stored results.
func (c *benchDecisionsCmd) Run(ctx context.Context, to streams) error {
	return benchNodes(ctx, to, c.JSON, &bench.DecisionsConfig{
		NodesConfig: nodesConfig(c.Carrier, c.Spin),
		Builders:    c.Builders,
		Depth:       cmp.Or(c.Depth, decision.DefaultMaxPending),
		Timeout:     cmp.Or(c.Timeout, decision.DefaultTimeout),
		EventsInRow: c.Together,
		Rate:        c.Rate,
		Duration:    c.Duration,
	})
}
