package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"ringlet/lab/bench"
	"ringlet/lab/sweep"
	"ringlet/lab/testbed"
	"ringlet/lab/tool"
	"ringlet/lab/trial"
	"ringlet/shmem"
)

type benchSweepCmd struct {
	File   string `arg:"" help:"The sweep file: which settings to vary."`
	Out    string `placeholder:"DIR" help:"Directory of the results. Default sweep-NAME, with the name that the file gives."`
	Resume bool   `help:"Continue what is in the directory: runs without a result are run, all others kept. Refused if the file was changed."`
	Rounds int    `default:"0" help:"How often each combination is run. 0 = as the file says."`
}

// referenceTime is how long a reference measurement lasts: long enough for a slow connection's window to open.
const referenceTime = time.Second

// runEndTimeout bounds how long an interrupted run may take to end in good order, with its processes and segments: 32
// nodes on 2 cores drain for seconds.
const runEndTimeout = 20 * time.Second

// Run runs the sweep.
func (c *benchSweepCmd) Run(ctx context.Context, to streams) error {
	s, err := c.load()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	defer killOnSecondSignal(ctx)()
	dir := c.Out
	if dir == "" {
		dir = "sweep-" + strings.ReplaceAll(s.Name, " ", "-")
	}
	if len(s.References) > 0 {
		tuneProcess(bench.DefaultProcs(2)) // this process is the near end of reference measurements
	}
	bar := &sweepBar{newLine(to.err, true)}
	sum, err := sweep.Run(ctx, s, sweep.Config{
		Dir:               dir,
		Resume:            c.Resume,
		Rounds:            c.Rounds,
		Version:           version,
		Command:           "ringlet bench sweep " + shellQuote(c.File),
		Progress:          bar.show,
		MeasureReferences: measureReference,
		MeasureNamed: func(ctx context.Context, name string) (trial.Figures, error) {
			return measureRaw(ctx, to, program, name)
		},
		Notify: func(what string) { fmt.Fprintln(to.err, "bench: "+what) },
		Spawn:  func(ctx context.Context, t sweep.Turn) ([]byte, error) { return runTurn(ctx, program, t) },
	})
	bar.end()
	var unusable *sweep.ResultsError
	switch {
	case errors.As(err, &unusable):
		return &exit{exitUsage, err}
	case err != nil:
		return err
	}
	return c.printSummary(to, sum, dir)
}

// load reads the sweep, and refuses one that cannot be run here.
func (c *benchSweepCmd) load() (*sweep.Sweep, error) {
	if c.Rounds < 0 {
		return nil, &exit{exitUsage, fmt.Errorf("rounds: %d is negative", c.Rounds)}
	}
	s, err := sweep.Load(c.File, checkCommandLine)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	for _, name := range s.References {
		if err := bench.CheckName(name); err != nil {
			return nil, &exit{exitUsage, fmt.Errorf("%s: %w", c.File, err)}
		}
	}
	if slices.ContainsFunc(s.Cells, func(c sweep.Cell) bool { return c.Bed.Kind == sweep.Testbed }) {
		if err := testbed.CheckPossible(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// runTurn runs the program for one turn of a sweep.
func runTurn(ctx context.Context, program string, t sweep.Turn) ([]byte, error) {
	out, err := tool.Command{Program: program, Args: t.Cell.Args, EndTimeout: runEndTimeout}.Run(ctx)
	if ctx.Err() != nil {
		_, _ = shmem.Sweep("ringlet-") // of a run that had to be killed
	}
	return out, err
}

// printSummary prints the results of the sweep, and returns the error for the exit code.
func (c *benchSweepCmd) printSummary(to streams, sum *sweep.Summary, dir string) error {
	fmt.Fprintf(to.out, "%d of %d runs have a result, %d failed: %s\n", sum.GoodRuns, sum.TotalRuns, sum.FailedRuns,
		filepath.Join(dir, "report.html"))
	if err := trial.Table(to.out, "Bounds, judged by medians", trial.VerdictHead,
		trial.VerdictRows(sum.Verdicts())); err != nil {
		return err
	}
	switch {
	case sum.Interrupted:
		again := []string{"ringlet bench sweep", shellQuote(c.File), "--out", shellQuote(dir), "--resume"}
		if c.Rounds > 0 {
			again = append(again, "--rounds", strconv.Itoa(c.Rounds))
		}
		return fmt.Errorf("bench: the sweep was interrupted; %s continues it", strings.Join(again, " "))
	case sum.FailedRuns > 0:
		return fmt.Errorf("bench: %d runs of the sweep failed; the file says why", sum.FailedRuns)
	}
	return nil
}

// measureRaw makes one measurement of this machine by the named bench: that of ringlet bench carriers, or another.
func measureRaw(ctx context.Context, to streams, program, name string) (trial.Figures, error) {
	if bench.IsBetweenNodes(name) {
		between := nodesConfig("quic", defaultBenchSpin)
		if err := setIdentities(&between); err != nil {
			return nil, err
		}
		defer removeStaleSegments()
		return bench.MeasureBetween(ctx, between, name)
	}
	cfg := bench.Default()
	cfg.Version, cfg.Program = version, program
	if err := (&benchCarriersCmd{Host: cfg.Host}).connectFar(ctx, to, &cfg); err != nil {
		return nil, err
	}
	defer removeStaleSegments()
	return bench.Measure(ctx, cfg, name)
}

// plainWord matches words that a shell takes without quotation marks.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./+:=,@%-]+$`)

// shellQuote quotes a word for a shell.
func shellQuote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// checkCommandLine checks a command line with this program's parser, and returns the test bed in which it would run.
func checkCommandLine(args []string) (sweep.BedSummary, error) {
	in, spec, err := parseTestbedRun(args)
	if err != nil || in == nil {
		return sweep.BedSummary{}, err
	}
	return sweep.BedSummary{Hosts: spec.Hosts, PortBps: float64(spec.SlowestRate())}, nil
}

// parseTestbedRun parses a command line as this program does. in is nil if the command uses no test bed. If the command
// names a test bed that is up, spec describes that one.
func parseTestbedRun(args []string) (in *testbedRunCmd, spec testbed.Spec, err error) {
	var c cli
	parser, err := newParser(&c, kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		return nil, spec, err
	}
	k, err := parse(parser, args)
	if err != nil || !strings.HasPrefix(k.Command(), "testbed run") {
		return nil, spec, err
	}
	in = &c.Testbed.Run
	_, spec, err = in.checkArgs(streams{io.Discard, io.Discard})
	if err != nil || in.Name == "" {
		return in, spec, err
	}
	bed, err := in.openBed(spec)
	var none *testbed.NotUpError
	switch {
	case errors.As(err, &none):
		return in, spec, fmt.Errorf("name: %w", err)
	case err != nil:
		return in, spec, err
	}
	return in, bed.Spec(), bed.Close()
}

// measureReference measures TCP on the network of the runs: through the ports of their test bed, or on loopback. Runs
// on other machines have no reference, since it cannot be measured from here.
func measureReference(ctx context.Context, c *sweep.Cell) ([]sweep.ReferenceGoodput, error) {
	switch c.Bed.Kind {
	case sweep.Control:
		return nil, nil
	case sweep.Testbed:
		return portReference(ctx, c)
	}
	gbps, err := bench.TCP(ctx, loopback, referenceTime)
	return []sweep.ReferenceGoodput{{Name: "TCP, one connection, loopback", Gbps: gbps}}, err
}

// portReference measures TCP in a test bed as a cell's runs have it: through one port alone, and through all ports at
// the same time, which shows whether the processors can drive all ports.
func portReference(ctx context.Context, c *sweep.Cell) (_ []sweep.ReferenceGoodput, err error) {
	in, spec, err := parseTestbedRun(c.Args)
	if err != nil {
		return nil, err
	}
	bed, err := in.openBed(spec)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	if spec.Hosts < 2 {
		return nil, nil // no second host to send to
	}
	name := fmt.Sprintf("%d hosts of %v", spec.Hosts, spec.Rate)
	one, err := bed.Goodput(ctx, referenceTime, testbed.Flow{From: 0, To: 1})
	if err != nil {
		return nil, err
	}
	all, err := bed.Goodput(ctx, referenceTime, bed.ShiftFlows(1)...)
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return []sweep.ReferenceGoodput{
		{Name: "TCP through one port, " + name, Gbps: one[0] / 1e9},
		{Name: "TCP through all ports at once, the mean of a port, " + name, Gbps: sum / float64(len(all)) / 1e9},
	}, nil
}

// sweepBar shows the progress of a sweep: a status line on a terminal, elsewhere a line for each run.
type sweepBar struct{ ttyLine }

const barWidth = 30

func (b *sweepBar) show(p sweep.Progress) {
	if p.LastFailure != "" {
		b.end()
		fmt.Fprintf(b.w, "FAILED: %s\n", p.LastFailure)
	}
	remaining := p.Remaining.Round(time.Second)
	if !b.enabled && p.UnderWay != "" {
		fmt.Fprintf(b.w, "%d of %d, %v left: %s\n", p.Done+1, p.Total, remaining, p.UnderWay)
	}
	full := barWidth * p.Done / max(p.Total, 1)
	b.print("%s%s %3d %%  %d of %d, %v left  %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full),
		100*p.Done/max(p.Total, 1), p.Done, p.Total, remaining, p.UnderWay)
}
