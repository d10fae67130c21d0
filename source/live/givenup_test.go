package live

import "testing"

// TestRangesGivenUpJoin only where one goes on with the other, for the same reason.
func TestRangesGivenUpJoin(t *testing.T) {
	var g GivenUpRange
	for _, c := range []struct {
		next, want GivenUpRange
		joins      bool
	}{
		{GivenUpRange{5, 6, FaultLate}, GivenUpRange{5, 6, FaultLate}, true},
		{GivenUpRange{6, 9, FaultLate}, GivenUpRange{5, 9, FaultLate}, true},
		{GivenUpRange{9, 10, FaultJump}, GivenUpRange{5, 9, FaultLate}, false},  // another reason
		{GivenUpRange{10, 11, FaultLate}, GivenUpRange{5, 9, FaultLate}, false}, // a gap
		{GivenUpRange{4, 5, FaultLate}, GivenUpRange{5, 9, FaultLate}, false},   // before it
	} {
		if joins := g.Extend(c.next); joins != c.joins || g != c.want {
			t.Errorf("%v: %v, %v", c.next, joins, g)
		}
	}
}
