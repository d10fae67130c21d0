package partition_test

import (
	"slices"
	"testing"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// The loss of the node with the scheduler ends the run and is its cause; the others are parked in Ready. Where the
// policies bear it, the next run has the scheduler on another node.
func TestNodeWithTheSchedulerIsLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 3, func(c *config.Config) { c.ReadoutLoss, c.BuilderLoss = "at-least 2 of 3", "at-least 2 of 3" })
	h.must("load", "configure", "start")
	h.built(0)
	h.end("n0")
	h.reaches("Error")
	r := h.over(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_ABORTED || r.GetCause().GetComponent() != "n0" ||
		r.GetCause().GetWhat() == "" {
		t.Errorf("%v: %v", r.GetVerdict(), r.GetCause())
	}
	h.until("the others are at rest", func() bool {
		ready := 0
		for _, c := range h.Status().GetRoot().GetChildren() {
			if c.GetKind() == "node" && c.GetName() != "n0" && c.GetState() == "Ready" {
				ready++
			}
		}
		return ready == 2
	})
	for _, c := range h.Status().GetRoot().GetChildren() {
		if c.GetKind() == "node" && c.GetName() != "n0" && c.GetInError() {
			t.Errorf("%s is in Error for the fault of another: %v", c.GetName(), c.GetCause())
		}
	}
	h.until("n0 is missed", func() bool { return len(h.members.Members()) == 3 })
	h.must("recover", "configure", "start")
	h.builds(2)
	h.must("stop")
	r = h.run(2)
	if !slices.Equal(r.GetNodes(), []string{"n1", "n2"}) || r.GetVerdict() != ecsv1.Verdict_VERDICT_DEGRADED ||
		r.GetEventsBuilt() == 0 || r.GetCause().GetComponent() != "n0" {
		t.Errorf("the next run: %v, nodes %v, %d events, %v", r.GetVerdict(), r.GetNodes(), r.GetEventsBuilt(), r.GetCause())
	}
}
