package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ringlet/ecs/journal"
	"ringlet/ecs/lineserver"
	"ringlet/ecs/partition"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	"ringlet/node/cluster"
	"ringlet/node/config"
)

// control is a run control with its store and its cluster, as a service or for a single run.
type control struct {
	partition.Config
	gossipKey   []byte // of the gossip
	gossipPort  int    // of the gossip; 0 means any
	recordsPath string // of the records; empty: they are forgotten
	slowAddress string // where slow data are taken; empty: nowhere

	// set by open
	store     *record.Store
	partition *partition.Partition
	slow      *lineserver.Server // nil: nowhere
}

// records is the name of the file with the records of runs, in the state directory.
const records = "runs.db"

// maxRemembered is how many events and log lines the control keeps for later subscribers.
const maxRemembered = 8192

// open opens the store, enters the cluster and makes the partition. Call close at the end, after an error too.
func (s *control) open(ctx context.Context) (err error) {
	if s.store, err = record.Open(s.recordsPath); err != nil {
		return err
	}
	// Numbers of events go on growing after a restart: no control gives a million of them a second.
	s.Journal = journal.New(maxRemembered, uint64(time.Now().UnixMicro()))
	s.Log = slog.New(s.Journal.Handler(s.Log.Handler(), slog.LevelInfo))
	s.store.SetLogger(s.Log)
	term, err := s.store.NextTerm(nodes.ClockTerm(time.Now()))
	if err != nil {
		return err
	}
	s.Members, err = cluster.Open(ctx, cluster.Config{
		Name:     nodes.ControlName,
		BindAddr: s.Host,
		BindPort: s.gossipPort,
		Key:      s.gossipKey,
		Logger:   s.Log,
		Meta:     cluster.Meta{Roles: cluster.Control, Version: version},
	})
	if err != nil {
		return err
	}
	s.Store, s.Version, s.Term = s.store, version, nodes.NewTerm(term)
	s.partition = partition.New(s.Config)
	if s.slowAddress != "" {
		s.slow, err = lineserver.Listen(lineserver.Config{
			Address: s.slowAddress,
			Keep:    s.partition.KeepSlowData,
			Log:     s.Log,
		})
	}
	return err
}

// close ends the partition, leaves the cluster and closes the store, if they are open.
func (s *control) close(err error) error {
	if s.slow != nil {
		s.slow.Close()
	}
	if s.partition != nil {
		err = errors.Join(err, s.partition.Close())
	}
	if s.Members != nil {
		_ = s.Members.Close()
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}

// runOnce makes one run with a run control in this process, and prints its report.
func (c *runFlags) runOnce(
	ctx context.Context, to streams, cfg config.Completed, s control, began func(),
) error {
	defer killOnSecondSignal(ctx)()
	s.Log, s.LocalScheduler, s.slowAddress = logger(to.err, c.Verbose), true, c.SlowData
	live := newLiveLine(to.err, !c.JSON && !c.Verbose)
	var report *nodes.Report
	err := s.open(ctx)
	if err == nil {
		report, err = s.partition.RunOnce(ctx, cfg, partition.RunHooks{OnBegun: began, OnProgress: live.show})
	}
	err = s.close(err)
	live.end()
	if err != nil {
		return exitOfError(err)
	}
	return c.printReport(to, report)
}
