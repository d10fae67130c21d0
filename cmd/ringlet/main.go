package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"ringlet/internal/timerslack"
)

// version is set by the linker.
var version = "development"

// cli are the commands of ringlet.
type cli struct {
	Run        runCmd        `cmd:"" help:"Build events on this machine: a control and its nodes, as processes."`
	Control    controlCmd    `cmd:"" help:"Take nodes that join over the network through one run."`
	Node       nodeCmd       `cmd:"" help:"Run a node: a readout unit, a builder unit or both, as the control decides."`
	Ctl        ctlCmd        `cmd:"" help:"Operate a partition: give its control commands, watch it, look runs up."`
	Tap        tapCmd        `cmd:"" help:"Look at events while they are built: a sample, as JSON lines, hex, or MDF to a pipe."`
	Read       readCmd       `cmd:"" help:"Read the events that builder units on this host hand out in shared memory."`
	Filter     filterCmd     `cmd:"" help:"Judge recorded events with a second filter, and drain the backlog of a first one."`
	Inspect    inspectCmd    `cmd:"" help:"Look into MDF, MEP and MFP files: summary, dump, verify."`
	Recover    recoverCmd    `cmd:"" help:"Close what killed processes left of recordings."`
	Verify     verifyCmd     `cmd:"" help:"Read recordings back: every MEP, and whether what was reported is there."`
	Merge      mergeCmd      `cmd:"" help:"Make one file in event order of a recorded run."`
	Gen        genCmd        `cmd:"" help:"Write generated events to an MDF, MEP or MFP file."`
	Certs      certsCmd      `cmd:"" help:"Make a development CA, certificates for nodes, and the gossip key."`
	Bench      benchCmd      `cmd:"" help:"Measure this machine, or two: how fast data move beside how fast they could."`
	Mem        memCmd        `cmd:"" help:"Remote memory: export a segment; write, read and lock it from other processes and hosts."`
	Testbed    testbedCmd    `cmd:"" help:"Hosts on a switch with slow ports, made of network namespaces: run in it, disturb it."`
	Config     configCmd     `cmd:"" help:"Look at configurations: check files, show what is in effect."`
	Doctor     doctorCmd     `cmd:"" help:"Say what on this host would hinder a run, and what to do about it."`
	Plan       planCmd       `cmd:"" help:"Check which links of a network a shift overloads, and propose an order of nodes that overloads none."`
	Sim        simCmd        `cmd:"" help:"Simulate clusters that one does not have, and the figures of the founding documents."`
	Predict    predictCmd    `cmd:"" help:"Say what a cluster will do before one has it: rate, latency, and what binds."`
	Completion completionCmd `cmd:"" help:"Print a script that completes what is typed, for a shell."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// Exit codes.
const (
	exitGood  = 0
	exitError = 1 // a fault, or accounts that do not balance
	exitUsage = 2 // flags, configuration
	exitInput = 3 // bad input
)

// An exit ends the program with a code and, if there is one, a sentence.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return fmt.Sprint(e.err) }
func (e *exit) Unwrap() error { return e.err }

// streams are the outputs of a command.
type streams struct{ out, err io.Writer }

// dataCommands are the commands that move data or schedule them.
var dataCommands = []string{"run", "control", "node", "bench", "testbed"}

func main() {
	if len(os.Args) > 1 && slices.Contains(dataCommands, os.Args[1]) {
		timerslack.Reexec()
	}
	os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// run is the program without the process around it.
func run(args []string, to streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitCode := -1 // the code with which help or a completion ended the parse
	parser, err := newParser(grammar(args),
		kong.Description("A distributed event builder for commodity networks."),
		kong.Writers(to.out, to.err), kong.Exit(func(code int) { exitCode = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(to),
	)
	if err != nil {
		return reportExit(to, &exit{exitError, err})
	}
	k, err := parse(parser, args)
	if exitCode >= 0 {
		return exitCode
	}
	if err != nil {
		return reportExit(to, &exit{exitUsage, err})
	}
	return reportExit(to, k.Run())
}

// reportExit prints an error and returns the exit code.
func reportExit(to streams, err error) int {
	var e *exit
	switch {
	case err == nil:
		return exitGood
	case !errors.As(err, &e):
		e = &exit{exitError, err}
	}
	if e.err != nil {
		fmt.Fprintf(to.err, "ringlet: %v\n", e.err)
	}
	return e.code
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(to streams) error {
	_, err := fmt.Fprintln(to.out, "ringlet", version)
	return err
}
