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
	h := newHouse(t, 2, func(c *config.Config) { c.Members = "n0,n1" })
	says := func(after, want string) {
		t.Helper()
		if why := h.Status().GetNoRun(); (why == nil) != (want == "") || !strings.Contains(why.GetWhat(), want) {
			t.Errorf("after %s: %v", after, why)
		}
	}
	h.must("load", "configure", "start")
	h.built(0)
	if err := h.ask("load", "settings", "packng=3"); err == nil {
		t.Error("a configuration that is none was taken")
	}
	says("a load that is refused in a run", "")
	h.must("stop", "reset", "unload")
	says("a run", "")
	if err := h.ask("load", "settings", "packng=3"); err == nil {
		t.Error("a configuration that is none was taken")
	}
	says("a load that is refused", "packng")
	if err := h.ask("start"); err == nil {
		t.Error("it was started in Offline")
	}
	says("a start that is refused", "cannot start in state Offline")
	h.must("load")
	says("a load", "")
	h.end("n1")
	h.until("n1 is missed", func() bool { return len(h.members.Members()) == 2 })
	if err := h.ask("configure"); err == nil {
		t.Error("it was configured without n1")
	}
	says("a configure that is refused", "readout-loss")
	h.node("n1")
	h.joined(2)
	h.must("configure", "start")
	says("a start", "")
	h.must("stop")
	if r := h.run(2); r.GetVerdict() != ecsv1.Verdict_VERDICT_GOOD {
		t.Errorf("run 2: %v", r)
	}
}
