package quic

import (
	"sync/atomic"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// quicIdleTimeout is when quic-go itself gives up a silent peer. It receives only its own few packets, and on a
// congested port these may be lost while the link's bulk packets, which by-pass quic-go, still arrive. So its time-out
// is long, and liveness decides.
const quicIdleTimeout = 10 * time.Minute

// liveness decides whether the peer of a connection is alive, by packets that quic-go receives and those of the link.
type liveness struct {
	qc        *quicgo.Conn
	bulkReads atomic.Uint64 // reads with at least one authentic packet of the link
}

// packetsReceived counts packets from the peer. Both summands count only packets decrypted with the connection's keys.
func (l *liveness) packetsReceived() uint64 {
	return l.qc.ConnectionStats().PacketsReceived + l.bulkReads.Load()
}

// closeWhenSilent ends the connection when no packet has arrived for as long as timeout says now. It checks
// silenceChecks times in that time; quic-go's keep-alive asks a silent peer for an answer as often.
func (l *liveness) closeWhenSilent(timeout func() time.Duration) {
	detector := silenceDetector{lastCount: l.packetsReceived()}
	for {
		every := timeout() / silenceChecks
		select {
		case <-l.qc.Context().Done():
			return
		case <-time.After(every):
		}
		if detector.observe(l.packetsReceived()) {
			lasted := ((silenceChecks - 1) * every).Round(time.Millisecond)
			_ = l.qc.CloseWithError(0, silentForPrefix+lasted.String())
			return
		}
	}
}

// silenceDetector is the pure core of closeWhenSilent.
type silenceDetector struct {
	lastCount    uint64 // packets received by the last check
	silentChecks int    // checks in a row without a new packet
}

// observe takes the number of packets received so far, and reports whether the peer counts as dead. The first of the
// checks without a packet may come right after one, so silenceChecks-1 of them make the time.
func (l *silenceDetector) observe(received uint64) (dead bool) {
	if received != l.lastCount {
		*l = silenceDetector{lastCount: received}
		return false
	}
	l.silentChecks++
	return l.silentChecks >= silenceChecks-1
}

// silenceChecks is the number of checks within the time-out of a silent peer.
const silenceChecks = 6
