package partition_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlet/ecs/partition"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
)

// spawner starts the nodes of a farm.
type spawner struct {
	h  *farm
	wg sync.WaitGroup

	mu      sync.Mutex // guards what follows
	started []string
	over    bool
}

func (s *spawner) Spawn(names []string, _ string, ended func(name, how string)) error {
	for _, name := range names {
		s.mu.Lock()
		s.started = append(s.started, name)
		s.mu.Unlock()
		s.h.startNode(name)
		s.h.mu.Lock()
		gone := s.h.gone[name]
		s.h.mu.Unlock()
		s.wg.Go(func() {
			<-gone
			s.mu.Lock()
			over := s.over
			s.mu.Unlock()
			if !over {
				ended(name, "was killed")
			}
		})
	}
	return nil
}

func (s *spawner) Stop() {
	s.mu.Lock()
	s.over = true
	names := slices.Clone(s.started)
	s.mu.Unlock()
	for _, name := range names {
		s.h.endNode(name)
	}
	s.wg.Wait() // bounded by the nodes, each of which was told to end
}

// spawning is a farm whose control starts its nodes.
func spawning(t *testing.T, change func(*config.Config)) (*farm, *spawner) {
	t.Helper()
	h := newFarm(t, 0, change)
	s := &spawner{h: h}
	h.stopControl()
	h.spawner = s
	h.startControl()
	t.Cleanup(s.Stop)
	return h, s
}

// A control that starts the processes of its nodes starts one anew that has ended, and the partition goes on.
func TestStartsAnew(t *testing.T) {
	t.Parallel()
	h, s := spawning(t, func(c *config.Config) { c.Nodes = 3 })
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	h.endNode("n1")
	h.awaitState("Error")
	h.awaitClosed(1)
	c := h.Status().GetRoot().GetCause()
	if c.GetComponent() != "n1" || !strings.Contains(c.GetAdvice(), "the next run starts its process again") {
		t.Errorf("the cause is %v", c)
	}
	h.await("it is an alarm, and the only one of an Error", func() bool {
		var reported []string
		for _, a := range h.Snapshot(0).GetAlarms() {
			if a.GetRule() == "in-error" || a.GetRule() == "node-silent" {
				reported = append(reported, a.GetComponent())
			}
		}
		return slices.Equal(reported, []string{"n1"})
	})
	h.mustCommand("recover", "configure", "start")
	h.awaitBuilding(2)
	h.mustCommand("stop", "reset", "unload")
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := []string{"n0", "n1", "n2", "n1"}; !slices.Equal(s.started, want) {
		t.Errorf("started were %v, not %v", s.started, want)
	}
}

// A single run by a partition in this process: to its end, with its report; and one for which a node is missing.
func TestOnce(t *testing.T) {
	t.Parallel()
	h, _ := spawning(t, func(c *config.Config) { c.Nodes, c.Events, c.Duration = 2, 20_000, 0 })
	if err := h.cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	began := false
	report, err := h.RunOnce(t.Context(), config.Completed{Config: h.cfg},
		partition.RunHooks{OnBegun: func() { began = true }})
	if err != nil || report.EventsBuilt != 20_000 || report.VerdictWord() != "GOOD" ||
		report.EndCause != ecsrun.EndEvents || !began {
		t.Errorf("%v: %+v", err, report)
	}

	late := newFarm(t, 1, func(c *config.Config) { c.Nodes = 1 })
	late.cfg.Nodes, late.cfg.Members = 2, "n0,n1"
	if err := late.cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	report, err = late.RunOnce(t.Context(), config.Completed{Config: late.cfg}, partition.RunHooks{})
	if err != nil || report.Cause == nil || report.Cause.Component != "n1" || report.EndCause != ecsrun.EndFault {
		t.Errorf("without n1: %v: %+v", err, report)
	}
}

// A single run that is interrupted before its nodes are there ends so.
func TestOnceIsInterrupted(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 0, func(c *config.Config) { c.Nodes = 2 })
	if err := h.cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	report, err := h.RunOnce(ctx, config.Completed{Config: h.cfg}, partition.RunHooks{})
	if err != nil || report.EndCause != ecsrun.EndInterrupted || report.Cause != nil {
		t.Errorf("%v: %+v", err, report)
	}
}
