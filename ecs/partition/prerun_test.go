package partition_test

import (
	"strings"
	"testing"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Why the run that was asked for last has not come about is told until one does: whoever waits for its end must not be
// told of another's.
func TestNoRun(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, func(c *config.Config) { c.Members = "n0,n1" })
	says := func(after, want string) {
		t.Helper()
		if why := h.Status().GetNoRun(); (why == nil) != (want == "") || !strings.Contains(why.GetWhat(), want) {
			t.Errorf("after %s: %v", after, why)
		}
	}
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	if err := h.command("load", "settings", "packng=3"); err == nil {
		t.Error("a configuration that is none was taken")
	}
	says("a load that is refused in a run", "")
	h.mustCommand("stop", "reset", "unload")
	says("a run", "")
	if err := h.command("load", "settings", "packng=3"); err == nil {
		t.Error("a configuration that is none was taken")
	}
	says("a load that is refused", "packng")
	if err := h.command("start"); err == nil {
		t.Error("it was started in Offline")
	}
	says("a start that is refused", "cannot start in state Offline")
	h.mustCommand("load")
	says("a load", "")
	h.endNode("n1")
	h.await("n1 is missed", func() bool { return len(h.members.Members()) == 2 })
	if err := h.command("configure"); err == nil {
		t.Error("it was configured without n1")
	}
	says("a configure that is refused", "readout-loss")
	h.startNode("n1")
	h.awaitJoined(2)
	h.mustCommand("configure", "start")
	says("a start", "")
	h.mustCommand("stop")
	if r := h.closedRun(2); r.GetVerdict() != ecsv1.Verdict_VERDICT_GOOD {
		t.Errorf("run 2: %v", r)
	}
}
