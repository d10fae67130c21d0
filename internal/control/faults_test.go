package control

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

func TestClosestWitness(t *testing.T) {
	process := func(who string) Fault { return Fault{Component: who, What: "was killed", rank: rankProcess} }
	self := func(who string) Fault { return Fault{Component: who, What: "disk full", rank: rankSelf, witness: who} }
	stream := func(who string) Fault { return Fault{Component: who, What: "stream lost", rank: rankStream} }
	watch := func(who string) Fault { return Fault{Component: who, What: "service gone", rank: rankWatch} }
	peer := func(who, by string) Fault {
		return Fault{Component: who, What: "link down", rank: rankPeer, witness: by}
	}
	for name, c := range map[string]struct {
		seen []Fault
		want string
	}{
		"killed: its parent knows":                 {[]Fault{stream("n2"), peer("n2", "n0"), watch("n2"), process("n2")}, "n2: was killed"},
		"killed: peers of peers are confused":      {[]Fault{peer("n2", "n0"), peer("n0", "n1"), stream("n1"), process("n2")}, "n2: was killed"},
		"full disk: it says so itself":             {[]Fault{stream("n1"), peer("n1", "n0"), stream("n0"), self("n1")}, "n1: disk full"},
		"machine gone: streams break":              {[]Fault{stream("n1"), watch("n1"), peer("n1", "n0"), stream("n0")}, "n1: stream lost"},
		"stands still: only peers notice":          {[]Fault{stream("n0"), peer("n1", "n0"), watch("n0"), peer("n1", "n2")}, "n1: link down"},
		"stands still: a peer is blamed by others": {[]Fault{peer("n0", "n2"), stream("n2"), stream("n0"), peer("n1", "n0")}, "n1: link down"},
		"they blame each other":                    {[]Fault{peer("n1", "n0"), peer("n0", "n1")}, "n1: link down"},
		"nothing":                                  {nil, ""},
	} {
		got := ""
		if best := closest(c.seen); best != nil {
			got = best.Component + ": " + best.What
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func TestFaultsCollect(t *testing.T) {
	f := newFaults()
	f.heed()
	f.report("n0", &nodev1.Status{State: "Running"})
	if f.cause() != nil || f.settled() != nil {
		t.Fatal("a running node is no fault")
	}
	f.report("n0", &nodev1.Status{State: "Error", Cause: &nodev1.Cause{Component: "n1", Part: "transport", What: "link down"}})
	if c := f.cause(); c.Part != "transport" {
		t.Errorf("it is of the part %q", c.Part)
	}
	select {
	case <-f.struck:
	default:
		t.Fatal("a node in Error is a fault")
	}
	f.add(Fault{Component: "n1", What: "its process ended", rank: rankProcess})
	if c := f.settled(); c.Component != "n1" || c.What != "its process ended" {
		t.Errorf("the cause is %v", c)
	}
	if !f.gone("n1") || f.gone("n0") {
		t.Error("n1 is gone, n0 is not")
	}
	f.silence()
	f.add(Fault{Component: "n0", What: "its process ended", rank: rankProcess})
	if len(f.all) != 2 || !f.gone("n0") {
		t.Error("after the silence an end is noted and is no fault")
	}
	f.again()
	select {
	case <-f.struckNow():
		t.Error("what struck a run strikes the next one")
	default:
	}
	f.add(Fault{Component: "n1", What: "disk full", rank: rankSelf})
	f.again() // before a run, what has struck since is not forgotten
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
		return &CommandError{Node: node, Command: nodev1.Command_COMMAND_CONFIGURE, Err: st.Err()}
	}
	r := &Crew{faults: newFaults()}
	for name, c := range map[string]struct {
		err        error
		want, part string
	}{
		"by itself": {failed("n0", &nodev1.Cause{Component: "n0", Part: "memory", What: "no memory", Evidence: "seen"}), "n0: no memory (seen)", "memory"},
		"the guilty one first": {errors.Join(nil, failed("n0", &nodev1.Cause{Component: "n1", Part: "transport", What: "no link"}),
			failed("n1", &nodev1.Cause{Component: "n1", Part: "memory", What: "no memory"})), "n1: no memory", "memory"},
		"without details": {failed("n0", nil), "n0: n0 did not carry out configure: in many words (while testing)", PartService},
		"anything else":   {fmt.Errorf("no port"), "control: no port (while testing)", ""},
	} {
		if got := r.FaultOf(c.err, "while testing"); got.Error() != c.want || got.Part != c.part {
			t.Errorf("%s: %q of the part %q, not %q of %q", name, got, got.Part, c.want, c.part)
		}
	}
	r.faults.add(Fault{Component: "n3", What: "was killed", rank: rankProcess})
	if got := r.FaultOf(failed("n0", nil), "").Error(); got != "n3: was killed" {
		t.Errorf("what struck meanwhile is the cause, not %q", got)
	}
}

// TestStuck: who holds up the end of a run is named by what has not moved.
func TestStuck(t *testing.T) {
	holding := []tagnet.BURegister{{Name: "bu0"}, {Name: "bu1", Used: tagnet.Depth{Now: 2}}, {Name: "bu2", Used: tagnet.Depth{Now: 1}}}
	for name, tc := range map[string]struct {
		reg       tagnet.Registers
		who, what string
	}{
		"outputs":           {tagnet.Registers{InFlight: 3, BUs: holding}, "bu1, bu2", "3 MEPs have had no outcome for 30s"},
		"outputs in a ring": {tagnet.Registers{InFlight: 3, BUs: holding, Ring: &tagnet.RingRegister{}}, "bu1, bu2", "an output that nobody reads"},
		"tags": {tagnet.Registers{Ring: &tagnet.RingRegister{Under: tagnet.Depth{Now: 2}}}, "the ring",
			"2 tags have not come round and 0 MEPs have had no outcome for 30s"},
		"tags, and what waits for them": {tagnet.Registers{InFlight: 3, BUs: holding, Ring: &tagnet.RingRegister{Under: tagnet.Depth{Now: 1}}}, "the ring",
			"1 tags have not come round and 3 MEPs"},
	} {
		if f := stuck(&tc.reg); f.Component != tc.who || !strings.Contains(f.What, tc.what) {
			t.Errorf("%s: %s: %s", name, f.Component, f.What)
		}
	}
}

// TestUnlinked holds that a link which is down is a loss while a run goes on, and that nobody waits for who was lost.
func TestUnlinked(t *testing.T) {
	f := newFaults()
	f.heed()
	f.unlinked("n0", []string{"n4"})
	if f.cause() != nil {
		t.Errorf("outside of a run %v is a fault", f.cause())
	}
	f.tolerate(func(x Fault) bearing {
		if x.Component == "n4" {
			return borne
		}
		return strikes
	})
	f.unlinked("n0", []string{"n4"})
	if f.cause() != nil || f.lost("n4") == "" {
		t.Errorf("%v is a fault, lost %q", f.cause(), f.lost("n4"))
	}
	f.unlinked("n0", []string{"n5"})
	if c := f.cause(); c == nil || c.Component != "n5" {
		t.Errorf("the loss of n5 is %v", c)
	}
}

// TestBlamedByTheLost holds that a node which a lost one blames, since it has cut the link between them, is not taken for lost: it is commanded
// and asked for its final report like any other.
func TestBlamedByTheLost(t *testing.T) {
	r := &Run{Crew: &Crew{log: slog.New(slog.DiscardHandler), faults: newFaults()}, standing: standingOf(t, "at-least 1 of 2", "r0", "r1", "b2", "b3")}
	if borne, _ := r.standing.Lose("b3"); !borne {
		t.Fatal("the policy bears the loss of b3")
	}
	r.faults.tolerate(r.bear)
	r.faults.report("b3", &nodev1.Status{State: "Ready", Parked: true, Cause: &nodev1.Cause{Component: "r0", What: "link down"}})
	if c := r.faults.cause(); c != nil {
		t.Errorf("%v is a fault of the run", c)
	}
	if why := r.faults.lost("r0"); why != "" {
		t.Errorf("r0 is taken for lost: %s", why)
	}
}

// standingOf is where a run begins whose nodes hold a readout unit if their name begins with r, or a builder unit.
func standingOf(t *testing.T, loss string, names ...string) *Standing {
	t.Helper()
	builder, err := config.ParseLoss(loss, strings.Count(strings.Join(names, " "), "b"))
	if err != nil {
		t.Fatal(err)
	}
	view := &nodev1.View{}
	for _, name := range names {
		view.Members = append(view.Members, &nodev1.Member{Name: name, Readout: name[0] == 'r', Builder: name[0] == 'b'})
	}
	return NewStanding(view, builder)
}
