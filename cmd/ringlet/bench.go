package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"ringlet/internal/address"
	"ringlet/lab/bench"
	"ringlet/lab/page"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/node/spawn"
	"ringlet/node/watchdog"
	"ringlet/shmem"
)

type benchCmd struct {
	Carriers    benchCarriersCmd    `cmd:"" help:"Measure carriers of remote writes, and what the machine can do at most, in one run."`
	Sweep       benchSweepCmd       `cmd:"" help:"Run many configurations, and make a report of them."`
	Patterns    benchPatternsCmd    `cmd:"" help:"Write in the patterns of NIC-crossbar (docs/sources.md), and check each word at its receiver."`
	Integrity   benchIntegrityCmd   `cmd:"" help:"Write events into a memory, and look for them there, as L1-farm did."`
	Descriptors benchDescriptorsCmd `cmd:"" help:"Write what triggers ask for, descriptor by descriptor, as the engine of L1-farm did."`
	Decisions   benchDecisionsCmd   `cmd:"" help:"Decide by stored results, in order, as the decision unit of L1-farm did."`
	Trace       benchTraceCmd       `cmd:"" help:"Follow remote writes stage by stage, beside the bridge of SCI-bridge."`
	Latency     benchLatencyCmd     `cmd:"" help:"Send writes there and back, and tell what of the time is the network's and the software's."`
	Memory      benchMemoryCmd      `cmd:"" help:"Put, get, add and notify in remote memory, beside UDP, TCP, OpenMPI and copies of the same run."`
	Filter      benchFilterCmd      `cmd:"" help:"Measure what the vertex filter finds in simulated events, and how long it takes."`
	Serve       benchServeCmd       `cmd:"" help:"Run the far end of ringlet bench carriers --peer, for one session after the other."`
	Far         benchFarCmd         `cmd:"" hidden:"" help:"Be the far end of a bench on this machine."`
}

type benchCarriersCmd struct {
	Carriers   []string       `default:"quic,quic-go,stream,local" help:"What to measure: quic, quic-go, stream, local."`
	Sizes      []config.Bytes `default:"128,1KiB,8KiB,64KiB,256KiB,1MiB,4MiB" help:"Sizes of a remote write."`
	Duration   time.Duration  `default:"500ms" help:"Of each measurement of throughput."`
	Rounds     int            `default:"6" help:"Rounds; what is reported is their median, and the spread. Six are the least that give the median an interval of 95 %."`
	Spin       time.Duration  `default:"1ms" help:"How long processes look for data before sleeping, carriers and references alike. 0 = sleep at once."`
	Procs      int            `default:"0" help:"Processors that each of the two processes uses at a time. 0 = one where there are fewer than four, else all."`
	Memory     config.Bytes   `default:"256MiB" help:"Memory that is written into."`
	WithMPI    bool           `name:"with-mpi" help:"Measure OpenMPI as well, where mpicc and mpirun are installed."`
	WithIPerf3 bool           `name:"with-iperf3" help:"Measure iperf3 as well, where it is installed."`
	Runs       bool           `help:"Spawn whole runs as well (ringlet run), for the targets that are about them."`
	Peer       string         `placeholder:"HOST:PORT" help:"Measure between this machine and the one where ringlet bench serve listens."`
	Certs      string         `type:"existingdir" placeholder:"DIR" help:"With --peer: directory with this side's certificate and the CA's."`
	Name       string         `default:"n0" help:"With --peer: this side's name, as in its certificate."`
	PeerName   string         `default:"n1" help:"With --peer: the other side's name."`
	Host       string         `default:"127.0.0.1" help:"Address to bind; with --peer, one that the other side reaches."`
	Out        string         `placeholder:"DIR" help:"Write the report there as well: report.html for people, report.json for programs."`
	JSON       bool           `name:"json" help:"Print one JSON object in place of the tables."`
}

// Run measures.
func (c *benchCarriersCmd) Run(ctx context.Context, to streams) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if c.Procs == 0 {
		c.Procs = bench.DefaultProcs(2)
		if c.Peer != "" {
			c.Procs = runtime.NumCPU()
		}
	}
	cfg := c.config(program)
	if err := cfg.Validate(); err != nil {
		return &exit{exitUsage, err}
	}
	if err := benchOut(c.Out).prepare(); err != nil { // before the measurement, which takes long
		return &exit{exitUsage, err}
	}
	defer killOnSecondSignal(ctx)()
	if err := c.connectFar(ctx, to, &cfg); err != nil {
		return &exit{exitUsage, err}
	}
	removeStaleSegments()
	defer removeStaleSegments()
	tuneProcess(c.Procs)
	live := newLine(to.err, !c.JSON)
	cfg.Progress = live.show
	report, err := bench.Run(ctx, cfg)
	live.end()
	if report == nil {
		return err
	}
	return cmp.Or(errors.Join(printResult(to.out, report, c.JSON, report.WriteTable),
		benchOut(c.Out).write(report, report.WritePage), err), report.Failure())
}

// Files of a report.
const (
	benchJSON = "report.json"
	benchHTML = "report.html"
)

// config is the bench's configuration by the flags.
func (c *benchCarriersCmd) config(program string) bench.Config {
	return bench.Config{
		Version:  version,
		Command:  commandLine(),
		Carriers: c.Carriers,
		Sizes:    c.Sizes,
		Duration: c.Duration,
		Rounds:   c.Rounds,
		Spin:     c.Spin,
		Procs:    c.Procs,
		Memory:   c.Memory,
		MPI:      c.WithMPI,
		IPerf:    c.WithIPerf3,
		FullRuns: c.Runs,
		Program:  program,
		Host:     c.Host,
		PeerAddr: c.Peer,
		FarName:  c.PeerName,
	}
}

// benchOut is the directory of --out; empty: none.
type benchOut string

// prepare makes the directory. It refuses one that has a report.
func (dir benchOut) prepare() error {
	if dir == "" {
		return nil
	}
	for _, name := range [...]string{benchJSON, benchHTML} {
		path := filepath.Join(string(dir), name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already: give another --out", path)
		}
	}
	return os.MkdirAll(string(dir), 0o777)
}

// write writes a report into the directory, if there is one.
func (dir benchOut) write(r any, writePage func(io.Writer) error) error {
	if dir == "" {
		return nil
	}
	var text, html bytes.Buffer
	if err := errors.Join(printJSON(&text, r), writePage(&html)); err != nil {
		return err
	}
	return errors.Join(page.Save(filepath.Join(string(dir), benchJSON), text.Bytes()),
		page.Save(filepath.Join(string(dir), benchHTML), html.Bytes()))
}

// commandLine is the command line of this process, quoted for a shell.
func commandLine() string {
	words := []string{"ringlet"}
	for _, word := range os.Args[1:] {
		words = append(words, shellQuote(word))
	}
	return strings.Join(words, " ")
}

// removeStaleSegments removes segments of benches that were killed. The next bench tries again if it fails.
func removeStaleSegments() { _, _ = shmem.Sweep(bench.SegmentPrefix) }

// tuneProcess sets this process up as a node is.
func tuneProcess(procs int) {
	runtime.GOMAXPROCS(procs)
	if os.Getenv("GOGC") == "" {
		node.TuneGC()
	}
}

// connectFar sets how the bench starts or dials its far process.
func (c *benchCarriersCmd) connectFar(ctx context.Context, to streams, cfg *bench.Config) (err error) {
	if c.Peer != "" {
		if c.Certs == "" {
			return &bench.UsageError{Setting: "certs",
				Why: "two machines need keys to know each other by: ringlet certs makes them"}
		}
		if cfg.Identity, err = certs.Load(c.Certs, c.Name); err != nil {
			return err
		}
		cfg.StartFar = func() (net.Conn, func(), error) {
			conn, err := bench.Dial(ctx, cfg.Identity, c.PeerName, c.Peer)
			return conn, func() {}, err
		}
		return nil
	}
	ca, err := certs.NewCA(certLifetime)
	if err != nil {
		return err
	}
	if cfg.Identity, err = ca.Issue(benchNear, []string{c.Host}, certs.RoleNode, certLifetime); err != nil {
		return err
	}
	cfg.FarName = benchFar
	far, err := ca.Issue(benchFar, []string{c.Host}, certs.RoleNode, certLifetime)
	cfg.StartFar = func() (net.Conn, func(), error) { return spawnFar(ctx, to, cfg, far) }
	return err
}

// Names of the two processes on one machine.
const benchNear, benchFar = "near", "far"

// spawnFar starts this program as the far end, and waits until it has proved its name.
func spawnFar(ctx context.Context, to streams, cfg *bench.Config, id *certs.Identity) (net.Conn, func(), error) {
	l, err := address.ListenTCP(net.JoinHostPort(cfg.Host, "0"))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	far := &spawn.Processes{
		ProgramPath: cfg.Program,
		Stderr:      to.err,
		WriteKeys:   func(_ string, stdin io.Writer) error { return id.WriteBundle(stdin, certs.NewGossipKey()) },
		Args:        func(_, join string) []string { return []string{"bench", "far", "--join", join, "--host", cfg.Host} },
	}
	ended := func(_, how string) { cancel(fmt.Errorf("bench: the far process %s", how)) }
	if err := far.Spawn([]string{benchFar}, l.Addr().String(), ended); err != nil {
		return nil, nil, err
	}
	conn, name, err := bench.Accept(ctx, l, cfg.Identity, nil)
	switch {
	case err != nil:
		far.Stop()
		return nil, nil, errors.Join(context.Cause(ctx), err)
	case name != benchFar:
		far.Stop()
		return nil, nil, errors.Join(fmt.Errorf("bench: %q came in place of the far process", name), conn.Close())
	}
	return conn, far.Stop, nil
}

type benchFarCmd struct {
	Join string `required:"" hidden:"" help:"Where the near process listens."`
	Host string `default:"127.0.0.1" hidden:"" help:"Address to bind."`
}

// Run serves as the far end until the near process is gone.
func (c *benchFarCmd) Run(ctx context.Context, to streams) error {
	watchdog.Start(watchdog.Config{Out: to.err})
	id, _, err := certs.ReadBundle(os.Stdin)
	if err != nil {
		return &exit{exitUsage, err}
	}
	ctx, end := whileParentLives(ctx)
	defer end()
	if os.Getenv("GOGC") == "" {
		node.TuneGC()
	}
	conn, err := bench.Dial(ctx, id, benchNear, c.Join)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	err = bench.Serve(ctx, conn, bench.FarConfig{Identity: id, Host: c.Host, Near: benchNear})
	removeStaleSegments() // the near process may have been killed
	return err
}

type benchServeCmd struct {
	Certs string `required:"" type:"existingdir" placeholder:"DIR" help:"Directory with this side's certificate and the CA's: ringlet certs makes it."`
	Name  string `default:"n1" help:"This side's name, as in its certificate."`
	Host  string `required:"" help:"Address to bind, which the other side reaches."`
	Port  int    `default:"7950" help:"TCP port where the other side asks. 0 = any."`
}

// Run serves one session after the other until a signal comes.
func (c *benchServeCmd) Run(ctx context.Context, to streams) error {
	id, err := certs.Load(c.Certs, c.Name)
	if err != nil {
		return &exit{exitUsage, err}
	}
	l, err := address.ListenTCP(net.JoinHostPort(c.Host, fmt.Sprint(c.Port)))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	removeStaleSegments()
	tuneProcess(runtime.NumCPU())
	fmt.Fprintf(to.err, "listening at %s\n", l.Addr())
	for {
		conn, near, err := bench.Accept(ctx, l, id, func(err error) { fmt.Fprintln(to.err, err) })
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		fmt.Fprintf(to.err, "%s has come from %s\n", near, conn.RemoteAddr())
		err = bench.Serve(ctx, conn, bench.FarConfig{Identity: id, Host: c.Host, Near: near})
		_ = conn.Close() // fails if the other side is gone
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(to.err, "the session of %s ended: %v\n", near, err)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}
