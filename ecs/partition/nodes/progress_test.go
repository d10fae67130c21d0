package nodes

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/internal/stopwatch"
	"ringlet/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// A drain in which no MEP gets its outcome for minutes, since there are many nodes on few processors, goes on as long
// as bytes are placed; where nothing moves any more it is a fault that names what it waits for.
func TestDrainWaitsWhileItMoves(t *testing.T) {
	r, _, sendReport := departRun(t)
	setUnits(t, r, "essential", "r0", "r1", "b2", "b3", "b4")
	r.lastStats = core.Stats{Registers: &core.Registers{InFlight: 3,
		Bus: []*core.BURegister{{Name: "b2", Used: &tagnetv1.Depth{Now: 3}}}}}
	r.sched = deafScheduler{}
	began := time.Unix(1000, 0)
	for s := range 300 {
		sendReport("b2", func(rep *nodev1.Report) { rep.Counters = map[string]uint64{"link.bytes_placed": uint64(s / 20)} })
		if r.CheckStall(began.Add(time.Duration(s) * time.Second)); r.faults.cause() != nil {
			t.Fatalf("after %d s, while bytes are placed: %v", s, r.faults.cause())
		}
	}
	last := began.Add(280 * time.Second) // when something moved last
	attentive(r, last, last.Add(drainStallTimeout))
	r.CheckStall(last.Add(drainStallTimeout - time.Second))
	if r.faults.cause() != nil {
		t.Fatal(r.faults.cause())
	}
	r.CheckStall(last.Add(drainStallTimeout))
	if c := r.faults.cause(); c == nil || c.Component != "b2" || !strings.Contains(r.WaitReason(), "3 MEPs at b2") {
		t.Errorf("the fault is %v, and the run waits for %s", c, r.WaitReason())
	}
}

// A run with live sources that is to end, and of which nothing is in flight, waits for readout units that have not told
// where their data end.
func TestDrainNamesWhoseDataDoNotEnd(t *testing.T) {
	r, _, _ := departRun(t)
	r.cfg.Input = "tcp:0.0.0.0:7000"
	setUnits(t, r, "essential", "r0", "r1", "b2", "b3", "b4")
	r.lastStats = core.Stats{Registers: &core.Registers{State: tagnetv1.State(core.Draining),
		Rus: []*tagnetv1.RURegister{{Name: "r0", Ended: true}, {Name: "r1"}}}}
	r.sched = deafScheduler{}
	began := time.Unix(1000, 0)
	r.CheckStall(began)
	attentive(r, began, began.Add(drainStallTimeout))
	r.CheckStall(began.Add(drainStallTimeout))
	if c := r.faults.cause(); c == nil || c.Component != "r1" || r.WaitReason() != "the last data of r1" {
		t.Errorf("the fault is %v, and the run waits for %s", c, r.WaitReason())
	}
}

// attentive has the control at work all the time from then to now.
func attentive(r *Run, then, now time.Time) {
	for at := then; at.Before(now); at = at.Add(awakeInterval) {
		r.faults.awakeTime(at)
	}
}

// deafScheduler tells nothing new.
type deafScheduler struct{ tagnet.Scheduler }

func (deafScheduler) Stats() (core.Stats, error) { return core.Stats{}, context.DeadlineExceeded }

// Nodes that stop are waited for as long as one of them moves; then those that are not done are named, with what they
// have written.
func TestStopNamesStalledNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, sendReport := departRun(t)
		r.cfg.Output = "out/"
		ctx, cancel := stopwatch.WithStallTimeout(t.Context(), stopStallTimeout, r.ProgressCount, nil)
		defer cancel()
		began := time.Now()
		for s := range 600 {
			sendReport("b3", func(rep *nodev1.Report) {
				rep.Seat = &nodev1.Member{Builder: true}
				rep.Counters = map[string]uint64{node.CounterOutputWritten: uint64(s+1) * 1e6}
			})
			time.Sleep(time.Second)
		}
		for _, name := range []string{"r0", "r1", "b2", "b4"} {
			sendReport(name, func(rep *nodev1.Report) { rep.Final = true })
		}
		<-ctx.Done()
		if took := time.Since(began); took < 600*time.Second+stopStallTimeout-time.Second {
			t.Errorf("a stop that moved was cut after %v", took)
		}
		x := r.stallFault(ctx)
		if x == nil || x.Component != "b3" || !strings.Contains(x.What, "b3, which has written 600 MB of its output") {
			t.Errorf("the fault is %v", x)
		}
	})
}
