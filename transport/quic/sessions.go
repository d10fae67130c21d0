package quic

// The way of a packet of a session. Nothing here allocates.
//
//	1 dispatch (sequential: the socket's reader)  the session found, once per run of packets of one session
//	2 spread (parallel: a goroutine a session)  where there are processors for it: the read, to that goroutine
//	3 look                                      number and key judged; what is refused costs a counter and no more
//	4 peek                                      the first bytes opened
//	5 reserve                                   the link says where the body belongs, or it is opened aside
//	6 open                                      body → its place in the exported segment; not authentic: a counter
//	7 idle                                      nothing more is at hand: acks fall due

import (
	"sync/atomic"

	"ringlet/transport/express"
)

// maxSessions bounds the sessions of a node; the low bits of a connection ID are its place.
const maxSessions = 1 << 12

// BulkStats counts packets of the carrier quic, but for those of quic-go, and why some were not used.
type BulkStats struct {
	Packets        uint64 `help:"packets of the carrier quic that came, with those below"`
	Malformed      uint64 `help:"packets too short, or with frames or a header that no peer sends; dropped"`
	UnknownSession uint64 `count:"strangers" help:"packets of no link that is open; dropped"`
	Replayed       uint64 `help:"packets seen before, or too old to know; dropped"`
	UnknownKey     uint64 `help:"packets of a key that is not in use; dropped"`
	Forged         uint64 `help:"packets not sealed by the peer, or damaged on the way; dropped"`
	LinkNotUp      uint64 `count:"early" help:"packets before the link was up, or after it was closed; dropped"`
	Probes         uint64 `help:"packets of the peer to find the size of packets, and its answers"`
}

// sessions gives packets to their sessions.
type sessions struct {
	byNumber [maxSessions]atomic.Pointer[expressConn]

	stats BulkStats // atomic

	// owned by the socket's reader
	inline  receiveScratch
	idleDue []*expressConn // have taken packets since the last notifyIdle

	pool *readBufferPool // of buffers for reads; nil: the socket's reader opens all packets itself
}

// receiveScratch is what one goroutine needs to take packets.
type receiveScratch struct {
	buf       []byte // where what has no place is opened: room for one read
	used      int
	authentic bool // a packet of this read was sealed by the peer
}

// alloc is a piece of the memory aside, as long as the packets of one read may need.
func (r *receiveScratch) alloc(n int) []byte {
	m := r.buf[r.used : r.used+n]
	r.used += n
	return m
}

func newReceiveScratch() receiveScratch { return receiveScratch{buf: make([]byte, 1<<16)} }

// dispatch takes packets of segment bytes, the last maybe shorter, that one read has brought. If they are all of what
// lies in buf, buf may change hands; take returns the buffer for the next read.
func (b *sessions) dispatch(buf, packets []byte, segment int, all bool) []byte {
	for len(packets) > 0 {
		c, n := b.nextRun(packets, segment)
		if c != nil && b.pool != nil {
			buf = b.handOver(c, buf, packets[:n], segment, all && n == len(packets))
		} else if c != nil {
			b.receiveInline(c, packets[:n], segment)
		}
		all, packets = false, packets[n:]
	}
	return buf
}

// nextRun finds the packets of one session that stand in front; nil for those that are of none, which are counted.
func (b *sessions) nextRun(packets []byte, segment int) (c *expressConn, n int) {
	count := uint64(0)
	for n < len(packets) {
		p := packets[n:min(n+segment, len(packets))]
		of, refused := b.find(p)
		if n > 0 && of != c {
			break // the next run begins with it
		}
		c = of
		n += len(p)
		count++
		if c == nil {
			increment(refused)
			break
		}
	}
	atomic.AddUint64(&b.stats.Packets, count)
	return c, n
}

// find finds whose a packet says it is, or what counts those that are nobody's in this way.
func (b *sessions) find(p []byte) (c *expressConn, refused *uint64) {
	id, ok := express.SessionID(p)
	if !ok {
		return nil, &b.stats.Malformed
	}
	c = b.byNumber[id%maxSessions].Load()
	if c == nil || c.recvSessionID != id {
		return nil, &b.stats.UnknownSession
	}
	return c, nil
}

// handOver gives the packets of one session to its goroutine: with their buffer if they are all of it, as nearly
// always, or copied.
func (b *sessions) handOver(c *expressConn, buf, packets []byte, segment int, all bool) []byte {
	next := <-b.pool.free
	if all {
		c.inbox.put(b.pool, queuedRead{buf, len(packets), segment})
		return next
	}
	c.inbox.put(b.pool, queuedRead{next, copy(next, packets), segment})
	return buf
}

// receiveInline opens the packets of one session here.
func (b *sessions) receiveInline(c *expressConn, packets []byte, segment int) {
	if !c.idleDue {
		c.idleDue = true
		b.idleDue = append(b.idleDue, c)
	}
	c.receive(&b.inline, packets, segment)
}

// notifyIdle tells the links that took packets here that nothing more is at hand.
func (b *sessions) notifyIdle() {
	for i, c := range b.idleDue {
		c.idleDue = false
		c.notifyIdle()
		b.idleDue[i] = nil
	}
	b.idleDue = b.idleDue[:0]
}
