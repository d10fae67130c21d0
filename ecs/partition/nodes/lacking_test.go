package nodes

import (
	"testing"

	"ringlet/recording"
)

// TestWidenOutages holds that the range of a readout unit's absences includes what was under way when each began, up to
// its end.
func TestWidenOutages(t *testing.T) {
	back := uint64(40)
	for _, c := range []struct {
		outages     []recording.Outage
		first, last uint64
	}{
		{nil, 20, 22},
		{[]recording.Outage{{FromMEP: 20, ReturnMEP: &back}}, 12, 39},
		{[]recording.Outage{{FromMEP: 3, ReturnMEP: &back}, {FromMEP: 90}}, 0, 99}, // it was gone at the end
	} {
		u := recording.UnitOutages{FirstMEP: 20, LastMEP: 22, Outages: c.outages}
		widenOutages(&u, 8, 100)
		if u.FirstMEP != c.first || u.LastMEP != c.last {
			t.Errorf("%v: from %d to %d", c.outages, u.FirstMEP, u.LastMEP)
		}
	}
}
