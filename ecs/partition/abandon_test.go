package partition_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// A run that is given up at somebody's wish is nobody's fault: every node is in Ready, though each sees its peers drop
// what they had.
func TestAbandonBlamesNobody(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 4, nil)
	h.mustCommand("load", "configure")
	for range cases.Count(5, 2) {
		h.mustCommand("start")
		h.awaitBuilt(0)
		if err := h.command("stop", "abandon", "true"); err != nil {
			t.Fatal(err)
		}
		for _, c := range h.Status().GetRoot().GetChildren() {
			if c.GetInError() || c.GetState() != "Ready" {
				t.Errorf("%s is in %s: %v", c.GetName(), c.GetState(), c.GetCause())
			}
		}
	}
}

// Somebody loses patience with a run that drains: its record says who gave it up, as where that was asked for at once.
func TestAbandonWhileItDrains(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, func(c *config.Config) {
		c.Output, c.Rate = fmt.Sprintf("buffer:unread-%d", os.Getpid()), 0 // it is full soon
	})
	h.mustCommand("load", "configure", "start")
	h.await("MEPs wait for a reader of the output", func() bool {
		before := h.Built()
		if h.InFlight() == 0 || before == 0 {
			return false
		}
		time.Sleep(time.Second)
		return h.InFlight() > 0 && h.Built() == before
	})
	stopped := make(chan error, 1)
	go func() { stopped <- h.command("stop") }()
	h.awaitState("Stopping")
	if err := h.command("stop", "abandon", "true"); err != nil {
		t.Fatal(err)
	}
	if err := patiently.Receive(t, stopped); err != nil {
		t.Fatal(err)
	}
	r := h.closedRun(1)
	if r.GetVerdict() != ecsv1.Verdict_VERDICT_ABORTED || r.GetCause().GetCode() != "abandoned" ||
		r.GetCause().GetComponent() != "alice" {
		t.Errorf("run 1 is %v, end %q, by %v", r.GetVerdict(), r.GetEnd(), r.GetCause())
	}
}
