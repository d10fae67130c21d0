package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"ringlet/ecs/partition"
	"ringlet/ecs/partition/nodes"
	"ringlet/internal/safeopen"
	"ringlet/node"
	"ringlet/node/certs"
)

type controlCmd struct {
	runFlags
	Certs       string        `type:"existingdir" placeholder:"DIR" help:"Directory with the certificate of \"control\", the CA's and the gossip key, which must be given: ringlet certs makes it."`
	Host        string        `default:"127.0.0.1" help:"Address to bind, which nodes must be able to reach."`
	Port        int           `default:"7946" help:"Port where nodes join, TCP and UDP. 0 = any."`
	TagnetPort  int           `default:"0" help:"TCP port of the scheduler with --once; otherwise it lives on a node. 0 = any."`
	NodeTimeout time.Duration `name:"patience" default:"60s" help:"How long to wait for the nodes."`
	API         string        `name:"api" default:"127.0.0.1:7947" placeholder:"HOST:PORT" help:"Where users and ringlet ctl come in: gRPC, with certificates."`
	Page        string        `default:"127.0.0.1:7980" placeholder:"HOST:PORT" help:"Where the page is, and the API over HTTP. On loopback it is entered with a token that is printed, elsewhere with a certificate. Empty = nowhere."`
	Monitor     string        `default:"" placeholder:"HOST:PORT" help:"Where /livez, /readyz and /metrics are, over plain HTTP. Empty = nowhere."`
	State       string        `default:"" placeholder:"DIR" help:"Directory of the run records, the run numbers and the audit log. Default: ringlet in the user's directory for states, ~/.local/state."`
	InputDir    []string      `name:"input-dir" sep:"none" placeholder:"DIR" help:"Directory below which load and check may read inputs; may be given more than once. Without any, they read none but the file of --input."`
	LogFormat   string        `enum:"text,json" default:"text" help:"Log lines as key=value (text) or as JSON objects (json)."`
	MaxStreams  int           `default:"256" placeholder:"N" help:"Streams of the API and the page that may be open at once, from 1 to 65536. One user may have a quarter of them."`
	Once        bool          `help:"Take the nodes through one run with these settings and end, without API, page and records."`
	WithParent  bool          `hidden:"" help:"Take keys from standard input, and end when it closes; for the control that ringlet testbed starts."`
	Began       int           `hidden:"" help:"Descriptor to write a line to when the run begins; 0 = none."`
}

// Run runs the run control until a signal comes; with --once it takes the nodes through one run.
func (c *controlCmd) Run(ctx context.Context, to streams) error {
	id, key, err := keysOf(nodes.ControlName, c.Certs, c.WithParent)
	if err != nil {
		return &exit{exitUsage, err}
	}
	if err := resolveHosts(ctx, &c.Host, nil); err != nil {
		return &exit{exitUsage, err}
	}
	if c.WithParent {
		node.TuneGC() // as ringlet run does
		var end context.CancelFunc
		ctx, end = whileParentLives(ctx)
		defer end()
	}
	if !c.Once {
		return c.serve(ctx, to, id, key)
	}
	cfg, err := c.Compose("", nil, nil)
	if err != nil {
		return &exit{exitUsage, err}
	}
	return c.runOnce(ctx, to, cfg, control{
		Config: partition.Config{
			Host:         c.Host,
			TagnetPort:   c.TagnetPort,
			Identity:     id,
			ReadyTimeout: c.NodeTimeout,
			JoinTimeout:  c.NodeTimeout,
		},
		gossipPort: c.Port,
		gossipKey:  key,
	}, c.signalBegan)
}

// signalBegan tells the process that started this control that the run begins.
func (c *controlCmd) signalBegan() {
	if c.Began > 0 {
		f := os.NewFile(uintptr(c.Began), "began")
		_, _ = f.WriteString("began\n") // fails if the reader is gone
		_ = f.Close()
	}
}

// serve runs the run control of a partition until ctx ends.
func (c *controlCmd) serve(ctx context.Context, to streams, id *certs.Identity, key []byte) error {
	dir, err := c.stateDir()
	if err != nil {
		return &exit{exitUsage, err}
	}
	inputs, err := safeopen.NewAllowedPaths(c.InputDir, []string{c.InputFile(), c.FilterFile()})
	if err != nil {
		return &exit{exitUsage, fmt.Errorf("input-dir: %w", err)}
	}
	s := &service{
		control: control{
			Config: partition.Config{
				Default:       c.Config,
				Identity:      id,
				Host:          c.Host,
				AllowedInputs: inputs,
				ReadyTimeout:  c.NodeTimeout,
				Log:           formatted(to.err, slog.LevelInfo, c.LogFormat),
			},
			gossipKey:   key,
			gossipPort:  c.Port,
			recordsPath: filepath.Join(dir, records),
			slowAddress: c.SlowData,
		},
		maxStreams:    c.MaxStreams,
		apiAddr:       c.API,
		pageAddr:      c.Page,
		monitorAddr:   c.Monitor,
		usersHaveKeys: true,
	}
	return s.run(ctx, to, func(ctx context.Context) error { <-ctx.Done(); return nil })
}

// stateDir is the directory of the records.
func (c *controlCmd) stateDir() (string, error) {
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
