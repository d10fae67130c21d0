package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet/core"
)

// Each builder unit's share is what the scheduler counted of it and its own node told. A node that is none has no
// share.
func TestBuilderShares(t *testing.T) {
	r := &Run{NodeSet: &NodeSet{roster: roster{nodes: []*member{
		{name: "n0", firstEntry: &nodev1.Member{Readout: true}},
		{name: "n1", firstEntry: &nodev1.Member{Builder: true}, report: &nodev1.Report{Counters: map[string]uint64{
			"bu.bytes_built": 999, "bu.suspensions": 2, "bu.suspended_us": 2000,
		}}},
		{name: "n2", firstEntry: &nodev1.Member{Builder: true, BuIndex: 1}},
	}}}}
	got := Report{RateS: 2}
	(&reporter{Run: r}).fillBuilders(&got, []*core.BURegister{
		{Counters: &core.BUCounters{
			Built:       3,
			EventsBuilt: 30,
			Discarded:   1,
			Skips:       4,
			LeftBehind:  5,
		}}, {},
	})
	want := []BuilderShare{
		{BU: 0, Node: "n1", MEPs: 3, Events: 30, Bytes: 999, RateHz: 15, Discarded: 1, Skips: 4, TimesLeftBehind: 5,
			Suspensions: 2, SuspendedUs: 2000},
		{BU: 1, Node: "n2"},
	}
	if d := cmp.Diff(want, got.Builders); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	(&reporter{Run: r}).fillBuilders(&got, nil) // the run never began
	if len(got.Builders) != 0 {
		t.Errorf("shares of a run that never began: %v", got.Builders)
	}
}
