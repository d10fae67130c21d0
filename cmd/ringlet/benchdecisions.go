package main

import (
	"context"
	"errors"
	"fmt"
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
	cfg := bench.DecisionsConfig{
		NodesConfig: nodesConfig(c.Carrier, c.Spin),
		Builders:    c.Builders,
		Depth:       c.Depth,
		Timeout:     c.Timeout,
		EventsInRow: c.Together,
		Rate:        c.Rate,
		Duration:    c.Duration,
	}
	if cfg.Depth == 0 {
		cfg.Depth = decision.DefaultMaxPending
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = decision.DefaultTimeout
	}
	r, err := benchNodes(ctx, to, &cfg, &cfg.NodesConfig, c.JSON, bench.Decisions)
	if r == nil {
		return err
	}
	switch {
	case err != nil:
		return err
	case r.Interrupted:
		return errors.New("bench: interrupted")
	case !r.Good():
		return fmt.Errorf("bench: %d events and %d decisions, %d out of order; %d results doubled, %d impossible, %d not "+
			"sent", r.Events, r.Decided, r.OutOfOrder, r.DuplicateResults, r.ImpossibleResults, r.UnsentResults)
	}
	return nil
}
