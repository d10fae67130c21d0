package partition_test

import (
	"errors"
	"strings"
	"testing"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/patiently"
)

// A control is lost after the nodes have finished a run, and before its record is closed: the one that comes back
// closes it with what they tell, says who cannot, and does not give it up.
func TestControlComesBackToAFinishedRun(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, func(c *config.Config) { c.Output = t.TempDir() + "/" })
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	full := errors.New("no space left on device")
	h.disk.fails.Store(&full) // the record stays open
	h.mustCommand("stop")
	h.stopControl()
	h.endNode("n0") // and the scheduler goes with its node
	patiently.Receive(t, h.gone["n0"])
	h.disk.fails.Store(nil)
	h.restartControl(0)
	r := h.closedRun(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_INCOMPLETE || r.GetEventsBuilt() == 0 ||
		r.GetCause().GetCode() != "control_lost" || !strings.Contains(r.GetCause().GetWhat(), "the scheduler on n0") {
		t.Errorf("run 1 is %v, end %q, %d events built: %v", r.GetVerdict(), r.GetEnd(), r.GetEventsBuilt(), r.GetCause())
	}
	h.startNode("n0")
	h.awaitJoined(2)
	h.mustCommand("start")
	h.awaitBuilding(2)
	h.mustCommand("stop")
	good(t, h.closedRun(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// A node that was started anew since the nodes ended a run cannot tell of it any more: that is said, and is no fault
// that ended the run.
func TestControlComesBackToNodesWithoutReports(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.ControlLoss = controlSilence })
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	h.stopControl()
	for _, name := range []string{"n0", "n1", "n2"} {
		h.await(name+" has ended the run by itself", func() bool { return h.report(name).GetFinal() })
	}
	h.endNode("n2")
	h.await("n2 is gone", func() bool { return h.nodeEnded("n2") })
	h.restartControl(0)
	r := h.closedRun(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_INCOMPLETE || r.GetEnd() != "control_lost" || r.GetEventsBuilt() == 0 ||
		!strings.HasSuffix(r.GetCause().GetWhat(), " n2") {
		t.Errorf("run 1 is %v, end %q, %d events built: %v", r.GetVerdict(), r.GetEnd(), r.GetEventsBuilt(), r.GetCause())
	}
	if h.state() != "Ready" {
		t.Errorf("it is %s, though the nodes that tell are Ready", h.state())
	}
}
