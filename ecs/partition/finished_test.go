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
	h := newHouse(t, 2, func(c *config.Config) { c.Output = t.TempDir() + "/" })
	h.must("load", "configure", "start")
	h.built(0)
	full := errors.New("no space left on device")
	h.disk.fails.Store(&full) // the record stays open
	h.must("stop")
	h.leave()
	h.end("n0") // and the scheduler goes with its node
	patiently.Receive(t, h.gone["n0"])
	h.disk.fails.Store(nil)
	h.back(0)
	r := h.run(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_INCOMPLETE || r.GetEventsBuilt() == 0 ||
		r.GetCause().GetCode() != "control_lost" || !strings.Contains(r.GetCause().GetWhat(), "the scheduler on n0") {
		t.Errorf("run 1 is %v, end %q, %d events built: %v", r.GetVerdict(), r.GetEnd(), r.GetEventsBuilt(), r.GetCause())
	}
	h.node("n0")
	h.joined(2)
	h.must("start")
	h.builds(2)
	h.must("stop")
	good(t, h.run(2), ecsv1.Verdict_VERDICT_GOOD, "stopped")
}

// A node that was started anew since the nodes ended a run cannot tell of it any more: that is said, and is no fault
// that ended the run.
func TestControlComesBackToNodesThatCannotTell(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 3, func(c *config.Config) { c.ControlLoss = silence })
	h.must("load", "configure", "start")
	h.built(0)
	h.leave()
	for _, name := range []string{"n0", "n1", "n2"} {
		h.until(name+" has ended the run by itself", func() bool { return h.told(name).GetFinal() })
	}
	h.end("n2")
	h.until("n2 is gone", func() bool { return h.ended("n2") })
	h.back(0)
	r := h.run(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_INCOMPLETE || r.GetEnd() != "control_lost" || r.GetEventsBuilt() == 0 ||
		!strings.HasSuffix(r.GetCause().GetWhat(), " n2") {
		t.Errorf("run 1 is %v, end %q, %d events built: %v", r.GetVerdict(), r.GetEnd(), r.GetEventsBuilt(), r.GetCause())
	}
	if h.state() != "Ready" {
		t.Errorf("it is %s, though the nodes that tell are Ready", h.state())
	}
}
