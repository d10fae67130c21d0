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
	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// notifiedNode is a node that hears that the run ends for it.
type notifiedNode struct {
	nodev1.NodeClient
	name     string
	notified chan string
}

func (h notifiedNode) Report(_ context.Context, req *nodev1.ReportRequest,
	_ ...grpc.CallOption) (*nodev1.Report, error) {
	if req.GetLetGo() {
		h.notified <- h.name
	}
	return &nodev1.Report{}, nil
}

// inError is the report of a node in Error.
func inError(at, what string) *nodev1.Report {
	return &nodev1.Report{Status: &nodev1.Status{State: "Error", Cause: &nodev1.Cause{Component: at, What: what}}}
}

var cutOff = fault.Observation{Kind: fault.SilentToControl, Fault: fault.Fault{Component: "b3",
	What: "its node service is gone"}}

// setUnits has a run begin whose nodes hold a readout unit if their name begins with r, or a builder unit.
func setUnits(t *testing.T, r *Run, loss string, names ...string) {
	t.Helper()
	builder, err := config.ParseLoss(loss, strings.Count(strings.Join(names, " "), "b"))
	if err != nil {
		t.Fatal(err)
	}
	var view []fault.Unit
	for _, name := range names {
		view = append(view, fault.Unit{Node: name, Readout: name[0] == 'r', Builder: name[0] == 'b'})
	}
	r.faults.updateCore(func(c *fault.Core) { c.SetView(view, "", config.LossPolicy{MinUnits: 1 << 30}, builder) })
}

// departRun is a run of readout units r0 and r1 and builder units b2 to b4, of which two must be left.
func departRun(t *testing.T) (*Run, *fakeScheduler, func(name string, change func(*nodev1.Report))) {
	t.Helper()
	notified := make(chan string, 8)
	f := &fakeScheduler{drained: make(chan struct{})}
	names := []string{"r0", "r1", "b2", "b3", "b4"}
	c := NewNodeSet(Options{Log: slog.New(slog.DiscardHandler)}, config.Completed{Config: config.Default()})
	for _, name := range names {
		c.nodes = append(c.nodes, &member{
			name:   name,
			client: notifiedNode{name: name, notified: notified},
			report: &nodev1.Report{},
			faults: c.faults,
		})
	}
	r := c.NewRun(7)
	r.scheduler.sched = f
	setUnits(t, r, "at-least 2 of 3", names...)
	r.faults.tolerateLosses(r.handleLosses)
	return r, f, func(name string, change func(*nodev1.Report)) {
		n, err := r.findMember(name)
		if err != nil {
			t.Fatal(err)
		}
		rep := &nodev1.Report{Run: 7, Leaving: true}
		change(rep)
		n.storeReport(rep)
	}
}

func requestDeparture(*nodev1.Report) {}

// What looks like faults of a node that leaves in good order are none; the next one that leaves ends the run, which
// tolerates no more.
func TestDepart(t *testing.T) {
	r, f, sendReport := departRun(t)
	now := time.Now()
	depart := func(want ...Departure) {
		t.Helper()
		if news, err := r.UpdateDepartures(now); err != nil || !slices.Equal(news, want) {
			t.Fatalf("%v, %v; not %v", news, err, want)
		}
	}
	depart()
	sendReport("b3", requestDeparture)
	f.fails = errors.New("the scheduler is gone")
	if news, err := r.UpdateDepartures(now); err == nil || len(news) > 0 {
		t.Fatalf("%v, %v", news, err)
	}
	f.fails = nil
	depart(Departure{Node: "b3", MEPsReissued: 4})
	depart()
	if err := queryCore(r.faults, func(c *fault.Core) error { return c.MayInclude("b3") }); err == nil {
		t.Error("it is included while it leaves")
	}
	// its links close before its final report is seen
	r.faults.observeReport("r0", &nodev1.Report{LostPeers: []string{"b3"}}, true)
	r.faults.observeReport("b3", inError("r1", "link down"), true)
	sendReport("b3", func(rep *nodev1.Report) { rep.Final = true })
	r.ObserveProcessEnd("b3", "ended")
	depart(Departure{Node: "b3", Withdrawn: true})
	r.faults.observe(cutOff)
	if c := r.faults.cause(); c != nil || !r.Presence("b3").Lost || len(r.Losses()) > 0 || r.Presence("b3").Gone != "" ||
		r.Presence("b3").Withdrawn == "" {
		t.Errorf("fault %v, lost %v, losses %v, lost as %q, left %q", c, r.Presence("b3").Lost, r.Losses(),
			r.Presence("b3").Gone,
			r.Presence("b3").Withdrawn)
	}
	if n, err := r.findMember("b3"); err != nil || !r.isUnavailable(n) || r.AllPresent() {
		t.Errorf("somebody waits for b3: %v", err)
	}
	sendReport("b4", requestDeparture)
	depart(Departure{Node: "b4", EndsRun: true})
	sendReport("r0", requestDeparture)
	r.state.Phase = ecsrun.Draining
	depart()
	notified := r.nodes[0].client.(notifiedNode).notified
	promised := []string{patiently.Receive(t, notified), patiently.Receive(t, notified)}
	if !slices.Contains(promised, "b4") || !slices.Contains(promised, "r0") {
		t.Errorf("%v hear that the run ends for them", promised)
	}
	if who := queryCore(r.faults, (*fault.Core).Leavers); !slices.Equal(who, []string{"r0", "b3", "b4"}) {
		t.Errorf("told to end: %v", who)
	}
}

// A node that stands still on its way out is lost like any other: whoever wants to know hears it.
func TestStallsWhileLeaving(t *testing.T) {
	r, _, sendReport := departRun(t)
	lost := make(chan fault.Fault, 1)
	r.opts.OnLost = func(x Loss) { lost <- x.Fault }
	sendReport("b3", requestDeparture)
	began, late := time.Now(), time.Now().Add(2*fault.DepartTimeout)
	for _, at := range []time.Time{began, late} {
		if _, err := r.UpdateDepartures(at); err != nil {
			t.Fatal(err)
		}
		attentive(r, began, late)
	}
	x := patiently.Receive(t, lost)
	if x.Component != "b3" || r.faults.cause() != nil || !r.Presence("b3").Lost || r.Presence("b3").Withdrawn != "" {
		t.Errorf("%v was lost, the cause is %v, and b3 has left: %q", x, r.faults.cause(), r.Presence("b3").Withdrawn)
	}
}
