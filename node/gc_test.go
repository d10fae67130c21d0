package node

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

// TestGarbageHasABound: the percentage is that of a small node until garbage would have more than it may, and never
// less than the runtime's own.
func TestGarbageHasABound(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         maxGCPercent,
		32 << 20:  maxGCPercent,
		33 << 20:  400,
		100 << 20: 200,
		1 << 30:   minGCPercent,
		1 << 62:   minGCPercent,
	} {
		got := gcPercentFor(live)
		if got != want {
			t.Errorf("%d bytes: %d, want %d", live, got, want)
		}
		if garbage := live / 100 * uint64(got); got > minGCPercent && garbage > maxGarbage {
			t.Errorf("%d bytes have %d of garbage", live, garbage)
		}
	}
}

// TestCollectorFollowsWhatLives: the percentage goes down with what lives, and up again without it.
func TestCollectorFollowsWhatLives(t *testing.T) {
	before := debug.SetGCPercent(maxGCPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	TuneGC()
	awaitPercent := func(want int) {
		t.Helper()
		got := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for until := time.Now().Add(patiently.LongTimeout); time.Now().Before(until); time.Sleep(time.Millisecond) {
			runtime.GC()
			if metrics.Read(got); got[0].Value.Uint64() == uint64(want) {
				return
			}
		}
		t.Errorf("%d %%, want %d", got[0].Value.Uint64(), want)
	}
	lives := make([]byte, 48<<20)
	awaitPercent(maxGCPercent / 2)
	runtime.KeepAlive(lives)
	awaitPercent(maxGCPercent)
}
