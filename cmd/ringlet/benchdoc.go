package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"ringlet/filter/decision"
	"ringlet/lab/bench"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/sim/documents/figures"
	"ringlet/sim/documents/model"
)

// The benches of the founding documents: nodes in this process, with the documents' figures beside the measured ones.

type benchPatternsCmd struct {
	Carrier  string         `default:"quic" help:"What carries the writes: quic, quic-go, stream, local."`
	Sizes    []config.Bytes `default:"24,128,512,4KiB" help:"Sizes of a remote write, whole words of 8 bytes."`
	Words    uint64         `default:"0" help:"Words that each sender sends in each measurement; 0 = as many as the duration allows."`
	Duration time.Duration  `default:"2s" help:"Of each measurement."`
	Spin     time.Duration  `default:"50us" help:"How long who waits looks for data before it sleeps. 0 = sleep at once."`
	JSON     bool           `name:"json" help:"Print one JSON object in place of the table."`
}

// Run measures the patterns of NIC-crossbar.
func (c *benchPatternsCmd) Run(ctx context.Context, to streams) error {
	return benchNodes(ctx, to, c.JSON, &bench.PatternsConfig{
		NodesConfig:    nodesConfig(c.Carrier, c.Spin),
		Sizes:          c.Sizes,
		WordsPerSender: c.Words,
		Duration:       c.Duration,
	})
}

// defaultBenchSpin is how long a waiting goroutine polls before it sleeps in benches without --spin.
const defaultBenchSpin = 50 * time.Microsecond

// benchHost is the address of the nodes in this process.
const benchHost = "127.0.0.1"

// nodesConfig is what the benches between nodes of this process have in common.
func nodesConfig(carrier string, spin time.Duration) bench.NodesConfig {
	return bench.NodesConfig{
		Version: version,
		Command: commandLine(),
		Carrier: carrier,
		Spin:    spin,
		Host:    benchHost,
	}
}

// setIdentities makes identities of one CA for the nodes, and removes the segments of killed benches.
func setIdentities(c *bench.NodesConfig) error {
	ca, err := certs.NewCA(certLifetime)
	if err != nil {
		return err
	}
	c.Identity = func(name string) (*certs.Identity, error) {
		return ca.Issue(name, []string{benchHost}, certs.RoleNode, certLifetime)
	}
	removeStaleSegments()
	return nil
}

// benchNodes checks a bench's settings, has its nodes meet, measures, and prints the report.
func benchNodes[R interface {
	comparable
	bench.Result
}](ctx context.Context, to streams, asJSON bool, b bench.Bench[R]) error {
	if err := b.Validate(); err != nil {
		return &exit{exitUsage, err}
	}
	if err := setIdentities(b.Nodes()); err != nil {
		return err
	}
	defer killOnSecondSignal(ctx)()
	live := newLine(to.err, !asJSON)
	b.Nodes().Progress = live.show
	r, err := bench.MeasureNodes(ctx, b)
	live.end()
	var none R
	if r == none {
		return err
	}
	return cmp.Or(errors.Join(printResult(to.out, r, asJSON, r.WriteTable), err), r.Failure())
}

type benchIntegrityCmd struct {
	Carrier  string        `default:"quic" help:"What carries the writes: quic, quic-go, stream, local."`
	Size     config.Bytes  `default:"384" help:"Size of an event, whole words of 8 bytes."`
	Rate     float64       `default:"48700" help:"Events per second; as many as there were in L1-farm."`
	Buffers  int           `default:"2" help:"Buffers that the events take turns in."`
	Duration time.Duration `default:"10s" help:"How long."`
	Spin     time.Duration `default:"50us" help:"How long who waits for the network looks before it sleeps. 0 = sleep at once."`
	JSON     bool          `name:"json" help:"Print one JSON object in place of the table."`
}

// Run lets a receiver look for events in its memory, as L1-farm did.
func (c *benchIntegrityCmd) Run(ctx context.Context, to streams) error {
	return benchNodes(ctx, to, c.JSON, &bench.IntegrityConfig{
		NodesConfig: nodesConfig(c.Carrier, c.Spin),
		Size:        c.Size,
		Rate:        c.Rate,
		Buffers:     c.Buffers,
		Duration:    c.Duration,
	})
}

type benchLatencyCmd struct {
	Carrier    string          `default:"quic" help:"What carries the writes: quic, quic-go, stream."`
	Size       config.Bytes    `default:"128" help:"Size of a write, whole words of 8 bytes, at most 1KiB."`
	Processing []time.Duration `default:"1us,2us,5us" help:"How long the other node works on a write before it answers."`
	Duration   time.Duration   `default:"3s" help:"Of each measurement."`
	Spin       time.Duration   `default:"50us" help:"How long who waits looks for data before it sleeps. 0 = sleep at once."`
	JSON       bool            `name:"json" help:"Print one JSON object in place of the table."`
}

// Run measures latency apart from software, with times that the kernel gives.
func (c *benchLatencyCmd) Run(ctx context.Context, to streams) error {
	return benchNodes(ctx, to, c.JSON, &bench.LatencyConfig{
		NodesConfig: nodesConfig(c.Carrier, c.Spin),
		Size:        c.Size,
		Processing:  c.Processing,
		Duration:    c.Duration,
	})
}

type benchMemoryCmd struct {
	Carrier     string         `default:"quic" help:"What carries the writes: quic, quic-go, stream, local."`
	Sizes       []config.Bytes `default:"8,128,1KiB,8KiB,64KiB,256KiB,1MiB" help:"Sizes of a put and a get."`
	Duration    time.Duration  `default:"300ms" help:"Of each measurement; there are some 27 for each size."`
	Concurrency int            `name:"lanes" default:"8" help:"Transactions side by side, for throughput."`
	MPI         bool           `name:"mpi" default:"true" help:"Measure OpenMPI's one-sided operations as well, where mpicc and mpirun are installed."`
	Spin        time.Duration  `default:"50us" help:"How long who waits for the network looks before it sleeps. 0 = sleep at once."`
	JSON        bool           `name:"json" help:"Print one JSON object in place of the table."`
}

// Run measures remote memory.
func (c *benchMemoryCmd) Run(ctx context.Context, to streams) error {
	return benchNodes(ctx, to, c.JSON, &bench.MemoryConfig{
		NodesConfig: nodesConfig(c.Carrier, c.Spin),
		Sizes:       c.Sizes,
		Duration:    c.Duration,
		Concurrency: c.Concurrency,
		MPI:         c.MPI,
	})
}

type benchTraceCmd struct {
	Carrier string        `default:"quic" help:"What carries the writes: quic, quic-go, stream."`
	Size    config.Bytes  `default:"64" help:"Size of a write, whole words of 8 bytes, at most 1KiB."`
	Writes  int           `default:"20000" help:"Writes, one at a time."`
	Spin    time.Duration `default:"50us" help:"How long who waits looks for data before it sleeps. 0 = sleep at once."`
	JSON    bool          `name:"json" help:"Print one JSON object in place of the tables."`
}

// Run follows writes through their stages, beside those of SCI-bridge.
func (c *benchTraceCmd) Run(ctx context.Context, to streams) error {
	return benchNodes(ctx, to, c.JSON, &bench.TraceConfig{
		NodesConfig:  nodesConfig(c.Carrier, c.Spin),
		Size:         c.Size,
		Writes:       c.Writes,
		AddSimulated: addBridgeTrace,
	})
}

// bridgeStageNames are the names of the stages of SCI-bridge §IV.
var bridgeStageNames = map[string]string{
	"A":   "bridge in",
	"BCG": "PCI FPGA, SCI FPGA, EPU",
	"D":   "BLINK to BLINK",
	"E":   "arrival to flag",
	"F":   "wait for EPU",
	"H":   "PCI master",
	"I":   "bridge out",
	"J":   "host bus",
}

// addBridgeTrace adds the simulated bridge of SCI-bridge: the stages of figure F70, the bound of F72.
func addBridgeTrace(r *bench.TraceReport) error {
	all, err := figures.All()
	if err != nil {
		return err
	}
	studies, err := figures.Pick(all, []string{"F70", "F72"}, false, false)
	if err != nil {
		return err
	}
	at, values := 0.0, map[string]float64{}
	answers := figures.Run(context.Background(), studies, model.All(), 1, func(*figures.Answer) {}) // it takes no time
	for i := range answers {
		if answers[i].Err != nil {
			return answers[i].Err
		}
		for _, one := range answers[i].Outcome.Results {
			values[answers[i].Study.ID+" "+one.Name] = one.Value
		}
	}
	cycle := values["F70 latency"] * 1e6 / values["F70 cycles"] // µs
	for _, result := range answers[0].Outcome.Results {
		name, is := strings.CutPrefix(result.Name, "stage-")
		if !is {
			continue
		}
		at += result.Value * cycle
		r.Simulated = append(r.Simulated, bench.TraceStage{
			Name: name,
			Says: bridgeStageNames[name],
			Took: result.Value * cycle,
			At:   at,
		})
	}
	const packet = 64 // bytes of nwrite64
	r.SimulatedBound = bench.BoundOf(packet, "the 16 cycles of figure F72", packet/values["F72 bound"]*1e6)
	return nil
}

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
