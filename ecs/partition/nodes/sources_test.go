package nodes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	ecsrun "ringlet/ecs/run"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Each live source is told of by the node of its readout unit, under its id.
func TestSources(t *testing.T) {
	r := &Run{NodeSet: &NodeSet{roster: roster{nodes: []*member{
		{name: "n0", firstEntry: &nodev1.Member{Readout: true}},
		{name: "n1", firstEntry: &nodev1.Member{Readout: true, RuIndex: 1}, report: &nodev1.Report{Reasons: []*nodev1.Reason{
			{Source: 0, Kind: node.ReasonRefused, Why: "of another source"},
			{Source: 1, Kind: node.ReasonRefused, Why: "buffers of 200000 bytes, 65535 at most"},
			{Source: 1, Kind: node.ReasonThrownAway, Why: "the fragment of event 7 came again; the first one stays"},
		}, Frontends: map[uint32]string{0: "of another source", 1: `"board" at 10.0.0.7:5000`}}},
	}}}, cfg: config.Completed{Config: config.Config{
		Shape:         config.Shape{RUs: 2},
		Data:          config.Data{Streams: "1"},
		InputSettings: config.InputSettings{Input: "tcp:h:1,tcp:h:2"},
	}}}
	got := Report{Counters: []NodeCounters{
		{Node: "n0", Counters: map[string]uint64{"ru.input_fragments.0": 10, "ru.input_used.0": 7, "ru.input_late.0": 2}},
		{Node: "n1", Counters: map[string]uint64{"ru.input_missing.1": 9}},
	}}
	(&reporter{Run: r}).fillSources(&got)
	want := []SourceReport{
		{Name: "tcp:h:1", Input: "tcp:h:1", Node: "n0", Fragments: 10, UsedInMEPs: 7, Thrown: 2, Late: 2, UnusedAtEnd: 1},
		{Source: 1, Name: "tcp:h:2", Input: "tcp:h:2", Node: "n1", MissingWhenBuilt: 9,
			Frontend:   `"board" at 10.0.0.7:5000`,
			WhyRefused: "buffers of 200000 bytes, 65535 at most",
			WhyThrown:  "the fragment of event 7 came again; the first one stays"},
	}
	if d := cmp.Diff(want, got.Sources); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Rates are over the time that was meant, where the events took less.
func TestRatesAreOverTheTimeMeant(t *testing.T) {
	began := time.Now()
	for name, c := range map[string]struct {
		rate float64
		now  ecsrun.State
		want float64
	}{
		"as long as it took": {0, ecsrun.State{}, 0.028},
		"until it was told":  {0, ecsrun.State{Begun: began, Draining: began.Add(6 * time.Second)}, 6},
		"at the rate asked":  {10, ecsrun.State{Begun: began}, 400},
	} {
		r := &reporter{&Run{cfg: config.Completed{Config: config.Config{Data: config.Data{Rate: c.rate}}}}, c.now}
		if got := r.rateDuration(&Report{DurationS: 0.028, EventsTriggered: 4000}); got != c.want {
			t.Errorf("%s: %v s, want %v", name, got, c.want)
		}
	}
}

// Live sources that cannot go on make a run DEGRADED; one that ended for them, or to which none is left, has a cause.
func TestLetDown(t *testing.T) {
	for name, want := range map[string]struct {
		counters map[string]uint64
		streams  config.Counts
		down     bool
		broken   string
	}{
		"none":       {nil, "1", false, ""},
		"one of two": {map[string]uint64{node.CounterSourcesBroken: 1}, "2", false, "no such device"},
		"all":        {map[string]uint64{node.CounterSourcesBroken: 1}, "1", true, ""},
		"ended":      {map[string]uint64{node.CounterInputFailed: 1}, "2", true, ""},
	} {
		n := &member{name: "n0", report: &nodev1.Report{
			Counters: want.counters,
			Status:   &nodev1.Status{Cause: &nodev1.Cause{What: "no such device", Part: "input"}},
		}}
		r := &Run{NodeSet: &NodeSet{roster: roster{nodes: []*member{n}}}}
		r.cfg.RUs, r.cfg.Streams = 1, want.streams
		down, broken := r.inputFailure(true)
		if (down != nil) != want.down || broken != want.broken || down != nil && down.What != "no such device" {
			t.Errorf("%s: %v, %q", name, down, broken)
		}
	}
}

// A run with live sources takes as long as it is on, whenever MEPs were built.
func TestLasted(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		drained, last time.Time
		want          float64
	}{
		{at(10), at(3), 10}, {at(10), at(11), 11}, {time.Time{}, at(3), 3}, {time.Time{}, time.Unix(0, 0), 20},
	} {
		r := &reporter{&Run{}, ecsrun.State{Begun: began, Draining: c.drained}}
		if got := r.liveDuration(c.last, at(20)); got != c.want {
			t.Errorf("%v s, and not %v", got, c.want)
		}
	}
}
