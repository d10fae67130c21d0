package quic

import (
	"sync/atomic"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// quicIdleTimeout is after how long quic-go itself gives up a silent peer. It hears its own packets alone, and where a
// port is congested these few get lost while the bulk of a link, which goes past it, still arrives. So it waits for
// longer than anybody would, and life decides.
const quicIdleTimeout = 10 * time.Minute

// liveness tells whether the peer of a connection lives: what quic-go hears of it counts, and so does what the engine
// of the bulk hears.
type liveness struct {
	qc        *quicgo.Conn
	bulkReads atomic.Uint64 // reads of the bulk in which there was a packet that the peer had sealed
}

// packetsReceived counts what came from the peer. Both parts count packets that were opened with the keys of the
// connection.
func (l *liveness) packetsReceived() uint64 {
	return l.qc.ConnectionStats().PacketsReceived + l.bulkReads.Load()
}

// closeWhenSilent ends the connection when nothing has been heard of the peer for so long. It looks six times
// meanwhile: quic-go asks a silent peer for an answer as often.
func (l *liveness) closeWhenSilent(timeout time.Duration) {
	every := timeout / silenceChecks
	tick := time.NewTicker(every)
	defer tick.Stop()
	detector := silenceDetector{lastCount: l.packetsReceived()}
	for {
		select {
		case <-l.qc.Context().Done():
			return
		case <-tick.C:
		}
		if detector.observe(l.packetsReceived()) {
			lasted := ((silenceChecks - 1) * every).Round(time.Millisecond)
			_ = l.qc.CloseWithError(0, silentForPrefix+lasted.String())
			return
		}
	}
}

// silenceDetector is the pure core: whether a peer has been silent for too long.
type silenceDetector struct {
	lastCount    uint64 // of what was heard, at the last look
	silentChecks int    // looks in a row that found no more
}

// observe takes what has been heard by now, and says whether the peer is taken for dead. The look at which something
// was heard may be up to a sixth of the time later than that, so a look less than all makes the time.
func (l *silenceDetector) observe(received uint64) (dead bool) {
	if received != l.lastCount {
		*l = silenceDetector{lastCount: received}
		return false
	}
	l.silentChecks++
	return l.silentChecks >= silenceChecks-1
}

// silenceChecks is how often a peer is looked at in the time after which it is taken for dead.
const silenceChecks = 6
