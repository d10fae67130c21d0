package ctl

import (
	"bytes"
	"regexp"
	"testing"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/testkit/must"
)

// Who takes no part is excluded, or a spare.
func TestWhoTakesPart(t *testing.T) {
	var out bytes.Buffer
	err := writeStatus(&out, &ecsv1.PartitionStatus{Root: &ecsv1.Component{
		Name:     "partition",
		State:    "Ready",
		Included: true,
		Children: []*ecsv1.Component{
			{Name: "n0", State: "Ready", Included: true}, {Name: "n1", State: "Offline"},
			{Name: "n2", State: "Offline", Spare: true},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`n0 +Ready +yes`, `n1 +Offline +excluded`, `n2 +Offline +spare`} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no line matches %q in\n%s", want, &out)
		}
	}
}

// Registers show marks, free slots over time, and what was counted since the clear.
func TestRegisters(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, writeRegisters(&out, &ecsv1.Snapshot{}))
	must.OK(t, writeRegisters(&out, &ecsv1.Snapshot{
		Run: 3,
		Scheduler: &ecsv1.Scheduler{
			State: "running", WaitingFor: "slots", Mode: "skip", Node: "n0",
			Counters: map[string]uint64{"built": 9, "skips": 0},
			Queues: []*ecsv1.Queue{{Name: "ready", Depth: &tagnetv1.Depth{Now: 1, Max: 7, Capacity: 8,
				Crossed: []uint64{4, 3, 2, 1}, Usage: 0xF}}},
			Groups:  []*ecsv1.Group{{Nodes: []string{"n1", "n2"}, Free: 2, Slots: 7}},
			Refused: map[string]uint64{"term": 5},
			Cleared: &ecsv1.Cleared{User: "alice", Counters: map[string]uint64{"built": 4}},
		},
		History: []*ecsv1.Sample{{Run: 2, FreeSlots: []uint64{5}}, {Run: 3, FreeSlots: []uint64{1}},
			{Run: 3, FreeSlots: []uint64{7}}},
	}))
	for _, want := range []string{
		`(?m)^there is no run`, `(?m)^state +running, waits for slots$`, `(?m)^mode +skip `, `(?m)^marks +cleared by alice `,
		`(?m)^ready +1 +7 +8 +4 +3 +2 +1 +0 +0xf$`, `(?m)^n1 n2 +2 +7 +1 +▂█$`, `(?m)^built +9 +5$`,
		`(?m)^sessions refused: term +5$`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("nothing matches %q in\n%s", want, &out)
		}
	}
	if bytes.Contains(out.Bytes(), []byte("skips")) {
		t.Errorf("a counter of 0 is shown:\n%s", &out)
	}
}

// A source that has given nothing has no newest event; one that was asked for in vain says how often.
func TestWhatSourcesGive(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, writeSources(&out, &ecsv1.Snapshot{}))
	must.OK(t, writeSources(&out, &ecsv1.Snapshot{Sources: []*ecsv1.SourceFigures{
		{Name: "tcp:h:7", Node: "n0", Silent: true},
		{
			Source:        1,
			Name:          "udp:h:8",
			Node:          "n1",
			FragmentsPerS: 298.7,
			BytesPerS:     29_870,
			MeanSize:      100,
			Fragments:     1500,
			Used:          1490,
			Missing:       10,
			Thrown:        4,
			Lost:          2,
			Refused:       1,
			WhyRefused:    "a buffer of 200000 bytes, 65535 at most",
			Frontend:      `"board" at 10.0.0.7:5000`,
			Readiness:     "begun",
			LastEvent:     1511,
			AgeUs:         3_400,
		},
	}}))
	for _, want := range []string{
		`(?m)^no live sources: `,
		`(?m)^0 +tcp:h:7 +n0, silent +0\.0 Hz +0 bit/s +0 B +0 +0 +0 +0 +0 +0 +– +– +– +–$`,
		`(?m)^1 +udp:h:8 +n1 +298\.7 Hz +239 kbit/s +100 B +1500 +10 \(0\.67 %\) +4 +1 +2 +0 +1511 +3ms ago +begun +"board" at 10\.0\.0\.7:5000$`,
		`(?m)^udp:h:8: 1 refused, the last one because: a buffer of 200000 bytes, 65535 at most$`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no line matches %q in\n%s", want, &out)
		}
	}
}
