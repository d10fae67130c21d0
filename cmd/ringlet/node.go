package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"ringlet/internal/address"
	"ringlet/internal/nodename"
	"ringlet/lab/bench"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/metrics"
	"ringlet/node/sdnotify"
	"ringlet/node/watchdog"
	"ringlet/shmem"
)

type nodeCmd struct {
	Name        string        `required:"" help:"Name of this node, as in its certificate."`
	Join        []string      `required:"" placeholder:"HOST:PORT" help:"Where the control, or any other member, is."`
	Certs       string        `type:"existingdir" placeholder:"DIR" help:"Directory with this node's certificate, the CA's and the gossip key: ringlet certs makes it."`
	Host        string        `default:"127.0.0.1" help:"Address to bind, which the others must be able to reach."`
	DataHost    string        `default:"" help:"Address to bind for data, where they have a network of their own. Empty = that of --host."`
	Role        string        `enum:"ru,bu,both,spare" default:"both" help:"Units that this node may have: ru (a readout unit), bu (a builder unit), both (either, or both), or spare (as both, but only in place of a member)."`
	Units       int           `default:"1" help:"Nodes in this process, 1 to 16: NAME, NAME.1, NAME.2 and so on, each with units and a rank of its own. The certificate of NAME counts for all."`
	Procs       int           `default:"0" help:"Processors to use at a time. 0 = all."`
	Spin        time.Duration `default:"0s" help:"How long to look for packets before sleeping. 50us to 1ms pay where this node has a processor of its own; 0 = sleep at once."`
	DataPort    int           `default:"0" help:"UDP port of the data; with --units, of the first node, the next has the next port. 0 = any."`
	ServicePort int           `default:"0" help:"TCP port of the node service, likewise. 0 = any."`
	GossipPort  int           `default:"0" help:"Port of the gossip, TCP and UDP, likewise. 0 = any."`
	Allow       []string      `placeholder:"WHAT" help:"What configurations may use of this host beside network and memory: exec (any program), unix, shm, output (files), secret (files of ?secret=); with a colon and a path only that and what is below it, as in exec:/usr/lib/daq,output:/data. Without output:PATH they write files below the directory in which the node was started, if that is not /, and without secret:PATH secrets are below --certs."`
	Monitor     string        `default:"" placeholder:"HOST:PORT" help:"Serve /livez, /readyz and /metrics here, over plain HTTP. Empty = nowhere."`
	Grace       time.Duration `default:"30s" help:"When told to end while a run goes on: how long to wait for the control to answer, which lets this node go. Told a second time it ends at once."`
	LogFormat   string        `enum:"text,json" default:"text" help:"Log lines as key=value (text) or as JSON objects (json)."`
	WithParent  bool          `hidden:"" help:"Take keys from standard input, and end when it closes; for nodes that ringlet run starts."`
	Verbose     bool          `short:"v" help:"Tell what happens, on standard error."`
}

// testDelays are longer time-outs of a node, for tests on busy machines. Zero: the defaults.
var testDelays struct{ idle, atLeast time.Duration }

// tune sets the garbage collector for a node, unless the environment sets it.
func tune() {
	if os.Getenv("GOGC") == "" {
		node.TuneGC()
	}
}

// Validate refuses values for which the Go runtime would end the program.
func (c *nodeCmd) Validate() error {
	if c.Procs < 0 || c.Procs > bench.MaxProcs {
		return fmt.Errorf("--procs: %d is not between 0 and %d", c.Procs, bench.MaxProcs)
	}
	if c.Units < 1 || c.Units > nodename.MaxNodes {
		return fmt.Errorf("--units: %d is not between 1 and %d", c.Units, nodename.MaxNodes)
	}
	return c.checkPorts()
}

// checkPorts refuses ports of a process that are beyond the last one, or that two services would share.
func (c *nodeCmd) checkPorts() error {
	for _, p := range []struct {
		flag  string
		first int
	}{{"--data-port", c.DataPort}, {"--service-port", c.ServicePort}, {"--gossip-port", c.GossipPort}} {
		if last := p.first + c.Units - 1; p.first < 0 || p.first > 0 && last > math.MaxUint16 {
			return fmt.Errorf("%s: the ports %d to %d of %d nodes are not between 0 and %d", p.flag, p.first, last, c.Units,
				math.MaxUint16)
		}
		between := max(p.first-c.GossipPort, c.GossipPort-p.first)
		apart := p.flag == "--gossip-port" || p.flag == "--data-port" && c.DataHost != "" && c.DataHost != c.Host
		if p.first > 0 && c.GossipPort > 0 && !apart && between < c.Units {
			return fmt.Errorf("%s: each of the %d nodes has its own port, and so the ports from %d on meet those of "+
				"--gossip-port from %d on: give ports that are %d apart", p.flag, c.Units, p.first, c.GossipPort, c.Units)
		}
	}
	return nil
}

// Run runs a node until a signal comes.
func (c *nodeCmd) Run(ctx context.Context, to streams) error {
	dog := watchdog.Start(watchdog.Config{Out: to.err})
	id, key, err := c.keys()
	if err != nil {
		return &exit{exitUsage, err}
	}
	if err := resolveHosts(ctx, &c.Host, &c.DataHost); err != nil {
		return &exit{exitUsage, err}
	}
	if c.Procs > 0 {
		runtime.GOMAXPROCS(c.Procs)
	}
	tune()
	cfg := node.Config{
		Name:         c.Name,
		Nodes:        c.Units,
		Host:         c.Host,
		DataHost:     c.DataHost,
		Join:         c.Join,
		Identity:     id,
		GossipKey:    key,
		Roles:        cluster.ParseRole(c.Role),
		Version:      version,
		GossipTiming: cluster.TimingFor(c.Host, c.Join),
		Log:          slog.Default(),
		SpinTime:     c.Spin,
		Watchdog:     dog,
		Ports:        node.Ports{Data: c.DataPort, Service: c.ServicePort, Gossip: c.GossipPort},
	}
	cfg.IdleTimeout, cfg.MinBarrierTimeout, cfg.MinTimeout = testDelays.idle, testDelays.atLeast, testDelays.atLeast
	if !c.WithParent {
		rest, err := c.serve(to, &cfg)
		if err != nil {
			return err
		}
		defer rest()
		cfg.NewMetricsHandler = metrics.NodeHandler(node.Counters(), id.NotAfter)
	}
	cfg.LeaveRequest, cfg.LeaveGrace = ctx.Done(), c.Grace
	ctx, stop := untilSecondSignal(ctx, dog)
	defer stop()
	if c.WithParent {
		var end context.CancelFunc
		ctx, end = whileParentLives(ctx) // without its parent, no control could let this node go
		defer end()
		cfg.GossipTiming.LeaveTimeout = leaveTogetherTimeout // all nodes leave at once: none waits long for the others
		var rest func()
		cfg.Log, rest = rateLimitedLog(to.err, c.Verbose)
		defer rest()
	}
	return node.Run(ctx, cfg)
}

// serve starts the monitor of a node; the returned function ends it.
func (c *nodeCmd) serve(to streams, cfg *node.Config) (rest func(), err error) {
	if _, err := shmem.Sweep("ringlet-"); err != nil {
		return nil, err
	}
	if cfg.Allowlist, err = c.allowed(); err != nil {
		return nil, &exit{exitUsage, err}
	}
	cfg.Log = formatted(to.err, slog.LevelInfo, c.LogFormat)
	if c.Monitor != "" {
		if cfg.MonitorListener, err = address.ListenTCP(c.Monitor); err != nil {
			return nil, &exit{exitUsage, fmt.Errorf("this node cannot answer a monitor at %s: %w", c.Monitor, err)}
		}
	}
	if cfg.Notifier, err = sdnotify.Open(); err != nil && cfg.MonitorListener != nil {
		err = errors.Join(err, cfg.MonitorListener.Close())
	}
	return func() {
		_ = cfg.Notifier.Close()
		if cfg.MonitorListener != nil {
			_ = cfg.MonitorListener.Close()
		}
	}, err
}

// allowed is what configurations may use of this host. A node of ringlet run may use all that its user may.
func (c *nodeCmd) allowed() (*node.Allowlist, error) {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	keys, err := filepath.Abs(c.Certs)
	if err != nil {
		keys = ""
	}
	a, err := node.ParseAllowlist(c.Allow, dir, keys)
	if err != nil {
		return nil, fmt.Errorf("allow: %w", err)
	}
	return a, nil
}

// keys reads the identity of the node, and the key of the gossip.
func (c *nodeCmd) keys() (*certs.Identity, []byte, error) {
	id, key, err := keysOf(c.Name, c.Certs, c.WithParent)
	if err == nil && id.Role != certs.RoleNode {
		err = fmt.Errorf("name: the certificate of %s is that of a %s, and a node needs one of its own: ringlet certs "+
			"makes it", c.Name, id.Role)
	}
	return id, key, err
}

// resolveHosts resolves --host and --data-host to addresses of this host that others can reach. data is nil for a
// process without data.
func resolveHosts(ctx context.Context, host, data *string) (err error) {
	if *host, err = address.ResolveLocal(ctx, *host); err != nil {
		return fmt.Errorf("host: %w", err)
	}
	if data == nil || *data == "" {
		return nil
	}
	if *data, err = address.ResolveLocal(ctx, *data); err != nil {
		return fmt.Errorf("data-host: %w", err)
	}
	return nil
}

// untilSecondSignal returns a context that goes on after the first signal, which ends ctx, and ends with the second.
// Then the watchdog ends the process if it does not end by itself.
func untilSecondSignal(ctx context.Context, dog *watchdog.Watcher) (context.Context, context.CancelFunc) {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-ctx.Done():
		case <-run.Done():
			return
		}
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(again)
		select {
		case <-again:
			dog.RequestEnd()
			cancel()
		case <-run.Done():
		}
	}()
	return run, cancel
}

// leaveTogetherTimeout is how long a node of ringlet run waits for other nodes to note its departure.
const leaveTogetherTimeout = 50 * time.Millisecond

// whileParentLives returns a context that ends when standard input closes, since the parent process is gone then.
func whileParentLives(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// keysOf are the identity of this process and the gossip key, from the directory or from the parent.
func keysOf(name, dir string, withParent bool) (*certs.Identity, []byte, error) {
	if withParent {
		return certs.ReadBundle(os.Stdin)
	}
	if dir == "" {
		return nil, nil, fmt.Errorf("certs: %s needs a directory with its keys: ringlet certs makes it", name)
	}
	id, err := certs.Load(dir, name)
	if err != nil {
		return nil, nil, err
	}
	if end := id.NotAfter(); time.Now().After(end) {
		return nil, nil, fmt.Errorf("certs: the certificate of %s in %s has expired on %s, and other nodes refuse it: "+
			"ringlet certs makes another", name, dir, end.Format(time.RFC3339))
	}
	key, err := certs.LoadGossipKey(dir)
	return id, key, err
}
