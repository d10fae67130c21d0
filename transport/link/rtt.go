package link

// Repair by time. The gap rule repairs everything but the tail: when the newest datagrams of a burst are lost,
// nothing later overtakes them. So after a silence the newest one is sent again as a probe (RFC 8985 §7 does the
// same for TCP); its ack lets the gap rule do the rest. Only when probes stay unanswered are the oldest datagrams
// sent again, ever more slowly.

const (
	millisecond = int64(1e6)
	initialRTT  = 20 * millisecond
	// A peer process may lose its core for a scheduler's slice or two; a probe sent sooner is mostly wasted.
	// Measured on 2 cores with 8 processes, 2026-11-21.
	minProbeDelay = 4 * millisecond
	minTimeout    = 20 * millisecond
	maxTimeout    = 500 * millisecond
	// What a long round trip may ask of later time-outs: a megabyte in the queue of a port of 100 Mbit/s, not a
	// process that stood still.
	maxRTTTimeout = 80 * millisecond
	// What the longest round trip is assumed to be at first; each that is measured takes a part of it away. The
	// first ones are short: of signals, and of the data that a port lets through at once. If all that stands behind
	// these were sent again before it is heard of, no round trip would ever be measured, and each datagram would be
	// sent several times.
	initialAssumedRTT = 3 * initialRTT
	assumedDecay      = 16
	// A time-out repairs at most this many datagrams, so that a peer that stands still is not flooded when it wakes.
	maxTimeoutRepairs = 16
)

// rtt is the smoothed round trip (RFC 6298), and the longest of late. An ack waits behind what its sender has just
// given to a slow port, 40 ms at 200 Mbit/s, once in a cycle of phases; between, signals make short round trips that
// would let 4 × the variance forget it, and every phase begin with probes for nothing (0.3 % of all datagrams with 8
// nodes, 2026-11-21).
type rtt struct {
	smoothed, variance, min, recentMax int64
	hasSample                          bool
	assumedMax                         int64 // the longest one, less with each that was measured
}

func newRTT() rtt {
	return rtt{smoothed: initialRTT, variance: initialRTT / 2, min: initialRTT, assumedMax: initialAssumedRTT}
}

// addSample takes one round trip. Longer ones than maxTimeout say that the peer or the path stood still, not how long
// the path is.
func (r *rtt) addSample(d int64) {
	if d < 0 {
		return
	}
	d = min(d, maxTimeout)
	r.min = min(r.min, d)
	capped := min(d, maxRTTTimeout)
	r.recentMax = max(capped, r.recentMax-(r.recentMax-capped)/256)
	r.assumedMax -= r.assumedMax / assumedDecay
	if !r.hasSample { // what was assumed says nothing any more
		r.hasSample, r.smoothed, r.variance = true, d, d/2
		return
	}
	dev := r.smoothed - d
	if dev < 0 {
		dev = -dev
	}
	r.variance += (dev - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

func (r *rtt) timeout() int64 { return max(r.smoothed+4*r.variance, r.recentMax, r.assumedMax) }
