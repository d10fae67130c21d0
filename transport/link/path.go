package link

// A path may stop carrying full packets while the link is up: a route changes, say, and a router with a smaller MTU
// drops full datagrams without a message, while small ones pass. RFC 8899 §4.3 calls that a black hole. Without
// countermeasures a link would send the full datagram again for ever. So the link collects evidence:
//
//	a full datagram that was only ever sent whole arrives: the path carries full ones, and all signs are void
//	after that a full one was sent, a later small one has arrived, and no full one has: a sign
//
// At most one sign counts per time-out, so a small datagram that overtakes full ones in the queue of a port proves
// nothing. After blackHoleThreshold signs in a row, datagrams larger than the base size go in fragments (fragments.go).
// If all datagrams are large, no small one can arrive as evidence; so after a time-out one of those that were sent
// whole goes in fragments. On a reduced path one datagram goes whole from time to time, to test whether the path
// carries full ones again; if it is lost, it is repaired in fragments.

const (
	// blackHoleThreshold: where many links share a port with a short queue, half of the large datagrams are lost; then one
	// link in 32 falls back to fragments for initialRaiseInterval by mistake. A black hole is found after 5 time-outs, 0.1
	// to 0.2 s on a LAN.
	blackHoleThreshold = 5
	// initialRaiseInterval is the time from the fall-back to the first test with a full datagram, maxRaiseInterval the
	// longest time between tests that fail. A test costs the repair of one datagram; RFC 8899 has 600 s, with probes that
	// carry no data.
	initialRaiseInterval = 500 * millisecond
	maxRaiseInterval     = 30_000 * millisecond
)

// path is what a link knows of the datagram sizes that its path carries.
type path struct {
	fullSize, baseSize int // bytes of a datagram: the agreed size, and the one that always passes
	currentSize        int // the largest datagram that is sent whole: fullSize or baseSize

	markTransmission uint64 // only transmissions after this one give signs
	markAt           int64  // when it was set, ns
	firstLarge       uint64 // first full one sent whole after the mark; 0: none
	newestSmall      uint64 // newest small one that has arrived
	fragmentsArrived bool   // since the mark a datagram has arrived in fragments that was lost when it was sent whole
	blackHoleSigns   int

	raiseAt, raiseInterval int64 // when to test with a full datagram, and the time between tests, ns
}

func newPath(full, base int) path { return path{fullSize: full, baseSize: base, currentSize: full} }

// isReduced reports whether full datagrams go in fragments.
func (p *path) isReduced() bool { return p.currentSize < p.fullSize }

// onLargeSent notes that a datagram larger than the base was sent whole.
func (p *path) onLargeSent(transmission uint64) {
	if p.firstLarge == 0 {
		p.firstLarge = transmission
	}
}

// tryRaise reports whether it is time to test the path with a full datagram.
func (p *path) tryRaise(now int64) bool {
	if now < p.raiseAt {
		return false
	}
	p.raiseInterval = min(2*p.raiseInterval, maxRaiseInterval)
	p.raiseAt = now + p.raiseInterval
	return true
}

// onArrival takes an acked datagram: its size in bytes, whether any transmission of it went in fragments, and its
// newest transmission. It reports whether the path turns out to carry full datagrams again.
func (p *path) onArrival(size int, fragmented bool, transmission uint64) (grown bool) {
	switch {
	case size <= p.baseSize:
		p.newestSmall = max(p.newestSmall, transmission)
	case fragmented:
		p.fragmentsArrived = true
	default:
		grown = p.isReduced()
		p.currentSize = p.fullSize
		p.blackHoleSigns, p.firstLarge, p.fragmentsArrived, p.markTransmission = 0, 0, false, max(p.markTransmission,
			transmission)
	}
	return grown
}

// detectBlackHole looks for a sign after an ack; sent is the newest transmission, and minInterval the least time
// between signs. It reports whether the path no longer carries full datagrams.
func (p *path) detectBlackHole(now int64, sent uint64, minInterval int64) (shrunk bool) {
	if p.isReduced() || p.firstLarge == 0 || p.firstLarge <= p.markTransmission {
		return false
	}
	if !p.fragmentsArrived && p.newestSmall <= p.firstLarge+packetThreshold {
		return false
	}
	if now-p.markAt < minInterval {
		return false
	}
	p.blackHoleSigns++
	p.markTransmission, p.markAt, p.firstLarge, p.fragmentsArrived = sent, now, 0, false
	if p.blackHoleSigns < blackHoleThreshold {
		return false
	}
	p.currentSize, p.blackHoleSigns = p.baseSize, 0
	p.raiseInterval, p.raiseAt = initialRaiseInterval, now+initialRaiseInterval
	return true
}
