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
	"sync"
	"time"

	"ringlet/ecs/api"
	"ringlet/ecs/journal"
	"ringlet/ecs/page"
	"ringlet/ecs/partition"
	"ringlet/ecs/record"
	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/control"
	"ringlet/internal/metrics"
	"ringlet/internal/monitor"
	"ringlet/internal/node"
	"ringlet/internal/profile"
	"ringlet/internal/sdnotify"
)

type controlCmd struct {
	runFlags
	Certs      string        `type:"existingdir" placeholder:"DIR" help:"Directory with the certificate of \"control\", the CA's and the gossip key, which must be given: ringlet certs makes it."`
	Host       string        `default:"127.0.0.1" help:"Address to bind, which nodes must be able to reach."`
	Port       int           `default:"7946" help:"Port where nodes join, TCP and UDP. 0 = any."`
	TagnetPort int           `default:"0" help:"TCP port of the scheduler with --once; otherwise it lives on a node. 0 = any."`
	Patience   time.Duration `default:"60s" help:"How long to wait for the nodes."`
	API        string        `name:"api" default:"127.0.0.1:7947" placeholder:"HOST:PORT" help:"Where users and ringlet ctl come in: gRPC, with certificates."`
	Page       string        `default:"127.0.0.1:7980" placeholder:"HOST:PORT" help:"Where the page is, and the API over HTTP. On loopback it is entered with a token that is printed, elsewhere with a certificate. Empty = nowhere."`
	Monitor    string        `default:"" placeholder:"HOST:PORT" help:"Where /livez, /readyz and /metrics are, over plain HTTP. Empty = nowhere."`
	State      string        `default:"" placeholder:"DIR" help:"Directory of the run records, the run numbers and the audit log. Default: ringlet in the user's directory for states, ~/.local/state."`
	Once       bool          `help:"Take the nodes through one run with these settings and end, without API, page and records."`
	WithParent bool          `hidden:"" help:"Take keys from standard input, and end when it closes; for the control that ringlet testbed starts."`
	Began      int           `hidden:"" help:"Descriptor to write a line to when the run begins; 0 = none."`
}

// Run is the run control until it is told to end, or takes the nodes through one run.
func (c *controlCmd) Run(ctx context.Context, to streams) error {
	id, key, err := keysOf(control.Name, c.Certs, c.WithParent)
	if err != nil {
		return &exit{exitUsage, err}
	}
	if c.WithParent {
		node.Tune() // as ringlet run does
		var end context.CancelFunc
		ctx, end = whileParentLives(ctx)
		defer end()
	}
	if !c.Once {
		return c.serve(ctx, to, id, key)
	}
	if err := c.Complete(); err != nil {
		return &exit{exitUsage, err}
	}
	return c.conduct(ctx, to, control.Config{
		Run: c.Config, Host: c.Host, Port: c.Port, TagnetPort: c.TagnetPort, Identity: id, Key: key, Version: version, Patience: c.Patience,
		Began: c.began,
	})
}

// began tells whoever started this control that the run begins.
func (c *controlCmd) began() {
	if c.Began > 0 {
		f := os.NewFile(uintptr(c.Began), "began")
		_, _ = f.WriteString("began\n") // who does not listen does not want to know
		_ = f.Close()
	}
}

// remembered is how many events and log lines the control holds for those who come later.
const remembered = 8192

// serve is the run control of a partition.
func (c *controlCmd) serve(ctx context.Context, to streams, id *certs.Identity, key []byte) (err error) {
	dir, err := c.state()
	if err != nil {
		return &exit{exitUsage, err}
	}
	store, err := record.Open(filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	// Numbers of events go on growing after a restart: no control gives a million of them a second.
	events := journal.New(remembered, uint64(time.Now().UnixMicro()))
	log := slog.New(events.Handler(leveled(to.err, slog.LevelInfo, c.Verbose).Handler(), slog.LevelInfo))
	store.Tell(log)
	members, err := cluster.Open(ctx, cluster.Config{
		Name: control.Name, BindAddr: c.Host, BindPort: c.Port, Key: key, Logger: log, Timing: cluster.LocalTiming(),
		Meta: cluster.Meta{Roles: cluster.Control, Version: version},
	})
	if err != nil {
		return err
	}
	defer func() { _ = members.Close() }()
	p := partition.New(partition.Config{
		Default: c.Config, Members: members, Store: store, Journal: events, Identity: id, Host: c.Host, Version: version,
		Patience: c.Patience, Log: log,
	})
	defer func() { err = errors.Join(err, p.Close()) }()
	server, err := api.New(api.Config{
		Backend: p, Records: store, Journal: events, Identity: id, API: c.API, Page: c.Page, Log: log,
	})
	if err != nil {
		return err
	}
	server.Handle("/", api.Everybody, page.Handler())
	server.Handle(profile.Path, api.Admin, profile.Handler(p))
	if err := p.Adopt(ctx); err != nil {
		return errors.Join(err, server.Close())
	}
	end, err := c.monitor(p, log)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer end()
	c.welcome(to.out, server, members)
	return c.told(ctx, p, server)
}

// told serves, and tells the service manager how it does meanwhile.
func (c *controlCmd) told(ctx context.Context, p *partition.Partition, server *api.Server) error {
	manager, err := sdnotify.Open()
	if err != nil {
		return errors.Join(&exit{exitUsage, err}, server.Close())
	}
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { manager.Watch(watching, p.Live) })
	manager.Ready("serving " + server.API().String())
	err = server.Serve(ctx)
	manager.Stopping("ending; nodes go on as they are")
	cancel()
	watch.Wait()
	return err
}

// monitor answers orchestrators and Prometheus.
func (c *controlCmd) monitor(p *partition.Partition, log *slog.Logger) (end func(), err error) {
	if c.Monitor == "" {
		return func() {}, nil
	}
	lis, err := net.Listen("tcp", c.Monitor)
	if err != nil {
		return nil, fmt.Errorf("cannot bind the monitor at %s: %w", c.Monitor, err)
	}
	return monitor.Serve(lis, monitor.Process{Live: p.Live, Ready: p.Ready, Metrics: metrics.Control(p.Metrics)}, log), nil
}

// welcome tells where everything is.
func (c *controlCmd) welcome(out io.Writer, server *api.Server, members *cluster.Cluster) {
	fmt.Fprintf(out, "nodes join at   %s\n", members.Addr())
	fmt.Fprintf(out, "ringlet ctl at  %s\n", server.API())
	if server.Page() != nil {
		fmt.Fprintf(out, "the page is at  %s\n", server.Entrance())
	}
}

// state is the directory of what outlives this process.
func (c *controlCmd) state() (string, error) {
	if c.State != "" {
		return c.State, nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("state: no directory for the run records: %w; give one", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "ringlet"), nil
}
