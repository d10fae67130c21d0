package node

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// maxGCPercent is GOGC: quic-go makes garbage per datagram, and a collection costs the same however much garbage there
	// is. At 100 the collector took a quarter of a receiving node's time, at 800 a tenth (measured 2026-11-21).
	maxGCPercent = 800
	// minGCPercent is the default of the Go runtime.
	minGCPercent = 100
	// maxGarbage bounds the garbage, in bytes, unless minGCPercent allows more. Live memory grows with the sources, 21 MB
	// for each that listens; without a bound there was eight times as much garbage beside it.
	maxGarbage = 256 << 20
)

// TuneGC sets up the garbage collector of a node: few collections, and a bound on garbage.
func TuneGC() {
	debug.SetGCPercent(maxGCPercent)
	adjustGC(maxGCPercent)
}

// adjustGC checks the live memory after each collection. set is the present percentage.
func adjustGC(set int) {
	// Nothing refers to the object, so its finalizer runs after the next collection. It is a pointer because small objects
	// without pointers share memory and may never be collected.
	runtime.SetFinalizer(new(*byte), func(**byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		next := gcPercentFor(live[0].Value.Uint64())
		if next != set { // SetGCPercent stops the world
			debug.SetGCPercent(next)
		}
		adjustGC(next)
	})
}

// gcPercentFor returns the value of GOGC that keeps the garbage within maxGarbage if live bytes are in use. It halves
// the value until it fits, so that the value seldom changes.
func gcPercentFor(live uint64) int {
	percent := maxGCPercent
	for percent > minGCPercent && live > maxGarbage*100/uint64(percent) {
		percent /= 2
	}
	return percent
}
