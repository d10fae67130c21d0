package partition

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
		got := interruptCause("anna", c.abandon, c.began)
		if got.GetCode() != c.code || (got != nil) != (c.code != "") || got != nil && got.GetComponent() != "anna" {
			t.Errorf("abandon %v, begun %v: %v", c.abandon, c.began, got)
		}
	}
}
