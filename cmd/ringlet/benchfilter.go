package main

import (
	"context"
	"errors"
	"fmt"

	"ringlet/velo/efficiency"
	"ringlet/velo/vertex"
)

type benchFilterCmd struct {
	Events    uint64  `default:"20000" help:"Events to simulate."`
	Seed      uint64  `default:"1" help:"Seed of the simulation: the same gives the same events."`
	Displaced float64 `default:"0.2" help:"Share of events with B mesons."`
	Detector  string  `default:"velo" placeholder:"FILE" help:"Detector that is simulated and searched: velo, or a YAML file as for ringlet gen."`
	Out       string  `placeholder:"DIR" help:"Write the report there as well: report.html for people, report.json for programs."`
	JSON      bool    `name:"json" help:"Print one JSON object in place of the table."`
}

// Run measures what the vertex filter finds.
func (c *benchFilterCmd) Run(ctx context.Context, to streams) error {
	if c.Events == 0 {
		return &exit{exitUsage, errors.New("events: 0 events show nothing: give at least 1")}
	}
	out := benchOut(c.Out)
	if err := out.prepare(); err != nil {
		return &exit{exitUsage, err}
	}
	simulated, err := loadDetector(c.Detector)
	if err != nil {
		return &exit{exitUsage, err}
	}
	cfg := efficiency.Config{
		Version:  version,
		Command:  commandLine(),
		Events:   c.Events,
		Seed:     c.Seed,
		Detector: simulated.Config(),
	}
	cfg.Detector.Collisions.Displaced = c.Displaced
	r, err := efficiency.Measure(ctx, cfg)
	if lacks := (*vertex.GeometryError)(nil); errors.As(err, &lacks) {
		err = fmt.Errorf("%s: %w", c.Detector, err) // the user's file has to be changed
	}
	if err != nil {
		return &exit{exitUsage, err}
	}
	return errors.Join(printResult(to.out, r, c.JSON, r.Print), out.write(r, r.WritePage))
}
