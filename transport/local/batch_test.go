package local

import (
	"testing"

	"ringlet/transport/link"
)

// TestLargePiecesAreReportedSoon: the peer is told of 64 KiB, or of what ends beyond, before more is stored.
func TestLargePiecesAreReportedSoon(t *testing.T) {
	for _, tc := range []struct {
		sizes []int
		want  int
	}{
		{[]int{1}, 1},
		{[]int{0, 0, 0}, 3},
		{[]int{1 << 20, 1, 1}, 1},
		{[]int{1, 1 << 20, 1}, 2},
		{[]int{maxBatchBytes - 1, 1, 1}, 2},
		{make([]int, 2*maxPlacements), maxPlacements},
	} {
		var pieces []link.Piece
		for _, n := range tc.sizes {
			pieces = append(pieces, link.Piece{Data: make([]byte, n)})
		}
		if got := piecesPerRecord(pieces); got != tc.want {
			t.Errorf("of pieces of %v bytes %d are told together, want %d", tc.sizes, got, tc.want)
		}
	}
}
