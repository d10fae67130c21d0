package event

import "testing"

// TestPaddedSumAtItsLimits fills the lanes of the fast sum as far as a size
// table can: the largest packing of the largest fragments, at each alignment.
func TestPaddedSumAtItsLimits(t *testing.T) {
	sizes := make([]byte, 2*MaxPacking)
	for i := range sizes {
		sizes[i] = 0xFF
	}
	for align := uint8(0); align <= maxAlign; align++ {
		want := uint64(MaxPacking) * padSize(MaxNarrowFragment, align)
		if got := sumPaddedSizes(sizes, align); got != want {
			t.Errorf("align %d: %d, want %d", align, got, want)
		}
	}
}
