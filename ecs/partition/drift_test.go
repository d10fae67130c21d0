package partition

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"ringlet/ecs/figures"
	"ringlet/event"
	"ringlet/event/drift"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// TestDriftWatch: the events of a sample come to the monitor, those of another run and missing fragments do not.
func TestDriftWatch(t *testing.T) {
	w := &driftWatch{run: 2, monitor: drift.New([]string{"trigger", "tof"}), sizes: make([]int32, 2)}
	r, size := rand.New(rand.NewPCG(1, 2)), make([]uint32, 3000)
	for i := range size {
		size[i] = uint32(r.IntN(1000))
	}
	for e := range uint64(2990) {
		tof := &tapv1.Fragment{Source: 1, Size: size[e]}
		if e >= 1500 {
			tof.Size = size[e+1]
		}
		if e%10 == 0 {
			tof = &tapv1.Fragment{Source: 1, Type: uint32(event.FragmentMissing)}
		}
		all := []*tapv1.Fragment{{Source: 0, Size: size[e]}, tof, {Source: 2, Size: 7}}
		w.addSamples(&tapv1.Samples{Events: []*tapv1.Sample{
			{Run: 1, Event: e, Fragments: []*tapv1.Fragment{{Size: uint32(r.IntN(1000))}}},
			{Run: 2, Event: e, Fragments: all},
		}})
	}
	d := w.findings([]string{"trigger", "renamed"})
	if len(d.Findings) != 1 || d.Findings[0].Source != "renamed" || d.Findings[0].Behind != 1 || d.Slips != 1 ||
		d.Compared != 2990/128*128 {
		t.Errorf("%+v", d)
	}
}

// TestDriftOfAnEarlierControl: what a control found that is gone stays found, and has an end.
func TestDriftOfAnEarlierControl(t *testing.T) {
	saved, err := json.Marshal(savedState{Drift: &figures.Drift{Slips: 3, Compared: 5000, Findings: []drift.Finding{
		{Source: "tof", SourceID: 1, Reference: "trigger", Behind: 1, Since: 100, Reported: 499},
		{Source: "tof", SourceID: 1, Reference: "trigger", Behind: 2, Since: 40, Until: 90, Reported: 60},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	read := savedState{}
	if err := json.Unmarshal(saved, &read); err != nil {
		t.Fatal(err)
	}
	w := &driftWatch{monitor: drift.New([]string{"trigger", "tof"}), earlier: endFindings(*read.Drift)}
	d := w.findings([]string{"trigger", "tof"})
	if len(d.Findings) != 2 || d.Findings[0].Until != 500 || d.Findings[1].Until != 90 || d.Slips != 3 ||
		d.Compared != 5000 {
		t.Errorf("%+v", d)
	}
}
