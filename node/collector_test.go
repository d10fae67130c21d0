package node

import "testing"

// TestGarbageHasABound: the percentage is that of a small node until garbage would have more than it may, and never less
// than the runtime's own.
func TestGarbageHasABound(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         collectAt,
		32 << 20:  collectAt,
		33 << 20:  400,
		100 << 20: 200,
		1 << 30:   leastAt,
		1 << 62:   leastAt,
	} {
		got := percentFor(live)
		if got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
		if garbage := live / 100 * uint64(got); got > leastAt && garbage > mostGarbage {
			t.Errorf("%d bytes have %d of garbage", live, garbage)
		}
	}
}
