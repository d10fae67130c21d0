package core

import (
	"testing"

	"pgregory.net/rapid"
)

// TestServed holds the bit field against a set.
func TestServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s ServedRUs
		set := map[int]bool{}
		for _, ru := range rapid.SliceOf(rapid.IntRange(0, MaxTagRingRUs-1)).Draw(t, "served") {
			before := s
			s.Add(ru)
			set[ru] = true
			if !s.containsAll(&before) || s != before && before.containsAll(&s) {
				t.Fatal("keeps")
			}
		}
		rus, most := rapid.IntRange(1, MaxTagRingRUs).Draw(t, "rus"), 0
		for ru := range MaxTagRingRUs {
			if s.Contains(ru) != set[ru] {
				t.Fatalf("readout unit %d", ru)
			}
			if set[ru] {
				most = ru + 1
			}
		}
		if s.Len() != len(set) || s.allBelow(rus) != (most <= rus) {
			t.Fatalf("%d, %v within %d", s.Len(), s.allBelow(rus), rus)
		}
	})
}
