package main

import (
	"context"
	"errors"
	"time"

	"ringlet/ecs/journal"
	"ringlet/ecs/partition"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	"ringlet/node/cluster"
	"ringlet/node/config"
)

// single is a run control in this process that makes one run.
type single struct {
	partition.Config
	key   []byte // of the gossip
	port  int    // of the gossip; 0 means any
	began func() // the run has begun; nil: nobody waits for it
}

// once makes the run control, and has it make the run.
func (s *single) once(ctx context.Context, cfg config.Config, progress func(nodes.Progress)) (report *nodes.Report,
	err error) {
	store, err := record.OpenMemory()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	members, err := cluster.Open(ctx, cluster.Config{
		Name: nodes.Name, BindAddr: s.Host, BindPort: s.port, Key: s.key, Logger: s.Log,
		Meta: cluster.Meta{Roles: cluster.Control, Version: version},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = members.Close() }()
	s.Store, s.Members, s.Version, s.Here = store, members, version, true
	s.Journal = journal.New(remembered, 1)
	s.Term = nodes.NewTerm(nodes.ClockTerm(time.Now()))
	return partition.New(s.Config).Once(ctx, cfg, partition.Hooks{Began: s.began, Progress: progress})
}

// conduct runs a run and prints what came of it.
func (c *runFlags) conduct(ctx context.Context, to streams, s single) error {
	defer onceInGoodOrder(ctx)()
	s.Log = logger(to.err, c.Verbose)
	live := newLiveLine(to.err, !c.JSON && !c.Verbose)
	report, err := s.once(ctx, c.Config, live.show)
	live.end()
	if err != nil {
		return classify(err)
	}
	return c.show(to, report)
}
