package partition_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ringlet/ecs/partition"
	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/patiently"
)

// A partition that may recover by itself begins a new run with the process that has taken the place of the one that was
// lost, as often as it is allowed, and then says that it does not.
func TestRecoversByItself(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 4, func(c *config.Config) {
		c.ReadoutLoss, c.BuilderLoss, c.Recovery = "expendable", "essential", "1 in 10m"
	})
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	h.endNode("n3")
	h.await("n3 has ended", func() bool { return h.nodeEnded("n3") })
	h.startNode("n3")
	h.awaitBuilding(2)
	if r := h.closedRun(1); r.GetVerdict() != ecsv1.Verdict_VERDICT_ABORTED || r.GetCause().GetComponent() != "n3" {
		t.Errorf("run 1: %v: %v", r.GetVerdict(), r.GetCause())
	}
	h.endNode("n2")
	h.awaitClosed(2)
	h.await("the partition stays in Error",
		func() bool { return h.state() == "Error" && h.journalHas("recovery", "does not try again by itself") })
	if r := h.closedRun(2); r.GetStartedBy() != partition.Recovery || r.GetCause().GetComponent() != "n2" {
		t.Errorf("run 2: started by %q, %v", r.GetStartedBy(), r.GetCause())
	}
}

// Nodes whose control does not come back in time end the run by themselves; the one that comes later closes its record,
// with the times at which they did.
func TestControlComesTooLate(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.ControlLoss = controlSilence })
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	left := time.Now() // the nodes count from somewhere in what follows
	h.stopControl()
	h.await("the nodes have ended the run", func() bool {
		return h.report("n0").GetFinal() && h.report("n1").GetFinal() && h.report("n2").GetFinal()
	})
	back := time.Now()
	h.restartControl(3)
	h.awaitState("Ready")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_GOOD, ecsrun.EndControlLost)
	r := h.closedRun(1)
	if r.GetCause().GetComponent() != nodes.ControlName ||
		!r.GetCause().GetAt().AsTime().Equal(r.GetStopBegun().AsTime()) {
		t.Errorf("the cause is %v, and stop began at %v", r.GetCause(), r.GetStopBegun().AsTime())
	}
	if begun, done := r.GetStopBegun().AsTime(), r.GetStopDone().AsTime(); begun.Before(left) || done.After(back) ||
		r.GetEndFound() {
		t.Errorf("the control was away from %v to %v; the end is told as %v to %v, found %v", left, back, begun, done,
			r.GetEndFound())
	}
	h.mustCommand("start")
	h.awaitBuilt(0)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// A control that comes back knows who is excluded, and what the policy still tolerates.
func TestControlComesBackToExclusions(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.BuilderLoss = "at-least 2 of 3" })
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	if err := h.command("exclude", "node", "n1"); err != nil {
		t.Fatal(err)
	}
	h.stopControl()
	h.restartControl(3)
	if !h.Status().GetRoot().GetDegraded() {
		t.Error("it has forgotten who is excluded")
	}
	if err := h.command("exclude", "node", "n2"); err == nil {
		t.Error("a second one is excluded, which the policy does not tolerate")
	}
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
	h.mustCommand("start")
	h.awaitBuilding(2)
	if h.Status().GetRoot().GetDegraded() {
		t.Error("everybody builds, and it is degraded")
	}
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// A control that comes back finds the configuration and the state of its partition, and the run that goes on.
func TestControlComesBack(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	again := func(want string) {
		t.Helper()
		h.stopControl()
		h.restartControl(2)
		if h.state() != want || want != "Offline" && h.Status().GetConfiguration() == "" {
			t.Errorf("it is %s, not %s; configuration %d bytes", h.state(), want, len(h.Status().GetConfiguration()))
		}
	}
	again("Offline")
	h.mustCommand("load")
	again("NotReady")
	h.mustCommand("configure")
	again("Ready")
	h.mustCommand("start")
	before := h.awaitBuilt(0)
	again("Running")
	h.awaitBuilt(before)
	h.mustCommand("pause")
	again("Paused")
	h.mustCommand("resume", "stop")
	again("Ready")
	h.mustCommand("start")
	h.awaitBuilding(2)
	h.mustCommand("stop", "reset")
	again("NotReady")
	h.mustCommand("unload")
	again("Offline")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_GOOD, "stopped")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// What cannot be understood any more does not keep a control from coming back.
func TestMemoryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	for _, text := range []string{"no JSON", `{"configuration":"no-such-setting: 1\n","asked":"nodes: 2\n"}`} {
		h.stopControl()
		h.startControl()
		if err := h.store.Remember("partition", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := h.Adopt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.state() != "Offline" || !h.journalHas("fault", "could not be taken up") {
			t.Errorf("%q: it is %s", text, h.state())
		}
	}
	h.awaitJoined(2)
	h.mustCommand("load", "unload")
}

// A control that is told to end while it takes the partition up leaves the run to the next control.
func TestControlEndsWhileItComesBack(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	h.stopControl()
	h.startControl()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Adopt(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it was told to end, and says %v", err)
	}
	h.stopControl()
	h.restartControl(2)
	if h.state() != "Running" {
		t.Fatalf("the next control finds it %s", h.state())
	}
	h.awaitBuilt(before)
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// The scheduler's node and the control are killed together: whichever comes back first, the run goes on.
func TestSchedulerAndControlComeBack(t *testing.T) {
	t.Parallel()
	for name, nodeFirst := range map[string]bool{"the node first": true, "the control first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFarm(t, 3, func(c *config.Config) {
				c.ReadoutLoss, c.BuilderLoss, c.ControlLoss = "at-least 2 of 3", "at-least 2 of 3", time.Hour
				c.Output = t.TempDir() + "/"
			})
			h.mustCommand("load", "configure", "start")
			h.awaitBuilt(0)
			h.stopControl()
			h.endNode("n0") // which has the scheduler
			patiently.Receive(t, h.gone["n0"])
			if nodeFirst {
				h.startNode("n0")
			}
			h.restartControl(0)
			if h.state() != "Running" || !h.Status().GetRoot().GetDegraded() {
				t.Errorf("it is %s, degraded %v", h.state(), h.Status().GetRoot().GetDegraded())
			}
			if !h.journalHas("degraded", "has taken over its scheduler") {
				t.Error("nobody tells of the successor")
			}
			h.awaitBuilt(h.Built())
			if !nodeFirst {
				h.startNode("n0")
			}
			h.await("n0 is back", func() bool { return h.journalHas("back", "n0 was lost") })
			h.awaitBuilt(h.Built())
			h.mustCommand("stop")
			r := h.closedRun(1)
			good(t, r, ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
			if r.GetCause().GetComponent() != "n0" {
				t.Errorf("the cause is %v", r.GetCause())
			}
		})
	}
}

// The scheduler's node is told to end: another node takes the scheduler over, and the node ends.
func TestSchedulerNodeLeaves(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) {
		c.ReadoutLoss, c.BuilderLoss, c.Output = "at-least 2 of 3", "at-least 2 of 3", t.TempDir()+"/"
	})
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	h.requestEnd("n0")
	h.await("it is let go", func() bool { return h.journalHas("left", "n0: it was told to end. n1 has taken over") })
	h.await("it has ended", func() bool { return h.nodeEnded("n0") })
	before := h.awaitBuilt(h.Built())
	h.startNode("n0")
	h.await("it is back", func() bool { return h.journalHas("back", "n0 was lost") })
	h.awaitBuilt(before)
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
}
