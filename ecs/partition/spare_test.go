package partition_test

import (
	"slices"
	"testing"

	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// A node that nobody wants is a spare, and not excluded: nothing is said to be left out.
func TestSpares(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.Members, c.Nodes = "n0,n1", 2 })
	shown := func() (spare, out []string) {
		for _, c := range h.Status().GetRoot().GetChildren() {
			switch {
			case c.GetKind() != "node" || c.GetIncluded():
			case c.GetSpare():
				spare = append(spare, c.GetName())
			default:
				out = append(out, c.GetName())
			}
		}
		slices.Sort(spare)
		return spare, out
	}
	if spare, out := shown(); !slices.Equal(spare, []string{"n0", "n1", "n2"}) || out != nil {
		t.Errorf("before load: spares %v, excluded %v", spare, out)
	}
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	if spare, out := shown(); !slices.Equal(spare, []string{"n2"}) || out != nil {
		t.Errorf("in a run: spares %v, excluded %v", spare, out)
	}
	if slices.ContainsFunc(h.Snapshot(0).GetAlarms(), func(a *ecsv1.Alarm) bool { return a.GetRule() == "left-out" }) {
		t.Errorf("a spare is an alarm: %v", h.Snapshot(0).GetAlarms())
	}
	h.mustCommand("stop")
}

// TestSpareSubstitutes holds that a spare takes the units of a node that is lost in a run, that the node's own process
// takes them again when the spare is lost, and that the next run begins with a spare in place of a node that is gone.
func TestSpareSubstitutes(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 4, func(c *config.Config) {
		c.Members, c.Nodes, c.Spares = "n0,n1,n2", 3, config.SparesAuto
		c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 3", "at-least 2 of 3"
	})
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	h.endNode("n2")
	h.await("the spare substitutes", func() bool {
		return h.journalHas("back", "n3, a spare, substitutes for n2") && !h.Status().GetRoot().GetDegraded()
	})
	before = h.awaitBuilt(before + 20_000)
	h.await("n2 is missed", func() bool { return len(h.members.Members()) == 4 })
	h.startNode("n2")
	h.awaitJoined(4)
	if !slices.ContainsFunc(h.Status().GetRoot().GetChildren(), func(c *ecsv1.Component) bool {
		return c.GetName() == "n2" && c.GetFacts()["new_process"] != ""
	}) {
		t.Error("nothing shows the own process of n2, which is back")
	}
	h.endNode("n3")
	h.await("it is back", func() bool {
		return h.journalHas("back", "n2 was lost") && !h.Status().GetRoot().GetDegraded()
	})
	h.awaitBuilt(before + 20_000)
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
	h.await("n3 is missed", func() bool { return len(h.members.Members()) == 4 })
	h.startNode("n3")
	h.awaitJoined(4)
	h.endNode("n1")
	h.await("n1 is missed", func() bool { return len(h.members.Members()) == 4 })
	h.mustCommand("start")
	h.awaitBuilding(2)
	if got := h.substitutes(); !slices.Equal(got, []string{"n1 by n3"}) {
		t.Errorf("substitutes of the second run: %v", got)
	}
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// substitutes are the members for which another node substitutes.
func (h *farm) substitutes() (list []string) {
	for _, c := range h.Status().GetRoot().GetChildren() {
		if by := c.GetFacts()["substitute"]; by != "" {
			list = append(list, c.GetName()+" by "+by)
		}
	}
	return list
}

// TestMove holds that the units of a living node move to a spare within a run, and back between runs.
func TestMove(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 4, func(c *config.Config) {
		c.Members, c.Nodes = "n0,n1,n2", 3
		c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 3", "at-least 2 of 3"
	})
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	move := func(node, to string) error {
		_, err := h.Command(t.Context(), "alice", &ecsv1.CommandRequest{
			Command:   "move",
			Arguments: map[string]string{"node": node, "to": to},
		})
		return err
	}
	for _, refused := range [][2]string{{"n2", "n1"}, {"n2", "n9"}, {"n3", "n2"}, {"n2", "n2"}} {
		if err := move(refused[0], refused[1]); err == nil {
			t.Errorf("%v is not refused", refused)
		}
	}
	if err := move("n2", "n3"); err != nil {
		t.Fatal(err)
	}
	if got := h.substitutes(); !slices.Equal(got, []string{"n2 by n3"}) {
		t.Errorf("substitutes: %v", got)
	}
	dropped := func(node string) {
		h.await(node+", whose units another has, has closed its files", func() bool {
			state := h.report(node).GetStatus().GetState()
			return state != fsm.Running.String() && state != fsm.Stopping.String()
		})
	}
	dropped("n2")
	h.awaitBuilt(before + 20_000)
	if err := move("n2", "n2"); err != nil {
		t.Fatal(err)
	}
	dropped("n3")
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
	h.mustCommand("start")
	h.awaitBuilding(2)
	if got := h.substitutes(); len(got) > 0 {
		t.Errorf("substitutes of the second run: %v", got)
	}
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// TestMoveOfScheduler holds that the units of the node with the scheduler move within a run, in which another node
// takes the scheduler over, and that the node has the scheduler of a later run.
func TestMoveOfScheduler(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 4, func(c *config.Config) {
		c.Members, c.Nodes = "n0,n1,n2", 3
		c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 3", "at-least 2 of 3"
	})
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	if err := h.command("move", "node", "n0", "to", "n3"); err != nil {
		t.Fatal(err)
	}
	h.awaitBuilt(before + 20_000)
	if !h.journalHas("degraded", "n1 has taken over its scheduler") {
		t.Error("nobody tells who has the scheduler")
	}
	if err := h.command("move", "node", "n0", "to", "n0"); err != nil {
		t.Fatal(err)
	}
	h.awaitBuilt(h.Built())
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
	h.mustCommand("start")
	h.awaitBuilding(2)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}
