package partition_test

import (
	"strings"
	"testing"

	"ringlet/ecs/partition"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// TestNodesOfOneProcess holds that nodes which share a process take part each by itself, that the run goes on without
// all of them when the process ends, and that all come back with it.
func TestNodesOfOneProcess(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"quic", "local"} {
		t.Run(transport, func(t *testing.T) {
			h := newFarmOf(t, []string{"n0", "n0.1", "n1", "n1.1", "n2"}, nil, func(c *config.Config) {
				c.ReadoutLoss, c.BuilderLoss, c.Transport = "at-least 2 of 5", "at-least 2 of 5", transport
			})
			h.mustCommand("load", "configure", "start")
			before := h.awaitBuilt(0)
			h.endNode("n1")
			h.await("both losses are known", func() bool { return len(h.lostNodes()) == 2 })
			if lost := strings.Join(h.lostNodes(), " "); lost != "n1 n1.1" {
				t.Errorf("%s are lost", lost)
			}
			before = h.awaitBuilt(before + 20_000)
			h.await("both are missed", func() bool { return len(h.members.Members()) == 4 })
			h.startNode("n1")
			h.await("both are back", func() bool {
				return h.journalHas("back", "n1 was lost") && h.journalHas("back", "n1.1 was lost") &&
					!h.Status().GetRoot().GetDegraded()
			})
			h.awaitBuilt(before + 20_000)
			h.mustCommand("stop")
			good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
			h.mustCommand("start")
			h.awaitBuilding(2)
			h.mustCommand("stop")
			good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
		})
	}
}

// TestSchedulerLeavesItsProcess holds that the successor of a scheduler is on no node of the process that was lost.
func TestSchedulerLeavesItsProcess(t *testing.T) {
	t.Parallel()
	h := newFarmOf(t, []string{"n0", "n0.1", "n1", "n1.1"}, nil, func(c *config.Config) {
		c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 4", "at-least 2 of 4"
	})
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	h.endNode("n0")
	h.await("it is taken over", func() bool { return h.journalHas("degraded", "n1 has taken over") })
	h.awaitBuilt(before + 20_000)
	h.mustCommand("stop")
	good(t, h.closedRun(1), ecsv1.Verdict_VERDICT_DEGRADED, "stopped")
}

// lostNodes are the nodes that the status shows as lost.
func (h *farm) lostNodes() (names []string) {
	for _, c := range h.Status().GetRoot().GetChildren() {
		if c.GetKind() == "node" && c.GetState() == "lost" {
			names = append(names, c.GetName())
		}
	}
	return names
}

// TestSpareOfAnotherProcess holds that a member has a spare of its own process only if there is no other.
func TestSpareOfAnotherProcess(t *testing.T) {
	cfg, err := config.Compose("x", []byte("members: 'n0,n1'\nnodes: 2\nspares: auto"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for joined, want := range map[string]string{
		"n0:both n1.1:spare n2:spare": "n2", "n0:both n1.1:spare": "n1.1", "n0:both n2:spare n3:spare": "n2",
	} {
		there := joinedAs(joined)
		got := partition.Substitutes(&cfg, []string{"n0", "n1"}, nil, nil, there)["n1"].Name
		if got != want {
			t.Errorf("with %s, %q substitutes for n1, want %s", joined, got, want)
		}
	}
}
