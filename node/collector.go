package node

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// collectAt is GOGC: quic-go makes garbage per datagram, and a collection costs the same however much there is of
	// it. At 100 the collector took a quarter of a receiving node's time, at 800 a tenth (measured 2026-11-21).
	collectAt = 800
	// leastAt is the Go runtime's own.
	leastAt = 100
	// mostGarbage is how many bytes of garbage there may be, but where leastAt gives more. What lives grows with the
	// sources, 21 MB for each that listens, and without a bound eight times as much of garbage lay beside it.
	mostGarbage = 256 << 20
)

// Tune sets the garbage collector for a node: it collects seldom, and garbage has a bound.
func Tune() {
	debug.SetGCPercent(collectAt)
	tune(collectAt)
}

// tune looks after each collection at what lives. set is the percentage that holds.
func tune(set int) {
	// Nobody holds it, so its finalizer runs after the next collection. It is a pointer, since small things without one
	// share memory, and may never be collected.
	runtime.SetFinalizer(new(*byte), func(**byte) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		next := percentFor(live[0].Value.Uint64())
		if next != set { // this stops the world
			debug.SetGCPercent(next)
		}
		tune(next)
	})
}

// percentFor is the GOGC with which so many bytes that live have no more garbage beside them than they may. It goes by
// halves, so that it seldom changes.
func percentFor(live uint64) int {
	percent := collectAt
	for percent > leastAt && live > mostGarbage*100/uint64(percent) {
		percent /= 2
	}
	return percent
}
