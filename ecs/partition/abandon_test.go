package partition_test

import "testing"

// A run that is given up at somebody's wish is nobody's fault: every node is in Ready, though each sees its peers drop
// what they had.
func TestAbandonBlamesNobody(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 4, nil)
	h.must("load", "configure")
	for range 5 {
		h.must("start")
		h.built(0)
		if err := h.ask("stop", "abandon", "true"); err != nil {
			t.Fatal(err)
		}
		for _, c := range h.Status().GetRoot().GetChildren() {
			if c.GetInError() || c.GetState() != "Ready" {
				t.Errorf("%s is in %s: %v", c.GetName(), c.GetState(), c.GetCause())
			}
		}
	}
}
