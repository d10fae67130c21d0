package nodes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// hearing is a node that hears that the run ends for it.
type hearing struct {
	nodev1.NodeClient
	name string
	told chan string
}

func (h hearing) Report(_ context.Context, req *nodev1.ReportRequest, _ ...grpc.CallOption) (*nodev1.Report, error) {
	if req.GetLetGo() {
		h.told <- h.name
	}
	return &nodev1.Report{}, nil
}

// inError is the report of a node in Error.
func inError(at, what string) *nodev1.Report {
	return &nodev1.Report{Status: &nodev1.Status{State: "Error", Cause: &nodev1.Cause{Component: at, What: what}}}
}

var cutOff = fault.Sight{Kind: fault.Missing, Fault: fault.Fault{Component: "b3", What: "its node service is gone"}}

// stand has a run begin whose nodes hold a readout unit if their name begins with r, or a builder unit.
func stand(t *testing.T, r *Run, loss string, names ...string) {
	t.Helper()
	builder, err := config.ParseLoss(loss, strings.Count(strings.Join(names, " "), "b"))
	if err != nil {
		t.Fatal(err)
	}
	var view []fault.Unit
	for _, name := range names {
		view = append(view, fault.Unit{Node: name, Readout: name[0] == 'r', Builder: name[0] == 'b'})
	}
	r.faults.tell(func(c *fault.Core) { c.Take(view, "", config.Loss{Least: 1 << 30}, builder) })
}

// departRun is a run of readout units r0 and r1 and builder units b2 to b4, of which two must be left.
func departRun(t *testing.T) (*Run, *fakeScheduler, func(name string, change func(*nodev1.Report))) {
	t.Helper()
	told := make(chan string, 8)
	f := &fakeScheduler{drained: make(chan struct{})}
	names := []string{"r0", "r1", "b2", "b3", "b4"}
	c := NewCrew(Options{Log: slog.New(slog.DiscardHandler)}, config.Default())
	for _, name := range names {
		c.nodes = append(c.nodes, &member{
			name:   name,
			client: hearing{name: name, told: told},
			report: &nodev1.Report{},
			faults: c.faults,
		})
	}
	r := c.NewRun(7)
	r.sched = f
	stand(t, r, "at-least 2 of 3", names...)
	r.faults.begin(r.without)
	return r, f, func(name string, change func(*nodev1.Report)) {
		n, err := r.member(name)
		if err != nil {
			t.Fatal(err)
		}
		rep := &nodev1.Report{Run: 7, Leaving: true}
		change(rep)
		n.keep(rep)
	}
}

func asks(*nodev1.Report) {}

// What looks like faults of a node that leaves in good order are none; the next one that leaves ends the run, which
// bears no more.
func TestDepart(t *testing.T) {
	r, f, tell := departRun(t)
	now := time.Now()
	depart := func(want ...Departure) {
		t.Helper()
		if news, err := r.Depart(now); err != nil || !slices.Equal(news, want) {
			t.Fatalf("%v, %v; not %v", news, err, want)
		}
	}
	depart()
	tell("b3", asks)
	f.fails = errors.New("the scheduler is gone")
	if news, err := r.Depart(now); err == nil || len(news) > 0 {
		t.Fatalf("%v, %v", news, err)
	}
	f.fails = nil
	depart(Departure{Node: "b3", Again: 4})
	depart()
	if err := ask(r.faults, func(c *fault.Core) error { return c.MayInclude("b3") }); err == nil {
		t.Error("it is included while it leaves")
	}
	// its links close before its final report is seen
	r.faults.report("r0", &nodev1.Report{LostPeers: []string{"b3"}}, true)
	r.faults.report("b3", inError("r1", "link down"), true)
	tell("b3", func(rep *nodev1.Report) { rep.Final = true })
	r.SeeEnd("b3", "ended")
	depart(Departure{Node: "b3", Left: true})
	r.faults.see(cutOff)
	if c := r.faults.cause(); c != nil || r.lost("b3") || len(r.Losses()) > 0 || r.Lost("b3") != "" || r.Left("b3") == "" {
		t.Errorf("fault %v, lost %v, losses %v, lost as %q, left %q", c, r.lost("b3"), r.Losses(), r.Lost("b3"), r.Left("b3"))
	}
	if n, err := r.member("b3"); err != nil || !r.passed(n) || r.Whole() {
		t.Errorf("somebody waits for b3: %v", err)
	}
	tell("b4", asks)
	depart(Departure{Node: "b4", Ends: true})
	tell("r0", asks)
	r.ending.Store(true)
	depart()
	told := r.nodes[0].client.(hearing).told
	promised := []string{patiently.Receive(t, told), patiently.Receive(t, told)}
	if !slices.Contains(promised, "b4") || !slices.Contains(promised, "r0") {
		t.Errorf("%v hear that the run ends for them", promised)
	}
	if who := ask(r.faults, (*fault.Core).Leavers); !slices.Equal(who, []string{"r0", "b3", "b4"}) {
		t.Errorf("told to end: %v", who)
	}
}

// A node that stands still on its way out is lost like any other: whoever wants to know hears it.
func TestStandsStillWhileItLeaves(t *testing.T) {
	r, _, tell := departRun(t)
	lost := make(chan fault.Fault, 1)
	r.opts.Lost = func(x fault.Fault) { lost <- x }
	tell("b3", asks)
	began, late := time.Now(), time.Now().Add(2*fault.DepartTime)
	for _, at := range []time.Time{began, late} {
		if _, err := r.Depart(at); err != nil {
			t.Fatal(err)
		}
		attentive(r, began, late)
	}
	x := patiently.Receive(t, lost)
	if x.Component != "b3" || r.faults.cause() != nil || !r.lost("b3") || r.Left("b3") != "" {
		t.Errorf("%v was lost, the cause is %v, and b3 has left: %q", x, r.faults.cause(), r.Left("b3"))
	}
}
