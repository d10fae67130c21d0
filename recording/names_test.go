package recording

import "testing"

// TestNamesMissing holds that a verdict names the fragments of a readout unit in the MEPs that builder units have
// counted, and in those of its absences, whose last counts may not have come.
func TestNamesMissing(t *testing.T) {
	back := uint64(60)
	v := &Verdict{UnitOutages: []UnitOutages{
		{FirstSource: 3, LastSource: 5, MEPs: 4, FirstMEP: 10, LastMEP: 20, Outages: []Outage{{FromMEP: 12},
			{FromMEP: 50, ReturnMEP: &back}}},
		{FirstSource: 6, LastSource: 6, FirstMEP: 50, LastMEP: 52, Outages: []Outage{{FromMEP: 50, ReturnMEP: &back}}},
	}}
	v.UnitOutages[0].Outages[0].ReturnMEP = new(uint64(21))
	for _, c := range []struct {
		mep     uint64
		sources []uint16
		want    bool
	}{
		{9, []uint16{3}, false}, {10, []uint16{3, 5}, true}, {20, []uint16{4}, true}, {21, []uint16{4}, false},
		{49, []uint16{4}, false}, {50, []uint16{4, 6}, true}, {59, []uint16{6}, true}, {60, []uint16{6}, false},
		{0, []uint16{6}, false}, {55, []uint16{6, 7}, false},
	} {
		if got := v.namesMissing(c.mep, c.sources); got != c.want {
			t.Errorf("MEP %d, sources %d: %v", c.mep, c.sources, got)
		}
	}
	if (*Verdict)(nil).namesMissing(0, []uint16{3}) {
		t.Error("no verdict names something")
	}
}
