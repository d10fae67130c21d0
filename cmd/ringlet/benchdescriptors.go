package main

import (
	"context"
	"time"

	"ringlet/lab/bench"
	"ringlet/node/config"
)

type benchDescriptorsCmd struct {
	Carrier     string         `default:"quic" help:"What carries the writes: quic, quic-go, stream, local."`
	Sizes       []config.Bytes `default:"64,128,192,256,512,1KiB" help:"Sizes of a transfer, whole words of 8 bytes."`
	PerTrigger  []string       `default:"1,16,endless" help:"Transfers that a trigger starts, each measured: numbers, or endless."`
	Descriptors int            `default:"64" help:"Descriptors in use, 1 to 64; L1-farm used 52 for 26 nodes."`
	Trigger     string         `default:"software" help:"What triggers: software, rate, or unix:PATH: each datagram to the socket PATH is a trigger."`
	Rate        float64        `default:"1240000" help:"Triggers per second, with --trigger rate; as many as there were in L1-farm."`
	Duration    time.Duration  `default:"1s" help:"Of each measurement."`
	Spin        time.Duration  `default:"50us" help:"How long who waits for the network looks before it sleeps. 0 = sleep at once."`
	JSON        bool           `name:"json" help:"Print one JSON object in place of the table."`
}

// Run measures the modes of the transfer engine of L1-farm.
func (c *benchDescriptorsCmd) Run(ctx context.Context, to streams) error {
	return benchNodes(ctx, to, c.JSON, &bench.DescriptorsConfig{
		NodesConfig: nodesConfig(c.Carrier, c.Spin),
		Sizes:       c.Sizes,
		PerTrigger:  c.PerTrigger,
		Descriptors: c.Descriptors,
		Trigger:     c.Trigger,
		Rate:        c.Rate,
		Duration:    c.Duration,
	})
}
