package partition_test

import (
	"slices"
	"testing"

	"ringlet/node/config"
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
