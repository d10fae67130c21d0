package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"ringlet/ecs/partition"
	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/internal/nodename"
	"ringlet/internal/safeopen"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/node/spawn"
	"ringlet/shmem"
)

// runFlags are the flags that run and control share.
type runFlags struct {
	config.Config `embed:""`
	File          configFile `name:"config" placeholder:"FILE" help:"YAML file with the same names as the flags; flags win."`
	SlowData      string     `placeholder:"ADDRESS" help:"Take slow data, lines NAME VALUE, at HOST:PORT or unix:PATH."`
	JSON          bool       `name:"json" help:"Print one JSON object at the end in place of the table."`
	HelpAll       helpAll    `name:"help-all" help:"Show every setting with its whole description, those for debugging too."`
	Verbose       bool       `short:"v" help:"Tell what happens on the way, on standard error."`
}

// configFile is a flag with the name of a YAML file that gives other flags their values. Unlike kong.ConfigFlag, it
// takes only a regular file: opening a pipe could block.
type configFile string

// BeforeResolve is a hook of kong: it adds the file as a resolver.
func (configFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	f, err := safeopen.Open(kong.ExpandPath(string(ctx.FlagValue(trace.Flag).(configFile))))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	values, err := config.Loader(f)
	if err == nil {
		ctx.AddResolver(values)
	}
	return err
}

type runCmd struct {
	runFlags
	Page     string   `placeholder:"HOST:PORT" help:"Serve the page and the API there, on loopback, until interrupted: further runs can be made. The link with its one-time token is printed."`
	Spares   int      `name:"spare-nodes" default:"0" help:"Nodes beyond the members, to substitute for them (--spares, ctl move)."`
	Units    int      `default:"1" help:"Nodes in each process, 1 to 16: n0, n0.1, n0.2 and so on share one."`
	InputDir []string `name:"input-dir" sep:"none" default:"." placeholder:"DIR" help:"With --page: directory below which further runs may read inputs, beside the file of --input; may be given more than once."`
	State    string   `placeholder:"DIR" help:"With --page: keep the records of the runs here, or forget them."`
}

// certLifetime is the life of the certificates that ringlet run makes: longer than any run, since links end with them.
// Their keys are only in the memory of the run's processes.
const certLifetime = 10 * 365 * 24 * time.Hour

// Run builds events on this machine.
func (c *runCmd) Run(ctx context.Context, to streams) error {
	c.OneHost = true
	cfg, err := c.Compose("", nil, nil)
	if err == nil {
		err = cfg.CheckNodes(localNodeFacts(cfg, nil))
	}
	if err != nil {
		return &exit{exitUsage, err}
	}
	if _, err := shmem.Sweep("ringlet-"); err != nil {
		return fmt.Errorf("segments of earlier runs: %w", err)
	}
	defer func() { _, _ = shmem.Sweep("ringlet-") }() // of nodes that were killed
	keys, err := makeKeys(cfg.Roles(), loopback, func(string) string { return loopback },
		spareNames(cfg.Roles(), c.Spares, c.Units)...)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	spawner := &spawn.Processes{ProgramPath: program, Stderr: to.err, WriteKeys: keys.write, Args: c.argsOf(keys)}
	if c.Page != "" {
		given := c.Config
		given.Duration = cfg.Duration // else a run that is not told when to end would end with this process
		if given.Nodes == 0 && given.RUs == 0 && given.BUs == 0 {
			given.Nodes = cfg.Nodes // there are no other processes
		}
		return c.serve(ctx, to, given, keys, spawner)
	}
	// The scheduler in this process makes as much garbage as a node: its messages. With small MEPs the garbage collector
	// would take a tenth of the scheduler's time.
	node.TuneGC()
	if cfg.Nodes >= runtime.NumCPU() {
		// The nodes have the cores: the scheduler, in this process, is cheaper on one P (0.29 against 0.42 µs an event at 0.8
		// MHz, means of 3 runs on a machine shared with others, 2026-11-21).
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	return c.runOnce(ctx, to, cfg, control{
		Config: partition.Config{
			Host:          loopback,
			Identity:      keys.control,
			Spawner:       spawner,
			SpawnedSpares: keys.spares,
		},
		gossipKey: keys.gossip,
	}, nil)
}

// serve runs the run control with --page: it makes the run of the flags, and then serves its users. The given settings
// are not completed, so that dependent defaults are computed again when a later run changes other settings.
func (c *runCmd) serve(
	ctx context.Context, to streams, given config.Config, keys *runKeys, spawner *spawn.Processes,
) (err error) {
	at, err := net.ResolveTCPAddr("tcp", c.Page)
	if err != nil || !at.IP.IsLoopback() {
		return &exit{exitUsage,
			fmt.Errorf("page: %q is no address on loopback: to be reached from elsewhere, use ringlet control", c.Page)}
	}
	inputs, err := safeopen.NewAllowedPaths(c.InputDir, []string{c.InputFile(), c.FilterFile()})
	if err != nil {
		return &exit{exitUsage, fmt.Errorf("input-dir: %w", err)}
	}
	dir := c.State
	if dir == "" {
		if dir, err = os.MkdirTemp("", "ringlet-state-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	s := &service{
		control: control{
			Config: partition.Config{
				Default:       given,
				Identity:      keys.control,
				Host:          loopback,
				AllowedInputs: inputs,
				Spawner:       spawner,
				SpawnedSpares: keys.spares,
				Log:           newLeveledLogger(to.err, slog.LevelWarn, c.Verbose),
			},
			gossipKey:   keys.gossip,
			recordsPath: filepath.Join(dir, records),
			slowAddress: c.SlowData,
		},
		apiAddr:  net.JoinHostPort(loopback, "0"),
		pageAddr: c.Page,
	}
	defer spawner.Stop()
	return s.run(ctx, to, func(ctx context.Context) error { return c.makeFirstRun(ctx, to, s) })
}

// makeFirstRun makes the first run, waits until ctx ends, and stops the run that goes on then.
func (c *runCmd) makeFirstRun(ctx context.Context, to streams, s *service) error {
	if err := s.partition.RunCommands(ctx, "run", "load", "configure", "start"); err != nil {
		fmt.Fprintf(to.err, "ringlet: %v\n", err) // the page shows the advice
	}
	<-ctx.Done()
	defer killOnSecondSignal(ctx)()
	report, err := s.partition.StopAndReport()
	if report == nil {
		return err
	}
	return errors.Join(err, c.printReport(to, report))
}

// printReport prints a report, and returns the error for its exit code.
func (c *runFlags) printReport(to streams, report *nodes.Report) (err error) {
	err = printResult(to.out, report, c.JSON, func(w io.Writer) error { return writeTable(w, report) })
	if err != nil {
		return err
	}
	for _, what := range report.UnreadBuffers() {
		fmt.Fprintf(to.err, "ringlet: %s\n", what)
	}
	if report.VerdictReason != "" && report.ExitStatus() == nodes.ExitGood { // otherwise the error message says it
		fmt.Fprintf(to.err, "ringlet: run %d is %s: %s\n", report.Run, report.VerdictName, report.VerdictReason)
	}
	return exitOfReport(report)
}

// argsOf returns the arguments of each process.
func (c *runCmd) argsOf(keys *runKeys) func(process, join string) []string {
	nodes := 0
	for _, n := range keys.counts {
		nodes += n
	}
	return func(process, join string) []string {
		args := nodeArgs(len(keys.counts), nodes, c.Verbose, process, loopback, join)
		if n := keys.counts[process]; n > 1 {
			args = append(args, "--units", strconv.Itoa(n))
		}
		if slices.Contains(keys.spares, process) {
			args = append(args, "--role", "spare")
		}
		return args
	}
}

// nodeArgs are the arguments of a node process on this machine, given the number of processes and that of nodes.
func nodeArgs(processes, nodes int, verbose bool, name, host, join string) []string {
	args := []string{"node", "--name", name, "--join", join, "--host", host, "--with-parent"}
	// One P per process where processes outnumber cores, so that its goroutines hand over to each other without waking
	// another P.
	if processes > runtime.NumCPU()/2 {
		args = append(args, "--procs", "1")
	}
	// Where every node has a processor, waking up costs more than staying awake for a moment. Staying awake for longer
	// takes from the others: with 50 µs a pair on 2 cores that makes its data needs four fifths of the processor's time
	// that it needs with 1 ms, and is no slower (docs/design/013-hot-path.md).
	if nodes <= runtime.NumCPU() {
		args = append(args, "--spin", "50us")
	}
	if verbose {
		args = append(args, "--verbose")
	}
	return args
}

const loopback = "127.0.0.1"

// runKeys are the short-lived keys of one run on this machine. They are never written to a file.
type runKeys struct {
	control *certs.Identity
	nodes   map[string]*certs.Identity // by process
	counts  map[string]int             // how many nodes each process has
	gossip  []byte
	spares  []string // nodes that are no members
}

// makeKeys makes the keys of a run; host is the address of the control, of returns the address of each process.
func makeKeys(roles []config.Role, host string, of func(name string) string, spares ...string) (*runKeys, error) {
	ca, err := certs.NewCA(certLifetime)
	if err != nil {
		return nil, err
	}
	k := &runKeys{nodes: map[string]*certs.Identity{}, gossip: certs.NewGossipKey(), spares: spares}
	names := slices.Clone(spares)
	for _, r := range roles {
		names = append(names, r.Name)
	}
	k.counts = nodename.CountPerProcess(names)
	for name := range k.counts {
		if k.nodes[name], err = ca.Issue(name, []string{of(name)}, certs.RoleNode, certLifetime); err != nil {
			return nil, err
		}
	}
	k.control, err = ca.Issue(nodes.ControlName, []string{host}, certs.RoleControl, certLifetime)
	return k, err
}

// write writes the keys of a process.
func (k *runKeys) write(name string, stdin io.Writer) error {
	id := k.nodes[name]
	if name == nodes.ControlName {
		id = k.control
	}
	if id == nil {
		return fmt.Errorf("%s has no keys: this run was started with those of %d nodes", name, len(k.nodes))
	}
	return id.WriteBundle(stdin, k.gossip)
}

// maxSpareNodes bounds the spares of ringlet run: each is a process of this machine.
const maxSpareNodes = 64

// Validate is called by kong.
func (c *runCmd) Validate() error {
	if c.Spares < 0 || c.Spares > maxSpareNodes {
		return fmt.Errorf("--spare-nodes: %d is not between 0 and %d", c.Spares, maxSpareNodes)
	}
	if c.Units < 1 || c.Units > nodename.MaxNodes {
		return fmt.Errorf("--units: %d is not between 1 and %d", c.Units, nodename.MaxNodes)
	}
	if c.Units > 1 && c.Members != "" {
		return errors.New("--units: the names in --members say which nodes share a process, such as n0,n0.1,n1: leave " +
			"--units out")
	}
	c.NodesPerProcess = c.Units // members follow from it
	return c.Config.Validate()
}

// spareNames are the names of spares of a run on this machine, with so many nodes in each process: n4 and so on behind
// four members. They have processes of their own, so that the loss of a process takes no spare of it.
func spareNames(members []config.Role, spares, units int) (names []string) {
	taken := map[string]bool{} // processes
	for _, r := range members {
		taken[nodename.ProcessOf(r.Name)] = true
	}
	for i := (len(members) + units - 1) / units * units; len(names) < spares; i++ {
		if name := config.NodeName(i, units); !taken[nodename.ProcessOf(name)] {
			names = append(names, name)
		}
	}
	return names
}

// exitOfReport returns the error for the exit code of a report; nil if that is 0.
func exitOfReport(r *nodes.Report) error {
	switch v := r.ExitStatus(); {
	case v == nodes.ExitGood:
		return nil
	case r.Cause != nil:
		return &exit{int(v), &fault.Error{Fault: *r.Cause}} // the table shows the cause, too, but the JSON object does not
	case v == nodes.ExitBadInput:
		return &exit{int(v), errors.New(r.BadInput)}
	default:
		return &exit{int(v), fmt.Errorf("run %d is %s: %s", r.Run, r.VerdictName, r.VerdictReason)}
	}
}

// exitOfError adds the exit code to an error from before the run.
func exitOfError(err error) error {
	var input *nodes.InputError
	var invalid *config.InvalidError
	switch {
	case errors.As(err, &input):
		return &exit{exitInput, err}
	case errors.As(err, &invalid):
		return &exit{exitUsage, err}
	}
	return &exit{exitError, err}
}

// logger logs warnings; with verbose, all lines.
func logger(w io.Writer, verbose bool) *slog.Logger {
	return newLeveledLogger(w, slog.LevelWarn, verbose)
}

// formatted is the log of a service, at a level and in a format.
func formatted(w io.Writer, level slog.Level, format string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func newLeveledLogger(w io.Writer, level slog.Level, verbose bool) *slog.Logger {
	if verbose {
		level = slog.LevelInfo
	}
	return formatted(w, level, "text")
}

// isTerminal says whether a stream is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
