package partition_test

import (
	"strings"
	"testing"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// TestFoldedNodeComesBack holds that a run goes on without a node with both units where both policies allow that, and
// that the node takes part again when its process is started.
func TestFoldedNodeComesBack(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 3", "at-least 2 of 3" })
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	h.endNode("n2")
	h.await("the loss is known", func() bool { return h.Status().GetRoot().GetDegraded() })
	before = h.awaitBuilt(before + 20_000)
	if !h.journalHas("degraded", "Events lack its fragments (source") {
		t.Errorf("the journal does not say what the loss costs: %v", h.journal.EventsSince(0))
	}
	h.await("it is missed", func() bool { return len(h.members.Members()) == 3 })
	h.startNode("n2")
	h.await("it is back", func() bool {
		return h.journalHas("back", "n2 was lost") && !h.Status().GetRoot().GetDegraded()
	})
	h.awaitBuilt(before + 20_000)
	h.mustCommand("stop")
	r := h.closedRun(1)
	good(t, r, ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
	if r.GetCause().GetComponent() != "n2" || !strings.Contains(r.GetVerdictWhy(), "n2") {
		t.Errorf("%v; %s", r.GetCause(), r.GetVerdictWhy())
	}
	h.mustCommand("start")
	h.awaitBuilding(2)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// TestTwoNodesComeBack holds that two nodes which are lost together both take part again: the second one that returns
// learns that the first was gone, and keeps its link to it. Two nodes with builder units alone have no such link.
func TestTwoNodesComeBack(t *testing.T) {
	t.Parallel()
	for name, readouts := range map[string]int{"folded": 4, "builder units alone": 1} {
		t.Run(name, func(t *testing.T) {
			h := newFarm(t, 4, func(c *config.Config) {
				c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 4", "at-least 2 of 4"
				if readouts == 1 {
					c.RUs, c.BUs, c.ReadoutLoss, c.BuilderLoss = 1, 3, "essential", "at-least 1 of 3"
				}
			})
			h.mustCommand("load", "configure", "start")
			before := h.awaitBuilt(0)
			h.endNode("n3")
			h.endNode("n1")
			h.await("both losses are known", func() bool {
				return h.journalHas("degraded", "without n1") && h.journalHas("degraded", "without n3")
			})
			before = h.awaitBuilt(before + 20_000)
			h.await("both are missed", func() bool { return len(h.members.Members()) == 3 })
			h.startNode("n3")
			h.startNode("n1")
			h.await("both are back", func() bool {
				return h.journalHas("back", "n1 was lost") && h.journalHas("back", "n3 was lost") &&
					!h.Status().GetRoot().GetDegraded()
			})
			h.awaitBuilt(before + 20_000)
			h.mustCommand("stop")
			good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
		})
	}
}
