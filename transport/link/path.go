package link

// A path that stops carrying full packets while the link is up, a black hole in the words of RFC 8899 (section 4.3):
// full datagrams vanish and say nothing, small ones pass. Whoever waits for a full one waits for ever. So the link
// keeps account of what is evidence:
//
//	a full datagram that was only ever sent whole arrives: the path carries full ones, and all signs are void
//	since then a full one was sent, something small behind it has arrived, and no full one has: a sign
//
// Signs count at most one to a time-out, so that what is small and overtakes the rest in the queue of a port proves
// nothing. After so many as blackHoleThreshold in a row, datagrams larger than the base size go in fragments
// (fragments.go). To have evidence where all is large, after a time-out one datagram that was sent whole before goes in
// fragments. From time to time one goes whole, to see whether the path carries it again; if not, it is repaired in
// fragments.

const (
	// blackHoleThreshold: of large datagrams half are lost where many links share a port with a short queue; then one link
	// in 32 gives full datagrams up for initialRaiseInterval. A black hole is found after 5 time-outs, 0.1 to 0.2 s on a
	// LAN.
	blackHoleThreshold = 5
	// initialRaiseInterval is how long after it fell back a link tries a full datagram, maxRaiseInterval between tries
	// that fail. A try costs the repair of one datagram; RFC 8899 has 600 s, with a probe that serves nothing else.
	initialRaiseInterval = 500 * millisecond
	maxRaiseInterval     = 30_000 * millisecond
)

// path is what a link knows of the sizes that its path carries.
type path struct {
	fullSize, baseSize int // bytes of a datagram
	currentSize        int // the largest that is sent whole: full or base

	markTransmission uint64 // signs are about transmissions after this one
	markAt           int64  // when it was set, ns
	firstLarge       uint64 // first full one sent whole after the mark, or 0
	newestSmall      uint64 // newest small one that has arrived
	fragmentsArrived bool   // one that vanished whole has arrived in fragments, since the mark
	blackHoleSigns   int

	raiseAt, raiseInterval int64 // the next try of a full one, and the time between tries, ns
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

// tryRaise reports whether it is time to send a full datagram, though the path is thought not to carry it.
func (p *path) tryRaise(now int64) bool {
	if now < p.raiseAt {
		return false
	}
	p.raiseInterval = min(2*p.raiseInterval, maxRaiseInterval)
	p.raiseAt = now + p.raiseInterval
	return true
}

// onArrival takes one record that has arrived: of how many bytes, whether any transmission of it went in fragments, and
// the newest transmission. It reports whether the path carries full datagrams again.
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

// detectBlackHole weighs what an ack has told; sent is the newest transmission, and minInterval the least time between
// signs. It reports whether the path is found to carry no full datagrams any more.
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
