package nodes

import (
	"testing"

	"ringlet/ecs/partition/fault"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// A node at rest that tells of a lost link has to be configured again before a run begins; one in another state, or
// degraded by something else, has not.
func TestLinkDown(t *testing.T) {
	of := func(part string) *nodev1.Cause { return &nodev1.Cause{Component: "n1", Part: part, What: "no answer"} }
	ready := fsm.Ready.String()
	for name, c := range map[string]struct {
		status *nodev1.Status
		want   bool
	}{
		"well":              {&nodev1.Status{State: ready}, false},
		"parked":            {&nodev1.Status{State: ready, Parked: true}, true},
		"without a link":    {&nodev1.Status{State: ready, Degraded: true, Cause: of(fault.PartTransport)}, true},
		"by its process":    {&nodev1.Status{State: ready, Degraded: true, Cause: of(fault.PartProcess)}, false},
		"parked, in a run":  {&nodev1.Status{State: fsm.Running.String(), Parked: true}, false},
		"not configured":    {&nodev1.Status{State: fsm.NotReady.String(), Parked: true}, false},
		"parked, in a step": {&nodev1.Status{State: fsm.Configuring.String(), Parked: true}, false},
	} {
		if got := linkDown(&nodev1.Report{Status: c.status}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
