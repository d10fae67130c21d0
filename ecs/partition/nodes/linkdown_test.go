package nodes

import (
	"errors"
	"testing"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// A node at rest that tells of a lost link has to be configured again before a run begins; one in another state, or
// degraded by something else, has not.
func TestLinkDown(t *testing.T) {
	of := func(subsystem string) *nodev1.Cause {
		return &nodev1.Cause{Component: "n1", Part: subsystem, What: "no answer"}
	}
	ready := fsm.Ready.String()
	for name, c := range map[string]struct {
		status *nodev1.Status
		want   bool
	}{
		"well":              {&nodev1.Status{State: ready}, false},
		"parked":            {&nodev1.Status{State: ready, Parked: true}, true},
		"without a link":    {&nodev1.Status{State: ready, Degraded: true, Cause: of(fault.SubsystemTransport)}, true},
		"by its process":    {&nodev1.Status{State: ready, Degraded: true, Cause: of(fault.SubsystemProcess)}, false},
		"parked, in a run":  {&nodev1.Status{State: fsm.Running.String(), Parked: true}, false},
		"not configured":    {&nodev1.Status{State: fsm.NotReady.String(), Parked: true}, false},
		"parked, in a step": {&nodev1.Status{State: fsm.Configuring.String(), Parked: true}, false},
	} {
		if got := linkDown(&nodev1.Report{Status: c.status}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node that was started anew is not one of the set any more: nobody waits for it, and no run begins without it but
// where its loss was tolerated.
func TestStartedAnewBeforeARunBegins(t *testing.T) {
	for name, c := range map[string]struct {
		at         string // where the cluster has it now
		allPresent bool
	}{
		"where it was":            {"127.0.0.1:1", true},
		"unknown to the cluster":  {"", true}, // gossip may be late, and its watch knows more
		"at another address":      {"127.0.0.1:2", false},
		"nobody asks the cluster": {"none", true},
	} {
		opts := Options{AddressOf: func(string) string { return c.at }}
		if c.at == "none" {
			opts.AddressOf = nil
		}
		nodeSet := NewNodeSet(opts, config.Completed{Config: config.Default()})
		entry := &nodev1.Member{GrpcAddress: "127.0.0.1:1"}
		nodeSet.nodes = []*member{{name: "n0", faults: nodeSet.faults, firstEntry: entry}}
		err := nodeSet.NewRun(7).goneBeforeStart()
		var x *fault.Error
		if nodeSet.AllPresent() != c.allPresent || (err == nil) != c.allPresent || err != nil &&
			(!errors.As(err, &x) || x.Component != "n0") {
			t.Errorf("%s: all present %v, %v", name, nodeSet.AllPresent(), err)
		}
	}
}
