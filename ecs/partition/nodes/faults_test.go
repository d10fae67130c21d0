package nodes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

func TestFaultsCollect(t *testing.T) {
	f := usualFaults(false)
	f.updateCore((*fault.Core).AcceptReports)
	said := func(node, state string, c *nodev1.Cause) {
		f.observeReport(node, &nodev1.Report{Status: &nodev1.Status{State: state, Cause: c}}, true)
	}
	ended := func(node string) fault.Observation {
		return fault.Observation{Kind: fault.ProcessEndSeen, Fault: fault.Fault{Component: node, What: "its process ended"}}
	}
	said("n0", "Running", nil)
	if f.cause() != nil || f.AwaitCause() != nil {
		t.Fatal("a running node is no fault")
	}
	said("n0", "Error", &nodev1.Cause{Component: "n1", Part: "transport", What: "link down"})
	if c := f.cause(); c.Subsystem != "transport" {
		t.Errorf("it is of the part %q", c.Subsystem)
	}
	select {
	case <-f.Faulted():
	default:
		t.Fatal("a node in Error is a fault")
	}
	f.observe(ended("n1"))
	if c := f.AwaitCause(); c.Component != "n1" || c.What != "its process ended" || len(c.Followed) != 1 {
		t.Errorf("the cause is %v, which %v followed", c, c.Followed)
	}
	f.updateCore((*fault.Core).IgnoreFaults)
	f.observe(ended("n0"))
	if c := f.cause(); c.Component != "n1" || !f.Presence("n0").ProcessEnded {
		t.Error("after the silence an end is noted and is no fault")
	}
	f.clearIfIgnoring()
	select {
	case <-f.Faulted():
		t.Error("what struck a run strikes the next one")
	default:
	}
	f.observe(fault.Observation{Kind: fault.SelfReported, Fault: fault.Fault{Component: "n1", What: "disk full"}})
	f.clearIfIgnoring() // before a run, what has struck since is not forgotten
	if c := f.cause(); c == nil || c.What != "disk full" {
		t.Errorf("in the next run the cause is %v", c)
	}
}

func TestFaultOfCommands(t *testing.T) {
	failed := func(node string, c *nodev1.Cause) error {
		st := status.New(codes.Aborted, "in many words")
		if c != nil {
			with, err := st.WithDetails(c)
			if err != nil {
				t.Fatal(err)
			}
			st = with
		}
		return &commandError{Node: node, Command: nodev1.Command_COMMAND_CONFIGURE, Err: st.Err()}
	}
	r := &NodeSet{faults: usualFaults(false)}
	for name, c := range map[string]struct {
		err             error
		want, subsystem string
	}{
		"by itself": {failed("n0", &nodev1.Cause{
			Component: "n0",
			Part:      "memory",
			What:      "no memory",
			Evidence:  "seen",
		}),
			"n0: no memory (seen)", "memory"},
		"the guilty one first": {errors.Join(nil, failed("n0", &nodev1.Cause{Component: "n1", Part: "transport",
			What: "no link"}),
			failed("n1", &nodev1.Cause{Component: "n1", Part: "memory", What: "no memory"})), "n1: no memory", "memory"},
		"without details": {failed("n0", nil), "n0: n0 did not carry out configure: in many words (while testing)",
			fault.SubsystemNodeService},
		"anything else": {fmt.Errorf("no port"), "control: no port (while testing)", ""},
	} {
		if got := r.FaultOf(c.err, "while testing"); got.Error() != c.want || got.Subsystem != c.subsystem {
			t.Errorf("%s: %q of the part %q, not %q of %q", name, got, got.Subsystem, c.want, c.subsystem)
		}
	}
	r.faults.observe(fault.Observation{Kind: fault.ProcessEndSeen,
		Fault: fault.Fault{Component: "n3", What: "was killed"}})
	if got := r.FaultOf(failed("n0", nil), "").Error(); got != "n3: was killed" {
		t.Errorf("what struck meanwhile is the cause, not %q", got)
	}
}

// TestBadPeers: a builder unit that goes on without what a readout unit sends is believed, and is not at fault.
func TestBadPeers(t *testing.T) {
	r := &Run{NodeSet: &NodeSet{faults: usualFaults(false)}}
	setUnits(t, r, "essential", "r0", "b1", "b2")
	r.faults.tolerateLosses(nil)
	bad := &nodev1.Cause{Component: "r0", Part: "data", What: "it does not fit"}
	r.faults.observeReport("b1", &nodev1.Report{BadPeers: []*nodev1.Cause{bad}}, true)
	if c := r.faults.cause(); c == nil || c.Component != "r0" || c.Subsystem != fault.SubsystemData || c.Advice == "" {
		t.Errorf("the cause is %+v", c)
	}
}

// TestStuck: who holds up the end of a run is named by what has not moved.
func TestStuck(t *testing.T) {
	holding := []*core.BURegister{{Name: "bu0"}, {Name: "bu1", Used: &tagnetv1.Depth{Now: 2}},
		{Name: "bu2", Used: &tagnetv1.Depth{Now: 1}}}
	for name, tc := range map[string]struct {
		reg       *core.Registers
		who, what string
	}{
		"outputs": {&core.Registers{InFlight: 3, Bus: holding}, "bu1, bu2", "3 MEPs have had no outcome for 30s"},
		"outputs in a ring": {&core.Registers{InFlight: 3, Bus: holding, Tags: &tagnetv1.Depth{}}, "bu1, bu2",
			"an output that is stuck or has no reader"},
		"tags": {&core.Registers{Tags: &tagnetv1.Depth{Now: 2}}, "the ring",
			"2 tags have not come round and 0 MEPs have had no outcome for 30s"},
		"tags, and what waits for them": {&core.Registers{InFlight: 3, Bus: holding, Tags: &tagnetv1.Depth{Now: 1}},
			"the ring", "1 tags have not come round and 3 MEPs"},
	} {
		if f := stallCause(tc.reg, nil); f.Component != tc.who || !strings.Contains(f.What, tc.what) {
			t.Errorf("%s: %s: %s", name, f.Component, f.What)
		}
	}
}

// What nodes call a link and the scheduler is what the core goes by.
func TestPartsAreOne(t *testing.T) {
	if fault.SubsystemTransport != node.SubsystemTransport || fault.SubsystemScheduler != node.SubsystemScheduler {
		t.Error("nodes have other words")
	}
}

// usualFaults are those of a control with default settings.
func usualFaults(spawnsNodes bool) *faults {
	return newFaults(spawnsNodes, config.Default().Timeouts())
}
