package run

import "testing"

// TestGivenUp holds that a run which is stopped before it ran says so: its verdict alone would leave a reader without a
// reason.
func TestGivenUp(t *testing.T) {
	for _, c := range []struct {
		abandon, began bool
		code           string
	}{
		{false, true, ""},
		{false, false, "not_begun"},
		{true, true, "abandoned"},
		{true, false, "abandoned"},
	} {
		s, _ := State{}.Step(Input{Kind: Open})
		if c.began {
			s, _ = s.Step(Input{Kind: Done, Ticket: s.Ticket})
		}
		in := Input{Kind: Stop, By: "anna", Reason: EndStopped}
		if c.abandon {
			in.Kind = Abandon
		}
		s, _ = s.Step(in)
		got := s.Cause
		if (got != nil) != (c.code != "") || got != nil && (got.Code != c.code || got.Component != "anna") {
			t.Errorf("abandon %v, begun %v: %v", c.abandon, c.began, got)
		}
	}
}
