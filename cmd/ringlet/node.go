package main

import (
	"context"
	"io"
	"os"
	"runtime"

	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/node"
	"ringlet/shmem"
)

type nodeCmd struct {
	Name       string   `required:"" help:"Name of this node, as in its certificate."`
	Join       []string `required:"" placeholder:"HOST:PORT" help:"Where the control, or any other member, is."`
	Certs      string   `required:"" type:"existingdir" placeholder:"DIR" help:"Directory with this node's certificate, the CA's and the gossip key: ringlet certs makes it."`
	Host       string   `default:"127.0.0.1" help:"Address to bind, which the others must be able to reach."`
	Procs      int      `default:"0" help:"Processors to use at a time. 0 = all."`
	WithParent bool     `help:"End when standard input closes; for nodes that ringlet run starts."`
	Verbose    bool     `short:"v" help:"Tell what happens, on standard error."`
}

// Run is a node until it is told to end.
func (c *nodeCmd) Run(ctx context.Context, to streams) error {
	id, err := certs.Load(c.Certs, c.Name)
	if err != nil {
		return &exit{exitUsage, err}
	}
	key, err := certs.LoadGossipKey(c.Certs)
	if err != nil {
		return &exit{exitUsage, err}
	}
	if c.Procs > 0 {
		runtime.GOMAXPROCS(c.Procs)
	}
	if os.Getenv("GOGC") == "" {
		node.Tune()
	}
	if c.WithParent {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent is gone, however it went
			cancel()
		}()
	} else if _, err := shmem.Sweep("ringlet-"); err != nil {
		return err
	}
	return node.Run(ctx, node.Config{
		Name: c.Name, Host: c.Host, Join: c.Join, Identity: id, Key: key, Roles: cluster.Readout | cluster.Builder,
		Version: version, Log: logger(to.err, c.Verbose),
	})
}
