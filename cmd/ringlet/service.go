package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"ringlet/ecs/api"
	"ringlet/ecs/figures"
	"ringlet/ecs/journal"
	"ringlet/ecs/page"
	"ringlet/ecs/partition"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	"ringlet/internal/regular"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/metrics"
	"ringlet/node/monitor"
	"ringlet/node/profile"
	"ringlet/node/sdnotify"
)

// service is the run control of a partition with everything around it.
type service struct {
	config.Config // what load takes where it is given nothing; not completed

	id       *certs.Identity
	key      []byte
	host     string
	port     int
	api      string
	page     string // empty: nowhere
	monitor  string // empty: nowhere
	state    string // directory of the records
	inputs   *regular.Places
	patience time.Duration
	spawner  partition.Spawner // of nodes on this machine; nil: they join by themselves
	ctl      bool              // somebody has keys to come in with
	log      *slog.Logger

	// set by run
	store     *record.Store
	members   *cluster.Cluster
	partition *partition.Partition
}

// remembered is how many events and log lines the control holds for those who come later.
const remembered = 8192

// run serves until the work is done or ctx ends, and leaves the nodes as they are. The work begins when everything can
// be asked.
func (s *service) run(ctx context.Context, to streams, work func(context.Context) error) (err error) {
	if s.store, err = record.Open(filepath.Join(s.state, "runs.db")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	// Numbers of events go on growing after a restart: no control gives a million of them a second.
	events := journal.New(remembered, uint64(time.Now().UnixMicro()))
	log := slog.New(events.Handler(s.log.Handler(), slog.LevelInfo))
	s.store.Tell(log)
	term, err := s.store.NextTerm(nodes.ClockTerm(time.Now()))
	if err != nil {
		return err
	}
	s.members, err = cluster.Open(ctx, cluster.Config{
		Name: nodes.Name, BindAddr: s.host, BindPort: s.port, Key: s.key, Logger: log,
		Meta: cluster.Meta{Roles: cluster.Control, Version: version},
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.members.Close() }()
	s.partition = partition.New(partition.Config{
		Default: s.Config, Members: s.members, Store: s.store, Journal: events, Identity: s.id, Host: s.host,
		Version: version, Term: nodes.NewTerm(term),
		Inputs: s.inputs, Patience: s.patience, Spawner: s.spawner, Log: log,
	})
	defer func() { err = errors.Join(err, s.partition.Close()) }()
	server, err := api.New(api.Config{
		Backend: s.partition, Records: s.store, Journal: events, Identity: s.id, API: s.api, Page: s.page, Log: log,
	})
	if err != nil {
		return err
	}
	server.Handle("/", api.Everybody, page.Handler(node.Counters()))
	server.Handle(profile.Path, api.Admin, profile.Handler(s.partition))
	if err := s.partition.Adopt(ctx); err != nil {
		return errors.Join(err, server.Close())
	}
	end, err := s.monitored(log, server)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer end()
	s.welcome(to.out, server)
	return s.serve(ctx, server, work)
}

// serve answers, and tells the service manager how it does, while the work goes on.
func (s *service) serve(ctx context.Context, server *api.Server, work func(context.Context) error) error {
	manager, err := sdnotify.Open()
	if err != nil {
		return errors.Join(&exit{exitUsage, err}, server.Close())
	}
	served, over := context.WithCancel(context.Background()) // the work may have to stop a run when ctx has ended
	defer over()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { manager.Watch(served, s.partition.Live) })
	beside.Go(func() { s.id.Watch(served, s.log) })
	var done error
	worked := make(chan struct{})
	beside.Go(func() {
		defer close(worked)
		defer over()
		done = work(ctx)
	})
	manager.Ready("serving " + server.API().String())
	err = server.Serve(served)
	over()
	manager.Stopping("ending; nodes go on as they are")
	if err != nil {
		return err // of a listener: the work ends with the process
	}
	<-worked
	return done
}

// monitored answers orchestrators and Prometheus.
func (s *service) monitored(log *slog.Logger, server *api.Server) (end func(), err error) {
	if s.monitor == "" {
		return func() {}, nil
	}
	lis, err := net.Listen("tcp", s.monitor)
	if err != nil {
		return nil, fmt.Errorf("cannot bind the monitor at %s: %w", s.monitor, err)
	}
	p := s.partition
	told := metrics.Control(figures.SchedulerCounters(), func() metrics.Partition {
		now := p.Metrics()
		now.Refused = server.Refused()
		return now
	}, s.id.NotAfter)
	return monitor.Serve(lis, monitor.Process{Live: p.Live, Ready: p.Ready, Metrics: told}, log), nil
}

// welcome tells where everything is.
func (s *service) welcome(out io.Writer, server *api.Server) {
	fmt.Fprintf(out, "nodes join at   %s\n", s.members.Addr())
	if s.ctl {
		fmt.Fprintf(out, "ringlet ctl at  %s\n", server.API())
	}
	if server.Page() != nil {
		fmt.Fprintf(out, "the page is at  %s\n", server.Entrance())
	}
}
