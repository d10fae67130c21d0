package quic

// The way of a packet of a session. Nothing here allocates.
//
//	1 dispatch (sequential: the socket's reader)  finds the session, once per run of packets of one session
//	2 handOver (parallel: a goroutine a session)  with more than two processors: the read goes to that goroutine
//	3 Inspect                                     checks number and key; a refused packet only costs a counter
//	4 Peek                                        decrypts the first bytes
//	5 Reserve                                     the link says where the body belongs; if nowhere, Receive follows
//	6 OpenRest                                    body → its place in the exported segment; not authentic: a counter
//	7 notifyIdle                                  no more packets are at hand: acks fall due

import (
	"sync/atomic"

	"ringlet/transport/express"
)

// maxSessions is the most sessions of a node; the low bits of a connection ID are the session's index.
const maxSessions = 1 << 12

// BulkStats counts packets of sessions, and why some were dropped; quic-go's packets do not count.
type BulkStats struct {
	Packets        uint64 `help:"packets of the carrier quic received, with those below"`
	Malformed      uint64 `help:"packets that no peer sends: too short, wrong header or frames; dropped"`
	UnknownSession uint64 `count:"strangers" help:"packets of no link that is open; dropped"`
	Replayed       uint64 `help:"packets seen before, or too old to know; dropped"`
	UnknownKey     uint64 `help:"packets of a key that is not in use; dropped"`
	Forged         uint64 `help:"packets not sealed by the peer, or damaged on the way; dropped"`
	LinkNotUp      uint64 `count:"early" help:"packets before the link was up, or after it was closed; dropped"`
	Probes         uint64 `help:"packets of the peer to find the size of packets, and its answers"`
}

// sessions passes packets to their sessions.
type sessions struct {
	byNumber [maxSessions]atomic.Pointer[expressConn]

	stats BulkStats // atomic

	// owned by the socket's reader
	inline  receiveScratch
	idleDue []*expressConn // sessions that have received packets since the last notifyIdle

	pool *readBufferPool // of buffers for reads; nil: the socket's reader decrypts all packets itself
}

// receiveScratch is the memory of a goroutine that receives packets.
type receiveScratch struct {
	buf       []byte // for datagrams without a place: as long as one read
	used      int
	authentic bool // a packet of the present read was authentic
}

// alloc returns n bytes of buf; the packets of one read fit in it.
func (r *receiveScratch) alloc(n int) []byte {
	m := r.buf[r.used : r.used+n]
	r.used += n
	return m
}

func newReceiveScratch() receiveScratch { return receiveScratch{buf: make([]byte, 1<<16)} }

// dispatch passes on packets of segment bytes, the last maybe shorter, from one read. all says that buf holds no other
// bytes; then buf itself may go to a session. It returns the buffer for the next read.
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

// nextRun finds the first packets that are of one session. It returns nil for packets of no session, which it counts.
func (b *sessions) nextRun(packets []byte, segment int) (c *expressConn, n int) {
	count := uint64(0)
	for n < len(packets) {
		p := packets[n:min(n+segment, len(packets))]
		of, refused := b.find(p)
		if n > 0 && of != c {
			break // the next run begins with p
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

// find returns the session that a packet names, or the counter for its refusal.
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

// handOver passes packets of one session to its goroutine: with the read's buffer if they fill it, as nearly always, or
// copied.
func (b *sessions) handOver(c *expressConn, buf, packets []byte, segment int, all bool) []byte {
	next := <-b.pool.free
	if all {
		c.inbox.put(b.pool, queuedRead{buf, len(packets), segment})
		return next
	}
	c.inbox.put(b.pool, queuedRead{next, copy(next, packets), segment})
	return buf
}

// receiveInline decrypts packets of one session in the socket's reader.
func (b *sessions) receiveInline(c *expressConn, packets []byte, segment int) {
	if !c.idleDue {
		c.idleDue = true
		b.idleDue = append(b.idleDue, c)
	}
	c.receive(&b.inline, packets, segment)
}

// notifyIdle tells the sessions of receiveInline that no more packets have arrived.
func (b *sessions) notifyIdle() {
	for i, c := range b.idleDue {
		c.idleDue = false
		c.notifyIdle()
		b.idleDue[i] = nil
	}
	b.idleDue = b.idleDue[:0]
}
