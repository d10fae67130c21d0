package partition_test

import (
	"testing"
	"time"

	"ringlet/node/config"
)

// Members that are missing are waited for once by a command: not by what may refuse it, and then by its step again.
func TestMembersAreAwaitedOnce(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, func(c *config.Config) {
		c.Nodes, c.Members, c.ReadoutLoss, c.BuilderLoss = 3, "n0,n1,n7", "at-least 2 of 3", "at-least 2 of 3"
	})
	for _, command := range []string{"load", "configure"} {
		begun := time.Now()
		h.mustCommand(command)
		if until := h.Awaits(); until.Before(begun) || until.After(time.Now()) {
			t.Errorf("%s began at %v; n7 was waited for until %v, and it is %v", command, begun, until, time.Now())
		}
	}
	h.startNode("n7")
	h.awaitJoined(3)
	h.mustCommand("reset", "configure")
	if h.Status().GetRoot().GetDegraded() {
		t.Error("everybody takes part, and it is degraded")
	}
}
