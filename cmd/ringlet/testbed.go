package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"

	"ringlet/lab/testbed"
	"ringlet/node/config"
	"ringlet/shmem"
)

type testbedCmd struct {
	Up   testbedUpCmd   `cmd:"" help:"Make a test bed and keep it for other commands, until ringlet testbed down or a signal."`
	Run  testbedRunCmd  `cmd:"" help:"Take nodes and a control through one run on the hosts of a test bed."`
	Port testbedPortCmd `cmd:"" help:"Cut, slow or restore the port of a host of the test bed that is up."`
	Exec testbedExecCmd `cmd:"" help:"Run another program on a host of the test bed that is up."`
	Down testbedDownCmd `cmd:"" help:"End the test bed that is up."`
}

// bedFlags describe a test bed.
type bedFlags struct {
	Hosts  int           `default:"0" help:"Hosts. 0 = 4."`
	Rate   testbed.Rate  `placeholder:"RATE" help:"Of each port, in each direction, such as 200Mbit, which is what it is if not given."`
	Queue  config.Bytes  `placeholder:"SIZE" help:"Of each port in the switch: what finds it full is dropped. 32KiB if not given."`
	Burst  config.Bytes  `placeholder:"SIZE" help:"What an idle host may send at once. 68KiB, a sender's batch, or 2.75 ms of the rate if that is less, if not given; less costs processor time."`
	MTU    int           `name:"mtu" default:"0" help:"Size of packets, bytes. 0 = 1500."`
	Ports  testbed.Rates `placeholder:"HOST=RATE,..." help:"Ports with another rate."`
	Leaves int           `default:"0" help:"Switches of a fat tree that hosts are plugged into, one after the other. 0 = one switch for all."`
	Spines int           `default:"0" help:"Switches that join the leaves, each by a link with a port's rate and queue."`
	Bed    string        `placeholder:"FILE" help:"YAML file with the same names; flags win."`
}

// spec is the test bed of the flags and the file.
func (f *bedFlags) spec() (s testbed.Spec, err error) {
	if f.Bed != "" {
		if s, err = testbed.LoadSpec(f.Bed); err != nil {
			return s, usage(err)
		}
	}
	s.Override(testbed.Spec{
		Hosts:  f.Hosts,
		Rate:   f.Rate,
		Queue:  f.Queue,
		Burst:  f.Burst,
		MTU:    f.MTU,
		Ports:  f.Ports,
		Leaves: f.Leaves,
		Spines: f.Spines,
	})
	if err := s.Complete(); err != nil {
		return s, usage(err)
	}
	return s, nil
}

// isSet says whether any of the flags is given.
func (f *bedFlags) isSet() bool {
	return f.Hosts != 0 || f.Rate != 0 || f.Queue != 0 || f.Burst != 0 || f.MTU != 0 || f.Ports != nil || f.Bed != "" ||
		f.Leaves != 0 || f.Spines != 0
}

type testbedUpCmd struct {
	bedFlags
	Name string `default:"testbed" help:"Name by which others find it."`
}

// Run makes a test bed and keeps it until a signal comes.
func (c *testbedUpCmd) Run(ctx context.Context, to streams) error {
	spec, err := c.spec()
	if err == nil {
		err = testbed.CheckName(c.Name)
	}
	if err != nil {
		return usage(err)
	}
	holder, err := testbed.ClaimName(c.Name)
	if err != nil {
		return err
	}
	defer func() { _ = holder.Close() }()
	bed, err := testbed.New(spec)
	if err != nil {
		return err
	}
	defer func() { _ = bed.Close() }()
	fmt.Fprintf(to.out, "test bed %q: %d hosts n0 to n%d, %s to %s; control at %s; ports of %v, queues of %v, MTU %d\n",
		c.Name, spec.Hosts,
		spec.Hosts-1, bed.Address(0), bed.Address(spec.Hosts-1), bed.ControlAddress(), spec.Rate, spec.Queue, spec.MTU)
	return holder.Hold(ctx, bed, func(what string) { fmt.Fprintln(to.err, "test bed: "+what) })
}

type testbedPortCmd struct {
	Host string `arg:"" help:"The host, such as n3."`
	What string `arg:"" enum:"cut,slow,restore" help:"What is done to its port: ${enum}."`
	Rate string `arg:"" optional:"" help:"With slow: the rate, such as 50Mbit."`
	Name string `default:"testbed" help:"Name of the test bed."`
}

// Run disturbs a port.
func (c *testbedPortCmd) Run() error {
	d, err := testbed.NewDisturbance(0, c.What, c.Host, c.Rate)
	if err != nil {
		return usage(err)
	}
	bed, err := testbed.Attach(c.Name)
	if err != nil {
		return err
	}
	defer func() { _ = bed.Close() }()
	spec := bed.Spec()
	if err := spec.Check(d); err != nil {
		return usage(err)
	}
	return bed.Disturb(d)
}

type testbedExecCmd struct {
	Host    string   `arg:"" help:"The host, such as n3, or control."`
	Command []string `arg:"" passthrough:"" help:"After --: the program and its arguments."`
	Name    string   `default:"testbed" help:"Name of the test bed."`
}

// Run replaces this process by the program, on a host of the test bed.
func (c *testbedExecCmd) Run() error {
	command := afterDashes(c.Command)
	if len(command) == 0 {
		return usage(errors.New("exec: give the program behind the name of the host and --"))
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return usage(err)
	}
	bed, err := testbed.Attach(c.Name)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the thread in the namespace must be the one that execs
	if err := bed.Enter(c.Host); err != nil {
		return usage(err)
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, command, os.Environ()))
}

type testbedDownCmd struct {
	Name string `default:"testbed" help:"Name of the test bed."`
}

// Run ends a test bed.
func (c *testbedDownCmd) Run() error { return testbed.TakeDown(c.Name) }

func usage(err error) error { return &exit{exitUsage, err} }

// afterDashes are the words after --, which kong does not remove.
func afterDashes(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}

type testbedRunCmd struct {
	bedFlags
	Name string                `placeholder:"NAME" help:"Run in the test bed of this name that is up. If neither it nor any other flag of a test bed is given: in \"testbed\", or in a new one if there is none."`
	At   []testbed.Disturbance `placeholder:"TIME:WHAT:HOST" help:"Disturb a port in the time of the run: 2s:cut:n3, 1s:slow:n2:50Mbit, 3s:restore:n3."`
	Args []string              `arg:"" optional:"" passthrough:"" help:"After --: flags of ringlet run."`
}

// Run runs a control and its nodes on the hosts of a test bed.
func (c *testbedRunCmd) Run(ctx context.Context, to streams) error {
	inner, spec, err := c.checkArgs(to)
	if err != nil {
		return err
	}
	bed, err := c.openBed(spec)
	if err != nil {
		return err
	}
	defer func() { _ = bed.Close() }()
	return runInBed(ctx, to, bed, c.At, inner)
}

// checkArgs checks the whole command line. It returns the Spec of the run's own bed.
func (c *testbedRunCmd) checkArgs(to streams) (*innerRun, testbed.Spec, error) {
	inner, err := c.parseInnerRun(to)
	if err != nil {
		return nil, testbed.Spec{}, err
	}
	spec, err := c.spec()
	if err == nil && c.isSet() {
		err = c.checkDisturbances(spec)
	}
	if err == nil && c.isSet() && c.Name != "" {
		err = usage(fmt.Errorf("name: the test bed %q is up, and stays as it was made: leave out the flags that describe "+
			"a bed", c.Name))
	}
	return inner, spec, err
}

// checkDisturbances checks the disturbances of a bed's ports.
func (c *testbedRunCmd) checkDisturbances(spec testbed.Spec) error {
	for _, d := range c.At {
		if err := spec.Check(d); err != nil {
			return usage(fmt.Errorf("at: %w", err))
		}
	}
	return nil
}

// openBed opens the running bed, or makes one for this run alone.
func (c *testbedRunCmd) openBed(newSpec testbed.Spec) (*testbed.Bed, error) {
	if c.isSet() {
		return testbed.New(newSpec)
	}
	bed, err := testbed.Attach(cmp.Or(c.Name, testbed.DefaultName))
	var none *testbed.NotUpError
	if c.Name == "" && errors.As(err, &none) {
		if err := c.checkDisturbances(newSpec); err != nil {
			return nil, err
		}
		return testbed.New(newSpec)
	}
	if err == nil {
		if err = c.checkDisturbances(bed.Spec()); err != nil {
			err = errors.Join(err, bed.Close())
		}
	}
	return bed, err
}

// innerRun is the run in a bed: the words after --.
type innerRun struct {
	runFlags
	args []string
	cfg  config.Completed
}

// parseInnerRun parses the words after -- as ringlet run does.
func (c *testbedRunCmd) parseInnerRun(to streams) (*innerRun, error) {
	inner := &innerRun{args: afterDashes(c.Args)}
	parser, err := newParser(&inner.runFlags,
		kong.Name("ringlet testbed run --"), kong.Writers(to.out, to.err), kong.NoDefaultHelp())
	if err != nil {
		return nil, err
	}
	if _, err := parse(parser, inner.args); err != nil {
		return nil, usage(err)
	}
	if inner.cfg, err = inner.Compose("", nil, nil); err != nil {
		return nil, usage(err)
	}
	return inner, nil
}

// runInBed makes a run in the bed and prints its results.
func runInBed(ctx context.Context, to streams, bed *testbed.Bed, at []testbed.Disturbance,
	inner *innerRun) error {
	s, err := sessionOf(bed, inner)
	if err != nil {
		return err
	}
	if _, err := shmem.Sweep("ringlet-"); err != nil {
		return fmt.Errorf("segments of earlier runs: %w", err)
	}
	defer func() { _, _ = shmem.Sweep("ringlet-") }() // of nodes that were killed
	defer killOnSecondSignal(ctx)()
	var printed bytes.Buffer
	s.Disturbances, s.ControlOut, s.ProcessLog, s.Notify = at, to.out, to.err, func(what string) {
		fmt.Fprintln(to.err,
			"test bed: "+what)
	}
	if inner.JSON {
		s.ControlOut = &printed
	}
	code, report, err := s.Run(ctx)
	if report == nil {
		_, e := printed.WriteTo(to.out)
		err = errors.Join(err, e)
	} else {
		err = errors.Join(err, printBed(to.out, report, inner.JSON, printed.Bytes()))
	}
	switch {
	case err != nil:
		return &exit{max(code, exitError), err}
	case code != exitGood:
		return &exit{code: code} // the control has printed the error
	}
	return nil
}

// sessionOf describes how the processes of a run are started.
func sessionOf(bed *testbed.Bed, inner *innerRun) (*testbed.Session, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &testbed.Session{
		Bed:     bed,
		Program: program,
		Node: func(name, host, join string) []string {
			return nodeArgs(inner.cfg.Nodes, inner.cfg.Nodes, inner.Verbose, name, host, join)
		},
		Control: func(host string, port, began int) []string {
			return append([]string{"control", "--once", "--host", host, "--port", strconv.Itoa(port), "--with-parent", "--began",
				strconv.Itoa(began)}, inner.args...)
		},
	}
	host := map[string]string{}
	for i, r := range inner.cfg.Roles() {
		s.Nodes = append(s.Nodes, r.Name)
		host[r.Name] = bed.Address(s.HostOf(i))
	}
	keys, err := makeKeys(inner.cfg.Roles(), bed.ControlAddress(), func(name string) string { return host[name] })
	if err != nil {
		return nil, err
	}
	s.SendKeys = keys.write
	if inner.cfg.Nodes >= runtime.NumCPU() && os.Getenv("GOMAXPROCS") == "" {
		s.ControlEnv = []string{"GOMAXPROCS=1"} // as in ringlet run
	}
	return s, nil
}

// printBed prints the counts of the bed's ports. As text they follow the table, which the control has printed. As JSON
// they become a field of the control's JSON object, and printBed prints the whole object.
func printBed(w io.Writer, r *testbed.Report, asJSON bool, object []byte) error {
	if !asJSON {
		return r.WriteTable(w)
	}
	object, complete := bytes.CutSuffix(object, []byte("\n}\n"))
	if !complete {
		_, err := w.Write(object) // the control was killed
		return err
	}
	text, err := json.MarshalIndent(r, "  ", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s,\n  \"testbed\": %s\n}\n", object, text)
	return err
}
