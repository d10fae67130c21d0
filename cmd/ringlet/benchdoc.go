package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringlet/lab/bench"
	"ringlet/node/certs"
	"ringlet/node/config"
)

// The benches of the founding documents: nodes of this process, and the documents' figures beside what they do.

type benchPatternsCmd struct {
	Carrier  string         `default:"quic" help:"What carries the writes: quic, quic-go, stream, local."`
	Sizes    []config.Bytes `default:"24,128,512,4KiB" help:"Sizes of a remote write, whole words of 8 bytes."`
	Words    uint64         `default:"0" help:"Words that each sender sends in each measurement; 0 = as many as the duration allows."`
	Duration time.Duration  `default:"2s" help:"Of each measurement."`
	Spin     time.Duration  `default:"50us" help:"How long who waits looks for data before it sleeps. 0 = sleep at once."`
	JSON     bool           `name:"json" help:"Print one JSON object in place of the table."`
}

// Run measures the patterns of document 004.
func (c *benchPatternsCmd) Run(ctx context.Context, to streams) error {
	live := newLine(to.err, !c.JSON)
	cfg := bench.PatternsConfig{
		Version:  version,
		Command:  commandLine(),
		Carrier:  c.Carrier,
		Sizes:    c.Sizes,
		Words:    c.Words,
		Duration: c.Duration,
		Spin:     c.Spin,
		Host:     benchHost,
		Progress: live.show,
	}
	if err := cfg.Validate(); err != nil {
		return &exit{exitUsage, err}
	}
	var err error
	if cfg.Identity, err = benchIdentities(); err != nil {
		return err
	}
	defer onceInGoodOrder(ctx)()
	sweepBench()
	r, err := bench.Patterns(ctx, cfg)
	live.end()
	if r == nil {
		return err
	}
	err = errors.Join(told(to.out, r, c.JSON, r.WriteTable), err)
	switch {
	case err != nil:
		return err
	case r.Wrong() > 0:
		return fmt.Errorf("bench: %d of %d measurements had errors or losses", r.Wrong(), len(r.Rows))
	case r.Interrupted:
		return errors.New("bench: interrupted")
	}
	return nil
}

// benchHost is where nodes of this process meet.
const benchHost = "127.0.0.1"

// benchIdentities makes identities of one authority.
func benchIdentities() (func(name string) (*certs.Identity, error), error) {
	ca, err := certs.NewCA(life)
	if err != nil {
		return nil, err
	}
	return func(name string) (*certs.Identity, error) {
		return ca.Issue(name, []string{benchHost}, certs.RoleNode, life)
	}, nil
}

type benchIntegrityCmd struct {
	Carrier  string        `default:"quic" help:"What carries the writes: quic, quic-go, stream, local."`
	Size     config.Bytes  `default:"384" help:"Size of an event, whole words of 8 bytes."`
	Rate     float64       `default:"48700" help:"Events per second; as many as there were in document 000."`
	Buffers  int           `default:"2" help:"Buffers that the events take turns in."`
	Duration time.Duration `default:"10s" help:"How long."`
	Spin     time.Duration `default:"50us" help:"How long who waits for the network looks before it sleeps. 0 = sleep at once."`
	JSON     bool          `name:"json" help:"Print one JSON object in place of the table."`
}

// Run lets a receiver look for events in its memory, as document 000 did.
func (c *benchIntegrityCmd) Run(ctx context.Context, to streams) error {
	cfg := bench.IntegrityConfig{
		Version:  version,
		Command:  commandLine(),
		Carrier:  c.Carrier,
		Size:     c.Size,
		Rate:     c.Rate,
		Buffers:  c.Buffers,
		Duration: c.Duration,
		Spin:     c.Spin,
		Host:     benchHost,
	}
	if err := cfg.Validate(); err != nil {
		return &exit{exitUsage, err}
	}
	var err error
	if cfg.Identity, err = benchIdentities(); err != nil {
		return err
	}
	defer onceInGoodOrder(ctx)()
	sweepBench()
	r, err := bench.Integrity(ctx, cfg)
	if r == nil {
		return err
	}
	err = errors.Join(told(to.out, r, c.JSON, r.WriteTable), err)
	switch {
	case err != nil:
		return err
	case !r.Good():
		return fmt.Errorf("bench: %d events lost, %d words damaged", r.Lost, r.Damaged)
	case r.Interrupted:
		return errors.New("bench: interrupted")
	}
	return nil
}
