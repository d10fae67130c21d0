package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ringlet/internal/address"
	"ringlet/lab/doctor"
	"ringlet/node/config"
)

type doctorCmd struct {
	Config string   `placeholder:"FILE" help:"Configuration whose needs to compare this host with."`
	Set    []string `short:"s" sep:"none" placeholder:"KEY=VALUE" help:"Give a setting this value; may be given more than once."`
	Nodes  int      `default:"0" help:"Nodes of the configuration that will be on this host. 0 = all; one where it names its members."`
	Host   string   `default:"127.0.0.1" help:"Address of this host that the services bind."`
	Ports  []string `default:"7946,7946/udp,7947,7980" help:"Ports that have to be free: the control's gossip, API and page by default. Empty = none."`
	Peer   string   `placeholder:"HOST" help:"Another host of the run: find the largest packet that arrives there."`
	Clock  string   `placeholder:"URL" help:"Compare clocks with the host that answers there over HTTP: http://HOST:PORT/livez of the monitor of a node or the control."`
	State  string   `placeholder:"DIR" help:"Directory for the control's records."`
	Certs  string   `placeholder:"DIR" help:"Directory of certificates: say which of them end soon."`
	JSON   bool     `name:"json" help:"Print one JSON object, with all that was found."`
}

// Run examines this host and reports what would hinder a run.
func (c *doctorCmd) Run(ctx context.Context, to streams) error {
	wants, err := c.wants()
	if err != nil {
		return &exit{exitUsage, err}
	}
	if err := address.CheckHost(c.Host); err != nil {
		return &exit{exitUsage, fmt.Errorf("host: %w", err)}
	}
	if slices.Equal(c.Ports, []string{""}) {
		c.Ports = nil
	}
	facts, err := doctor.Read(ctx, doctor.Options{
		Host:     c.Host,
		Ports:    c.Ports,
		Peer:     c.Peer,
		ClockURL: c.Clock,
		State:    c.State,
		Outputs:  wants.Outputs,
		Certs:    c.Certs,
	})
	if err != nil {
		return &exit{exitUsage, err}
	}
	checks := doctor.Judge(facts, wants)
	report := doctor.Report{Worst: doctor.Worst(checks), Checks: checks, Facts: facts}
	err = printResult(to.out, report, c.JSON, report.WriteTable)
	if failed := report.Failed(); err == nil && len(failed) > 0 {
		err = fmt.Errorf("doctor: a run would fail for %s", strings.Join(failed, ", "))
	}
	return err
}

// wants are the needs of the configuration, if one is given.
func (c *doctorCmd) wants() (doctor.Wants, error) {
	var cfg config.Completed
	var err error
	switch {
	case c.Config != "":
		cfg, err = composeConfig(c.Config, c.Set)
	case len(c.Set) > 0:
		cfg, err = config.Compose("", nil, c.Set)
	default:
		return doctor.Wants{}, nil
	}
	if err != nil {
		return doctor.Wants{}, err
	}
	return doctor.WantsOf(cfg, c.Nodes)
}
