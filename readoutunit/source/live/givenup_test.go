package live

import "testing"

// TestRangesGivenUpJoin only where one goes on with the other, for the same reason.
func TestRangesGivenUpJoin(t *testing.T) {
	var g GivenUp
	for _, c := range []struct {
		next, want GivenUp
		joins      bool
	}{
		{GivenUp{5, 6, Late}, GivenUp{5, 6, Late}, true},
		{GivenUp{6, 9, Late}, GivenUp{5, 9, Late}, true},
		{GivenUp{9, 10, Jump}, GivenUp{5, 9, Late}, false},  // another reason
		{GivenUp{10, 11, Late}, GivenUp{5, 9, Late}, false}, // a gap
		{GivenUp{4, 5, Late}, GivenUp{5, 9, Late}, false},   // before it
	} {
		if joins := g.Join(c.next); joins != c.joins || g != c.want {
			t.Errorf("%v: %v, %v", c.next, joins, g)
		}
	}
}
