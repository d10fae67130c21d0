package quic

import (
	"sync/atomic"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// quicIdle is after how long quic-go itself gives up a silent peer. It hears its own packets alone, and where a port is
// congested these few get lost while the bulk of a link, which goes past it, still arrives. So it waits for longer than
// anybody would, and life decides.
const quicIdle = 10 * time.Minute

// life tells whether the peer of a connection lives: what quic-go hears of it counts, and so does what the engine of
// the bulk hears.
type life struct {
	qc   *quicgo.Conn
	bulk atomic.Uint64 // reads of the bulk in which there was a packet that the peer had sealed
}

// heard counts what came from the peer. Both parts count packets that were opened with the keys of the connection.
func (l *life) heard() uint64 { return l.qc.ConnectionStats().PacketsReceived + l.bulk.Load() }

// watch ends the connection when nothing has been heard of the peer for so long. It looks six times meanwhile: quic-go
// asks a silent peer for an answer as often.
func (l *life) watch(bears time.Duration) {
	every := bears / looks
	tick := time.NewTicker(every)
	defer tick.Stop()
	ear := listening{known: l.heard()}
	for {
		select {
		case <-l.qc.Context().Done():
			return
		case <-tick.C:
		}
		if ear.look(l.heard()) {
			lasted := ((looks - 1) * every).Round(time.Millisecond)
			_ = l.qc.CloseWithError(0, silentFor+lasted.String())
			return
		}
	}
}

// listening is the pure core: whether a peer has been silent for too long.
type listening struct {
	known  uint64 // of what was heard, at the last look
	silent int    // looks in a row that found no more
}

// look takes what has been heard by now, and says whether the peer is taken for dead. The look at which something was
// heard may be up to a sixth of the time later than that, so a look less than all makes the time.
func (l *listening) look(heard uint64) (dead bool) {
	if heard != l.known {
		*l = listening{known: heard}
		return false
	}
	l.silent++
	return l.silent >= looks-1
}

// looks is how often a peer is looked at in the time after which it is taken for dead.
const looks = 6
