package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"ringlet/ecs/api"
	"ringlet/ecs/figures"
	"ringlet/ecs/page"
	"ringlet/internal/address"
	"ringlet/internal/safeopen"
	"ringlet/node"
	"ringlet/node/metrics"
	"ringlet/node/monitor"
	"ringlet/node/profile"
	"ringlet/node/sdnotify"
	"ringlet/velo/display"
)

// service is the run control of a partition with API, page and monitor.
type service struct {
	control
	apiAddr       string
	pageAddr      string // empty: nowhere
	monitorAddr   string // empty: nowhere
	maxStreams    int    // of the API and the page at most; 0: by default
	usersHaveKeys bool   // users have certificates; if not, a new link is printed after each sign-in
}

// run serves until work returns or ctx ends, and leaves the nodes as they are. It calls work when all services answer.
func (s *service) run(ctx context.Context, to streams, work func(context.Context) error) (err error) {
	defer func() { err = s.close(err) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	cfg := api.Config{
		Backend:    s.partition,
		Records:    s.store,
		Journal:    s.Journal,
		Identity:   s.Identity,
		APIAddr:    s.apiAddr,
		PageAddr:   s.pageAddr,
		MaxStreams: s.maxStreams,
		Log:        s.Log,
	}
	if !s.usersHaveKeys {
		cfg.OnEntered = func(link string) { fmt.Fprintf(to.out, "the next link is %s\n", link) }
	}
	server, err := api.New(cfg)
	if err != nil {
		return err
	}
	server.Handle("/", api.Everybody, page.Handler(node.Counters()))
	server.Handle(profile.Path, api.Admin, profile.Handler(s.partition))
	known := &eventTruths{currentRun: func() (uint32, string) {
		now := s.partition.Status()
		return now.GetRun(), now.GetConfiguration()
	}}
	drawn, err := display.Handler(display.Config{Detector: known.geometry, Truth: known.truthOf})
	if err != nil {
		return errors.Join(err, server.Close())
	}
	server.Handle(display.Path, api.Viewer, drawn)
	if err := s.partition.Adopt(ctx); err != nil {
		if ctx.Err() != nil { // told to end: a later control takes the partition up
			err = nil
		}
		return errors.Join(err, server.Close())
	}
	end, err := s.monitored(server)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer end()
	if err := s.printAddresses(to.out, server); err != nil {
		return errors.Join(err, server.Close())
	}
	return s.serve(ctx, server, work)
}

// serve serves, and notifies the service manager (systemd), until work returns.
func (s *service) serve(ctx context.Context, server *api.Server, work func(context.Context) error) error {
	manager, err := sdnotify.Open()
	if err != nil {
		return errors.Join(&exit{exitUsage, err}, server.Close())
	}
	served, over := context.WithCancel(context.Background()) // the work may have to stop a run when ctx has ended
	defer over()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { manager.Watch(served, s.partition.CheckLiveness) })
	beside.Go(func() { s.Identity.Watch(served, s.Log) })
	var done error
	worked := make(chan struct{})
	beside.Go(func() {
		defer close(worked)
		defer over()
		done = work(ctx)
	})
	manager.NotifyReady("serving " + server.APIAddr().String())
	err = server.Serve(served)
	over()
	manager.NotifyStopping("ending; nodes go on as they are")
	if err != nil {
		return err // of a listener: the work ends with the process
	}
	<-worked
	return done
}

// monitored serves the monitor, for orchestrators and Prometheus.
func (s *service) monitored(server *api.Server) (end func(), err error) {
	if s.monitorAddr == "" {
		return func() {}, nil
	}
	lis, err := address.ListenTCP(s.monitorAddr)
	if err != nil {
		return nil, fmt.Errorf("cannot bind the monitor at %s: %w", s.monitorAddr, err)
	}
	p := s.partition
	controlMetrics := metrics.ControlHandler(figures.SchedulerCounters(), func() metrics.Partition {
		now := p.Metrics()
		now.Refused = server.Refused()
		return now
	}, s.Identity.NotAfter)
	return monitor.Serve(lis, monitor.Process{CheckLive: p.CheckLiveness, CheckReady: p.Ready,
		MetricsHandler: controlMetrics}, s.Log), nil
}

// linkFile is the file beside the records with the link to the page, for its owner alone.
const linkFile = "page-link"

// printAddresses prints the addresses of the services. The output of a run control usually goes to a log that other
// users may read: the link that opens a session as admin is printed on a terminal only, else written to linkFile.
func (s *service) printAddresses(out io.Writer, server *api.Server) error {
	fmt.Fprintf(out, "nodes join at   %s\n", s.Members.Addr())
	if s.usersHaveKeys {
		fmt.Fprintf(out, "ringlet ctl at  %s\n", server.APIAddr())
	}
	if s.slow != nil {
		fmt.Fprintf(out, "slow data at    %s\n", s.slow.Addr())
	}
	if server.PageAddr() == nil {
		return nil
	}
	link := server.NewEntrance()
	plain, _, secret := strings.Cut(link, "?")
	if !secret || s.recordsPath == "" || isTerminal(out) {
		fmt.Fprintf(out, "the page is at  %s\n", link)
		return nil
	}
	file := filepath.Join(filepath.Dir(s.recordsPath), linkFile)
	if err := safeopen.WriteNoFollow(file, strings.NewReader(link+"\n"), 0o600); err != nil {
		return fmt.Errorf("the link to the page cannot be written: %w", err)
	}
	fmt.Fprintf(out, "the page is at  %s with the token in %s\n", plain, file)
	return nil
}
