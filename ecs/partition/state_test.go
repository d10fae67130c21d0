package partition

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ecsrun "ringlet/ecs/run"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// TestAControlThatComesBackKeepsTheRecord: what the record of a run says of it goes to its machine and back without a
// loss, whoever writes it next.
func TestAControlThatComesBackKeepsTheRecord(t *testing.T) {
	at := func(s int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(s, 0)) }
	for name, r := range map[string]*ecsv1.Run{
		"open":  {StartedBy: "alice"},
		"begun": {StartDone: at(10)},
		"lost":  {StartDone: at(10), Cause: &ecsv1.Cause{Component: "n2", What: "gone", Code: ecsrun.CodeLoss, At: at(11)}},
		"struck": {StartDone: at(10), StopBegun: at(12), End: ecsrun.EndFault, Cause: &ecsv1.Cause{
			Component: "n2", Part: "output", What: "disk full", Evidence: "seen by n2", Code: ecsrun.CodeFault, At: at(12),
			Advice: "Make room.", Followed: []string{"n0", "n1"}}},
		"stopped": {StartDone: at(10), StopBegun: at(12), End: ecsrun.EndStopped, StoppedBy: "bob"},
	} {
		found := foundRecord(r)
		got := proto.CloneOf(r)
		writeState(got, ecsrun.State{Begun: found.Begun, Ending: found.Ending, End: found.End, Cause: found.Cause})
		if !proto.Equal(got, r) {
			t.Errorf("%s: it was %v, and is %v", name, r, got)
		}
	}
}

// TestCompletedOnce: a run that is not told when to end goes on until somebody stops it, also with fewer members, and
// one that ends keeps its end.
func TestCompletedOnce(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"nodes: 3\n":                 0,
		"nodes: 3\nduration: 7s\n":   7 * time.Second,
		"nodes: 3\nevents: 100000\n": 0,
	} {
		all, err := compose(config.Default(), text+"readout-loss: expendable\nbuilder-loss: expendable\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		less, names, err := selectMembers(all, []string{"n0", "n1", "n2"}, []absentNode{{"n1", "it left"}})
		if err != nil || len(names) != 2 || less.Nodes != 2 {
			t.Fatalf("%v of %d nodes: %v", names, less.Nodes, err)
		}
		if again, err := compose(all.Config, "", nil); err != nil || again != all {
			t.Errorf("%q: completed again it is another: %v", text, err)
		}
		if all.Duration != want || less.Duration != want {
			t.Errorf("%q: it takes %v, and with fewer members %v", text, all.Duration, less.Duration)
		}
	}
}
