package node

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// maxGCPercent is GOGC: quic-go makes garbage per datagram, and a collection costs the same however much there is of
	// it. At 100 the collector took a quarter of a receiving node's time, at 800 a tenth (measured 2026-11-21).
	maxGCPercent = 800
	// minGCPercent is the Go runtime's own.
	minGCPercent = 100
	// maxGarbage is how many bytes of garbage there may be, but where minGCPercent gives more. What lives grows with the
	// sources, 21 MB for each that listens, and without a bound eight times as much of garbage lay beside it.
	maxGarbage = 256 << 20
)

// TuneGC sets the garbage collector for a node: it collects seldom, and garbage has a bound.
func TuneGC() {
	debug.SetGCPercent(maxGCPercent)
	adjustGC(maxGCPercent)
}

// adjustGC looks after each collection at what lives. set is the percentage that holds.
func adjustGC(set int) {
	// Nobody holds it, so its finalizer runs after the next collection. It is a pointer, since small things without one
	// share memory, and may never be collected.
	runtime.SetFinalizer(new(*byte), func(**byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		next := gcPercentFor(live[0].Value.Uint64())
		if next != set { // this stops the world
			debug.SetGCPercent(next)
		}
		adjustGC(next)
	})
}

// gcPercentFor is the GOGC with which so many bytes that live have no more garbage beside them than they may. It goes
// by halves, so that it seldom changes.
func gcPercentFor(live uint64) int {
	percent := maxGCPercent
	for percent > minGCPercent && live > maxGarbage*100/uint64(percent) {
		percent /= 2
	}
	return percent
}
