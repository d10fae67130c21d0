package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"

	"ringlet/internal/config"
	"ringlet/internal/testbed"
	"ringlet/shmem"
)

type testbedCmd struct {
	Run testbedRunCmd `cmd:"" help:"Take the processes of a run through it on the hosts of a test bed."`
}

// bedFlags say what test bed is wanted.
type bedFlags struct {
	Hosts int           `default:"0" help:"Hosts. 0 = 4."`
	Rate  testbed.Rate  `placeholder:"RATE" help:"Of each port, in each direction, such as 200Mbit, which is what it is if not given."`
	Queue config.Bytes  `placeholder:"SIZE" help:"Of each port in the switch: what finds it full is dropped. 32KiB if not given."`
	MTU   int           `name:"mtu" default:"0" help:"Size of packets, bytes. 0 = 1500."`
	Ports testbed.Rates `placeholder:"HOST=RATE,..." help:"Ports with another rate."`
	Bed   string        `placeholder:"FILE" help:"YAML file with the same names; flags win."`
}

// spec is what the flags and the file ask for.
func (f *bedFlags) spec() (s testbed.Spec, err error) {
	if f.Bed != "" {
		if s, err = testbed.LoadSpec(f.Bed); err != nil {
			return s, &exit{exitUsage, err}
		}
	}
	s.Override(testbed.Spec{Hosts: f.Hosts, Rate: f.Rate, Queue: f.Queue, MTU: f.MTU, Ports: f.Ports})
	if err := s.Complete(); err != nil {
		return s, &exit{exitUsage, err}
	}
	return s, nil
}

type testbedRunCmd struct {
	bedFlags
	At   []testbed.Disturbance `placeholder:"TIME:WHAT:HOST" help:"Disturb a port in the time of the run: 2s:cut:n3, 1s:slow:n2:50Mbit, 3s:restore:n3."`
	Args []string              `arg:"" optional:"" passthrough:"" help:"After --: flags of ringlet run."`
}

// Run is a control and its nodes on the hosts of a test bed.
func (c *testbedRunCmd) Run(ctx context.Context, to streams) error {
	flags, spec, args, err := c.wanted(to)
	if err != nil {
		return err
	}
	bed, err := testbed.New(spec)
	if err != nil {
		return err
	}
	defer func() { _ = bed.Close() }()
	return conductIn(ctx, to, bed, c.At, flags, args)
}

// wanted checks all that the command line asks for.
func (c *testbedRunCmd) wanted(to streams) (*runFlags, testbed.Spec, []string, error) {
	flags, args, err := c.inner(to)
	if err != nil {
		return nil, testbed.Spec{}, nil, err
	}
	spec, err := c.spec()
	if err != nil {
		return nil, spec, nil, err
	}
	for _, d := range c.At {
		if err := spec.Check(d); err != nil {
			return nil, spec, nil, &exit{exitUsage, fmt.Errorf("at: %w", err)}
		}
	}
	return flags, spec, args, nil
}

// inner reads what stands behind -- as ringlet run would.
func (c *testbedRunCmd) inner(to streams) (*runFlags, []string, error) {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	flags := &runFlags{}
	parser, err := kong.New(flags, kong.Name("ringlet testbed run --"), kong.Writers(to.out, to.err), kong.NoDefaultHelp(), kong.Configuration(config.Loader))
	if err != nil {
		return nil, nil, err
	}
	if _, err := parser.Parse(args); err != nil {
		return nil, nil, &exit{exitUsage, err}
	}
	if err := flags.Complete(); err != nil {
		return nil, nil, &exit{exitUsage, err}
	}
	return flags, args, nil
}

// conductIn takes a run through the bed and prints what came of it.
func conductIn(ctx context.Context, to streams, bed *testbed.Bed, at []testbed.Disturbance, flags *runFlags, args []string) error {
	var names []string
	host := map[string]string{}
	for i, r := range flags.Roles() {
		names = append(names, r.Name)
		host[r.Name] = bed.Address(i % bed.Spec().Hosts)
	}
	keys, err := makeKeys(flags.Roles(), bed.ControlAddress(), func(name string) string { return host[name] })
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := shmem.Sweep("ringlet-"); err != nil {
		return fmt.Errorf("segments of earlier runs: %w", err)
	}
	defer func() { _, _ = shmem.Sweep("ringlet-") }() // those of nodes that were killed
	// The first signal ends the run in good order, the second ends the process; all others die with it.
	defer context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })()
	var printed bytes.Buffer
	s := &testbed.Session{
		Bed: bed, Program: program, Nodes: names, Node: flags.nodeArgs, Keys: keys.write, At: at, Out: to.out, Log: to.err,
		Control: func(host string, port, began int) []string {
			return append([]string{"control", "--host", host, "--port", strconv.Itoa(port), "--with-parent", "--began", strconv.Itoa(began)}, args...)
		},
		Tell: func(what string) { fmt.Fprintln(to.err, "test bed: "+what) },
	}
	if flags.JSON {
		s.Out = &printed
	}
	if flags.Nodes >= runtime.NumCPU() && os.Getenv("GOMAXPROCS") == "" {
		s.Env = []string{"GOMAXPROCS=1"} // as ringlet run does, and why
	}
	code, report, err := s.Run(ctx)
	if report != nil {
		err = errors.Join(err, printBed(to.out, report, flags.JSON, printed.Bytes()))
	}
	switch {
	case err != nil:
		return &exit{max(code, exitError), err}
	case code != exitGood:
		return &exit{code: code} // the control has said why
	}
	return nil
}

// printBed prints what the bed saw: below the table that the control has printed, or within the object that is still to be printed.
func printBed(w io.Writer, r *testbed.Report, asJSON bool, object []byte) error {
	if !asJSON {
		return testbed.WriteTable(w, r)
	}
	object = bytes.TrimSpace(object)
	if !json.Valid(object) || !bytes.HasSuffix(object, []byte("\n}")) {
		_, err := w.Write(object) // there was no run to report on
		return err
	}
	text, err := json.MarshalIndent(r, "  ", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s,\n  \"testbed\": %s\n}\n", bytes.TrimSuffix(object, []byte("\n}")), text)
	return err
}
