package partition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/ecs/api"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// good holds what every run that went well has on record.
func good(t *testing.T, r *ecsv1.Run, verdict ecsv1.Verdict, end string) {
	t.Helper()
	if r.GetVerdict() != verdict || r.GetEnd() != end || r.GetEventsBuilt() == 0 {
		t.Errorf("run %d: %v, end %q, %d events built, cause %v", r.GetNumber(), r.GetVerdict(), r.GetEnd(),
			r.GetEventsBuilt(), r.GetCause())
	}
	for _, a := range r.GetAccounts() {
		if !a.GetOk() {
			t.Errorf("run %d: %s: %d ≠ %d", r.GetNumber(), a.GetName(), a.GetLeft(), a.GetRight())
		}
	}
	for _, name := range []string{"control", "n0"} {
		if r.GetVersions()[name] == "" {
			t.Errorf("run %d: no version of %s", r.GetNumber(), name)
		}
	}
	four := []time.Time{r.GetStartBegun().AsTime(), r.GetStartDone().AsTime(), r.GetStopBegun().AsTime(),
		r.GetStopDone().AsTime()}
	if !slices.IsSortedFunc(four, time.Time.Compare) {
		t.Errorf("run %d: its times are not in order: %v", r.GetNumber(), four)
	}
	if r.GetConfigurationHash() == "" || !strings.Contains(r.GetConfiguration(), "packing: 500") {
		t.Errorf("run %d: the frozen configuration is %q", r.GetNumber(), r.GetConfiguration())
	}
}

// A shift: two runs on one configuration, with a pause, and the way back.
func TestTwoRunsAndTheWayBack(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, nil)
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	h.mustCommand("pause")
	if h.state() != "Paused" {
		t.Errorf("paused, it is %s", h.state())
	}
	h.mustCommand("resume")
	h.awaitBuilt(before + 5000)
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_GOOD, "stopped")
	if r := h.closedRun(1); r.GetStartedBy() != "alice" || r.GetStoppedBy() != "alice" {
		t.Errorf("started by %q, stopped by %q", r.GetStartedBy(), r.GetStoppedBy())
	}
	h.mustCommand("start")
	h.awaitBuilding(2)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
	h.mustCommand("reset", "configure", "reset", "unload")
	if h.state() != "Offline" {
		t.Errorf("after unload it is %s", h.state())
	}
	h.mustCommand("load", "unload")
}

// A run that has its end in the configuration stops by itself.
func TestRunsEndByThemselves(t *testing.T) {
	for end, change := range map[string]func(*config.Config){
		"events":   func(c *config.Config) { c.Events = 20_000 },
		"duration": func(c *config.Config) { c.Duration = 300 * time.Millisecond },
	} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			h := newFarm(t, 2, change)
			h.mustCommand("load", "configure", "start")
			h.awaitClosed(1)
			h.awaitState("Ready")
			good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_GOOD, end)
		})
	}
}

// Every command in every stable state: what the table allows is obeyed, what it forbids is refused and names the state.
func TestEveryCommandInEveryState(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	reach := map[fsm.State][]string{
		fsm.Offline: {}, fsm.NotReady: {"load"}, fsm.Ready: {"load", "configure"},
		fsm.Running: {"load", "configure", "start"},
		fsm.Paused:  {"load", "configure", "start", "pause"},
	}
	home := func() {
		for h.state() != "Offline" {
			back := map[string]string{"Paused": "stop", "Running": "stop", "Ready": "reset", "NotReady": "unload"}[h.state()]
			h.mustCommand(back)
		}
	}
	for state, way := range reach {
		for _, c := range fsm.Commands() {
			if h.state() != state.String() { // what is refused changes nothing
				home()
				h.mustCommand(way...)
			}
			plan := h.Plan(t.Context(), &ecsv1.CommandRequest{Command: c.String()})
			err := h.command(c.String())
			switch effect := fsm.EffectOf(state, c); effect {
			case fsm.CommandRefused:
				var refused *api.PreconditionError
				if !errors.As(err, &refused) || refused.State != state.String() || !strings.Contains(err.Error(), state.String()) {
					t.Errorf("%s in %s: %v", c, state, err)
				}
				if plan.GetPossible() {
					t.Errorf("%s in %s is refused, and planned: %v", c, state, plan)
				}
			default:
				if err != nil || !plan.GetPossible() {
					t.Errorf("%s in %s: %v, planned %v", c, state, err, plan)
				}
				want := state
				if effect == fsm.TransitionBegun {
					want = fsm.Transitions()[c-fsm.Load].To
				}
				if h.state() != want.String() {
					t.Errorf("%s in %s led to %s", c, state, h.state())
				}
			}
		}
	}
	home()
}

// The loss of a node that the policy does not tolerate, in the first run or in a later one with the same links, ends
// the run and names it; the others are parked in Ready, and in no Error of theirs. So does that of the node with the
// scheduler; with other policies, the next run has the scheduler on another node.
func TestNodeIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		run  uint32
		node string
	}{
		"in the first run":   {1, "n2"},
		"in a later run":     {2, "n2"},
		"with the scheduler": {1, "n0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFarm(t, 3, nil)
			h.mustCommand("load", "configure", "start")
			h.awaitBuilt(0)
			if c.run == 2 {
				h.mustCommand("stop", "start")
				h.awaitBuilding(2)
			}
			h.endNode(c.node)
			h.awaitState("Error")
			r := h.awaitClosed(c.run)
			if r.GetVerdict() != ecsv1.Verdict_VERDICT_ABORTED || r.GetCause().GetComponent() != c.node ||
				r.GetCause().GetWhat() == "" || r.GetCause().GetPart() == "" {
				t.Errorf("%v: %v", r.GetVerdict(), r.GetCause())
			}
			h.await("the others are at rest", func() bool {
				ready := 0
				for _, n := range h.Status().GetRoot().GetChildren() {
					if n.GetKind() != "node" || n.GetName() == c.node {
						continue
					}
					if n.GetInError() {
						t.Fatalf("%s is in Error for the fault of another: %v", n.GetName(), n.GetCause())
					}
					if n.GetState() == "Ready" {
						ready++
					}
				}
				return ready == 2
			})
			h.startNode(c.node)
			h.awaitJoined(3)
			h.mustCommand("recover", "configure", "start")
			h.awaitBuilding(c.run + 1)
			h.mustCommand("stop")
			good(t, h.closedRun(c.run+1), ecsv1.Verdict_VERDICT_GOOD, "stopped")
		})
	}
}

// The node with the scheduler is lost where the policies tolerate that: another node takes the scheduler over, the run
// goes on and its accounts close; the lost node comes back into it; and the next run has its scheduler on its own node.
func TestSchedulerIsTakenOver(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(cfg *config.Config) {
		cfg.ReadoutLoss, cfg.BuilderLoss = "at-least 2 of 3", "at-least 2 of 3"
	})
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	h.endNode("n0")
	h.await("n1 has the scheduler", func() bool { return h.Snapshot(0).GetScheduler().GetNode() == "n1" })
	h.await("it is told", func() bool { return h.journalHas("degraded", "n1 has taken over its scheduler") })
	before = h.awaitBuilt(before + 20_000)
	h.startNode("n0")
	h.await("n0 is back", func() bool { return h.journalHas("back", "n0") })
	h.awaitBuilt(before + 20_000)
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
}

// A builder unit whose loss the policy tolerates: the run goes on without it, degraded, and says so.
func TestToleratedNodeIsLost(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 5, func(c *config.Config) { c.RUs, c.BUs, c.BuilderLoss = 2, 3, "at-least 2 of 3" })
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	h.endNode("n4")
	h.await("the loss is known", func() bool { return h.Status().GetRoot().GetDegraded() })
	h.await("the loss is an alarm", func() bool {
		return slices.ContainsFunc(h.Snapshot(0).GetAlarms(),
			func(a *ecsv1.Alarm) bool { return a.GetRule() == "degraded" && a.GetComponent() == "n4" })
	})
	if n := len(h.Snapshot(2).GetHistory()); n == 0 || n > 2 {
		t.Errorf("%d samples of the last 2", n)
	}
	h.awaitBuilt(before + 20_000)
	h.mustCommand("stop")
	r := h.closedRun(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_DEGRADED || r.GetCause().GetComponent() != "n4" {
		t.Errorf("%v: %v; accounts %v", r.GetVerdict(), r.GetCause(), r.GetAccounts())
	}
	h.mustCommand("reset", "configure", "start")
	h.awaitBuilding(2)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
}

// A node that is told to end in a run leaves it degraded, or ends it in good order; the record says who it was.
func TestNodeEndIsRequested(t *testing.T) {
	for name, c := range map[string]struct {
		node    string
		loss    string
		verdict ecsv1.Verdict
		end     string
	}{
		"borne":             {"n3", "at-least 1 of 2", ecsv1.Verdict_VERDICT_DEGRADED, "stopped"},
		"essential":         {"n3", "essential", ecsv1.Verdict_VERDICT_GOOD, "node_leaving"},
		"a readout unit":    {"n1", "at-least 1 of 2", ecsv1.Verdict_VERDICT_GOOD, "node_leaving"},
		"with the schedule": {"n0", "at-least 1 of 2", ecsv1.Verdict_VERDICT_GOOD, "node_leaving"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFarm(t, 4, func(cfg *config.Config) {
				cfg.RUs, cfg.BUs, cfg.BuilderLoss, cfg.Output = 2, 2, c.loss, t.TempDir()+"/"
			})
			h.mustCommand("load", "configure", "start")
			before := h.awaitBuilt(0)
			h.await("n3 has built", func() bool {
				return slices.ContainsFunc(h.Snapshot(0).GetNodes(), func(n *ecsv1.NodeFigures) bool {
					return n.GetName() == "n3" && n.GetCounters()["bu.meps_built"] > 0
				})
			})
			h.requestEnd(c.node)
			if c.end == "stopped" {
				h.await("the run is degraded", func() bool { return h.Status().GetRoot().GetDegraded() })
				h.awaitBuilt(before + 20_000)
				h.await("it has left", func() bool { return h.journalHas("left", "in good order") })
				if err := h.command("include", "node", c.node); err == nil || !strings.Contains(err.Error(), "told to end") {
					t.Errorf("a node that has left is included: %v", err)
				}
				h.mustCommand("stop")
			}
			r := h.awaitClosed(1)
			good(t, r, c.verdict, c.end)
			if r.GetCause().GetComponent() != c.node || r.GetCause().GetCode() != "leaving" {
				t.Errorf("the cause is %v", r.GetCause())
			}
			report := &nodes.Report{}
			if err := json.Unmarshal([]byte(r.GetReportJson()), report); err != nil {
				t.Fatal(err)
			}
			if report.FirstLoss != nil || len(report.Leavers) != 1 || report.Leavers[0] != c.node {
				t.Errorf("lost %v, told to end %v", report.FirstLoss, report.Leavers)
			}
			var written uint64
			for _, n := range report.Counters {
				written += n.Counters["bu.output_events"]
				if n.Node == "n3" && n.Counters["bu.output_events"] == 0 || n.Counters["bu.meps_incomplete"] != 0 ||
					n.Counters["ru.writes_lost"] != 0 {
					t.Errorf("%s has %d events in its output, %d MEPs incomplete, %d writes lost", n.Node,
						n.Counters["bu.output_events"],
						n.Counters["bu.meps_incomplete"], n.Counters["ru.writes_lost"])
				}
			}
			if written < r.GetEventsBuilt() {
				t.Errorf("%d events built, %d written", r.GetEventsBuilt(), written)
			}
			if h.journalHas("degraded", "goes on without") {
				t.Error("a node that leaves in good order is told as lost")
			}
		})
	}
}

// A builder unit is excluded and included while the run goes on.
func TestExcludeAndInclude(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.BuilderLoss = "at-least 2 of 3" })
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	if err := h.command("exclude", "node", "n1"); err != nil {
		t.Fatal(err)
	}
	if !h.Status().GetRoot().GetDegraded() {
		t.Error("nothing says that a builder unit is missing")
	}
	var refused *api.PreconditionError
	if err := h.command("exclude", "node", "n2"); !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "at-least 2 of 3") {
		t.Errorf("a second one: %v", err)
	}
	h.awaitBuilt(h.awaitBuilt(0) + 20_000)
	if err := h.command("include", "node", "n1"); err != nil {
		t.Fatal(err)
	}
	if h.Status().GetRoot().GetDegraded() {
		t.Error("everybody takes part, and it is degraded")
	}
	h.awaitBuilt(h.awaitBuilt(0) + 20_000)
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
}

// The high-water marks of the scheduler are cleared in a run, and say who did it; the accounts still balance.
func TestClearRegisters(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	var refused *api.PreconditionError
	if err := h.command("clear-registers"); !errors.As(err, &refused) {
		t.Errorf("without a run: %v", err)
	}
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	h.mustCommand("clear-registers")
	h.await("the clear in the figures", func() bool { return h.Snapshot(0).GetScheduler().GetCleared() != nil })
	s := h.Snapshot(1)
	sched := s.GetScheduler()
	if c := sched.GetCleared(); c.GetUser() != "alice" || !c.GetAt().IsValid() || c.GetCounters()["issued"] == 0 {
		t.Errorf("the clear is %v", c)
	}
	if len(sched.GetQueues()) != 6 || len(sched.GetGroups()) != 2 || len(s.GetHistory()[0].GetFreeSlots()) != 2 {
		t.Errorf("the registers are %v", sched)
	}
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// A run has as many events as there were triggers, by datagrams and by hand, also those taken in a pause.
func TestTriggers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t")
	h := newFarm(t, 2, func(c *config.Config) { c.Packing, c.Rate, c.Trigger = 1, 0, "unix:"+path })
	h.mustCommand("load", "configure", "start")
	from, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := from.Write(nil); err != nil {
			t.Fatal(err)
		}
	}
	built := func(n uint64) {
		h.await(fmt.Sprintf("%d events", n), func() bool { return h.Snapshot(0).GetTotal().GetEventsBuilt() == n })
	}
	built(5)
	if err := h.command("trigger", "count", "3"); err != nil {
		t.Fatal(err)
	}
	built(8)
	h.mustCommand("pause", "trigger", "stop")
	r := h.closedRun(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_GOOD || r.GetEventsBuilt() != 9 {
		t.Errorf("%d events are built of 9 triggers, and the run is %v", r.GetEventsBuilt(), r.GetVerdict())
	}
	var wrong *api.ArgumentError
	if err := h.command("trigger"); err == nil {
		t.Error("a trigger is taken without a run")
	}
	h.mustCommand("start")
	if err := h.command("trigger", "count", "0"); !errors.As(err, &wrong) {
		t.Errorf("no trigger: %v", err)
	}
	h.mustCommand("stop")
	_ = from.Close()
}

// A node that dies between two runs is missed by the next start: refused where the policy does not tolerate it, left
// out where it does.
func TestLostBetweenRuns(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 3", "at-least 2 of 3" })
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	h.mustCommand("stop")
	h.endNode("n1")
	h.await("n1 is missed", func() bool { return len(h.members.Members()) == 3 })
	h.mustCommand("start")
	h.awaitBuilding(2)
	if !h.Status().GetRoot().GetDegraded() {
		t.Error("nothing says that a node is missing")
	}
	h.mustCommand("stop")
	if r := h.closedRun(2); !slices.Equal(r.GetNodes(), []string{"n0", "n2"}) {
		t.Errorf("the nodes of run 2 are %v", r.GetNodes())
	}
	h.endNode("n2")
	h.await("n2 is missed", func() bool { return len(h.members.Members()) == 2 })
	if err := h.command("start"); err == nil || !strings.Contains(err.Error(), "readout-loss: 1 of 3") {
		t.Errorf("one of three: %v", err)
	}
}

// A node is started anew between two runs that need it: the next start configures by itself, and the run is good.
func TestStartedAnewBetweenRuns(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, nil)
	h.mustCommand("load", "configure", "start")
	h.awaitBuilding(1)
	h.mustCommand("stop")
	h.endNode("n1")
	h.await("n1 has ended", func() bool { return h.nodeEnded("n1") && len(h.members.Members()) == 3 })
	h.startNode("n1")
	h.awaitJoined(3)
	h.mustCommand("start")
	h.awaitBuilding(2)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}
