package partition

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	ecsrun "ringlet/ecs/run"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// A step on the way to a run leaves behind why there is none, unless nobody asked for it.
func TestTowardsRun(t *testing.T) {
	broken := fsm.Cause{Component: "n2", What: "it does not answer"}
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(&fsm.SupersededError{Component: partitionComponent, Command: fsm.Start, By: fsm.Stop})
	for name, tc := range map[string]struct {
		by   string
		ctx  context.Context
		err  error
		want string
	}{
		"it went well":   {"alice", t.Context(), nil, ""},
		"it broke":       {"alice", t.Context(), broken, "it does not answer"},
		"by nobody":      {recoveryUser, t.Context(), broken, ""},
		"it was stopped": {"alice", interrupted, context.Canceled, "start was interrupted by stop"},
	} {
		p := &Partition{control: &control{partitionState: partitionState{pendingCommand: pendingCommand{user: tc.by}}}}
		if err := p.preRunWork(func(context.Context) error { return tc.err })(tc.ctx); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v", name, err)
		}
		if got := p.lastStartFailure.GetWhat(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A step that the machine has left goes on for a while: until it returns there is no run either, unless it has its
// record by then.
func TestNoRunBeforeItsStepReturns(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout  time.Duration // long enough for the step to begin: one whose time is over before is not begun
		recorded bool          // before the machine leaves the step
		left     fsm.State
		want     string
	}{
		"its time is over":                    {time.Second, false, fsm.Error, "start did not end in time"},
		"it is interrupted":                   {time.Hour, false, fsm.Stopping, "start was interrupted by stop"},
		"its time is over, and it has a run":  {time.Second, true, fsm.Error, ""},
		"it is interrupted, and it has a run": {time.Hour, true, fsm.Stopping, ""},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := record.Open(filepath.Join(t.TempDir(), "runs.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			p := newPartition(Config{Store: store, Members: &cluster.Cluster{}})
			defer p.stopGoroutines()
			p.pendingCommand.user = "alice"
			under, goOn := make(chan struct{}), make(chan struct{})
			start := p.preRunWork(func(ctx context.Context) error {
				if tc.recorded {
					nodeSet := nodes.NewNodeSet(nodes.Options{}, config.Completed{Config: config.Default()})
					if err := p.records.openRecord(nodeSet); err != nil {
						t.Error(err)
					}
					p.mu.Lock()
					p.runRecord = nil // as the end of a run leaves it, before the machine knows of it
					p.mu.Unlock()
				}
				close(under)
				patiently.Hold(goOn)
				return context.Cause(ctx)
			})
			p.runner = fsm.New(partitionComponent, fsm.Actions{fsm.Start: start},
				fsm.Options{Timeouts: fsm.Timeouts{fsm.Start: tc.timeout,
					fsm.Stop: time.Hour}})
			defer func() { _ = p.runner.Close() }()
			defer close(goOn)
			if err := errors.Join(p.runner.Adopt(fsm.Ready), p.runner.Submit(fsm.Start)); err != nil {
				t.Fatal(err)
			}
			patiently.Receive(t, under)
			if tc.left == fsm.Stopping {
				if err := p.runner.Submit(fsm.Stop); err != nil {
					t.Fatal(err)
				}
			}
			for st := range patiently.All(t, p.runner.Watch(t.Context())) {
				if st.State == tc.left {
					break
				}
			}
			if why := p.Status().GetNoRun(); (why == nil) != (tc.want == "") || !strings.Contains(why.GetWhat(), tc.want) {
				t.Errorf("in %v: %v", tc.left, why)
			}
		})
	}
}

// A run that ended while no control was there was over when its nodes say so; where they cannot, the record says that
// the time is when it was found.
func TestWhenItWasOver(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	rec := func() *ecsv1.Run { return &ecsv1.Run{StartDone: timestamppb.New(at(10))} }
	for name, tc := range map[string]struct {
		begun, reported, want time.Time
		found                 bool
	}{
		"they tell":                   {at(20), at(21), at(21), false},
		"one of them cannot":          {at(20), time.Time{}, at(90), true},
		"by a clock that is behind":   {at(20), at(19), at(20), false},
		"by one far behind the start": {at(5), at(6), at(10), false},
		"by one that is ahead":        {at(80), at(95), at(90), true},
		"by one far ahead":            {at(200), at(201), at(90), true},
	} {
		r := rec()
		noteSelfStop(r, &nodev1.Cause{What: "the control was silent", AtUs: tc.begun.UnixMicro()}, at(90))
		got, found := endTime(r, tc.reported, at(90))
		if !got.Equal(tc.want) || found != tc.found || got.Before(r.GetStopBegun().AsTime()) ||
			r.GetCause().GetAt().AsTime().After(at(90)) || r.GetCause().GetEvidence() == "" {
			t.Errorf("%s: stop begun %v, done %v, found %v", name, r.GetStopBegun().AsTime(), got, found)
		}
	}
	stopping := rec()
	stopping.StopBegun = timestamppb.New(at(15))
	if noteSelfStop(stopping, &nodev1.Cause{AtUs: at(70).UnixMicro()},
		at(90)); !stopping.GetStopBegun().AsTime().Equal(at(15)) {
		t.Errorf("its end was asked for at 15 s, and is told as begun at %v", stopping.GetStopBegun().AsTime())
	}
	lost := rec()
	if closeAbandoned(lost, "its nodes are gone"); !lost.GetEndFound() {
		t.Error("nothing says that the time of its end is when it was found")
	}
}

// The part that failed goes from a node to the record and to who asks, by whichever way it is told.
func TestThePartIsKept(t *testing.T) {
	x := fault.Fault{
		Component: "n1",
		Subsystem: "output",
		What:      "disk full",
		Evidence:  "seen",
	}
	through := map[string]*ecsv1.Cause{
		"the machine": (&control{}).causeMessage((&control{}).causeFromError(&fault.Error{Fault: x})),
		"a record":    recordCause(x, ecsrun.CodeLoss, timestamppb.Now()),
		"a node":      nodeCause(&nodev1.Cause{Component: "n1", Part: "output", What: "disk full"}),
	}
	r := &ecsv1.Run{}
	fillRecord(r, &nodes.Report{Cause: &x}, nil, time.Unix(1, 0))
	through["the end of a run"] = r.GetCause()
	for way, c := range through {
		if c.GetPart() != "output" || c.GetComponent() != "n1" || c.GetWhat() != "disk full" {
			t.Errorf("by %s it is %v", way, c)
		}
	}
}

// TestRecordHasTheLossByItsCause: a link that was down was seen first, and what the node itself said of its disk is
// what the record ends with. The loss of another node does not take its place, and an output that was not merged does.
func TestRecordHasTheLossByItsCause(t *testing.T) {
	at := timestamppb.New(time.Unix(1, 0))
	link := fault.Fault{Component: "n3", What: "the link of n0 to it is down", Evidence: "seen by n0"}
	disk := fault.Fault{Component: "n3", What: "builder unit: disk full", Evidence: "seen by n3"}
	other := fault.Fault{Component: "n4", What: "builder unit: disk full", Evidence: "seen by n4"}
	for _, tt := range []struct {
		first, later fault.Fault
		want         string
	}{{link, disk, disk.What}, {link, other, link.What}} {
		r := &ecsv1.Run{Cause: recordCause(tt.first, ecsrun.CodeLoss, at)}
		fillRecord(r, &nodes.Report{FirstLoss: &tt.later}, nil, time.Unix(2, 0))
		if c := r.GetCause(); c.GetWhat() != tt.want || c.GetCode() != ecsrun.CodeLoss ||
			!c.GetAt().AsTime().Equal(at.AsTime()) {
			t.Errorf("%v, and later %v: %v", tt.first, tt.later, c)
		}
		out := &nodes.Output{Problems: []string{"no room"}}
		unmerged := &nodes.Report{FirstLoss: &tt.later, Unmerged: true, RecordedOutput: out}
		fillRecord(r, unmerged, nil, time.Unix(2, 0))
		if c := r.GetCause(); c.GetWhat() != "no room" || c.GetCode() != "not_merged" {
			t.Errorf("an output that was not merged: %v", c)
		}
	}
}
