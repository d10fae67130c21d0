package readoutunit

import (
	"slices"
	"testing"

	"ringlet/tagnet"
)

// TestBound holds that rounds of many cycles end where readout units go or come back, and that one of a single cycle
// begins there: nobody has agreed on more.
func TestBound(t *testing.T) {
	s := NewShift(0, InOrder(2, 2), 2, 4, false)
	s.Widen(4)
	b := tagnet.Batch{
		Places: 2,
		MEPs:   slices.Repeat([]uint64{tagnet.NoMEP}, 40),
		Slots:  make([]uint32, 40),
	}
	var begun []uint64
	for i := range 20 {
		if i == 6 || i == 13 {
			s.Bound(uint64(i))
		}
		if err := s.Cycle(&b, i); err != nil {
			t.Fatal(err)
		}
	}
	for s.ready() {
		if _, phases := s.progress(); s.phase == 0 && phases == 2 {
			begun = append(begun, s.Round())
		}
		s.Passed(s.Ahead())
	}
	if want := []uint64{0, 1, 5, 6, 7, 11, 13, 14, 18}; !slices.Equal(begun, want) {
		t.Errorf("rounds begin with the cycles %v, want %v", begun, want)
	}
}
