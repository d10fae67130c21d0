package memory

import (
	"ringlet/shmem"
	"ringlet/transport/link"
)

// Reads of peers over a network: this node copies the bytes into a buffer kept for the peer, and writes them into the
// window that the reader has lent.

// maxInlineRead is the longest read that the receiving goroutine carries out itself, bytes: waking another goroutine
// costs more.
const maxInlineRead = 16 << 10

// takeShortRead takes a short read that the goroutine that received it may carry out, unless the peer's memory is
// mapped. That goroutine never waits for space in a link's queue, since it is the one that receives the acks. The
// caller holds mu.
func (p *peer) takeShortRead(requested []outgoingRead) (r readJob, buffer int, taken bool) {
	if len(requested) != 1 || requested[0].n > maxInlineRead || p.space.ep.Mapped(p.rank) != nil {
		return r, 0, false
	}
	select {
	case buffer = <-p.readBuffers.freeIndexes:
		return requested[0].readJob, buffer, true
	default:
		return r, 0, false
	}
}

// queueRead passes a read to the peer's goroutine. The caller holds mu.
func (p *peer) queueRead(r readJob) {
	if p.readJobs == nil {
		p.readJobs = make(chan readJob, maxPending)
		p.space.wg.Go(p.serveReads)
	}
	p.readJobs <- r // the responder admits no more than the channel holds
}

// serveReads carries out the peer's reads, until its link is over.
func (p *peer) serveReads() {
	for {
		select {
		case r := <-p.readJobs:
			if why, ok := p.serveRead(&r); ok {
				p.finishRead(r.id, why)
			}
		case <-p.done:
			return
		}
	}
}

// finishRead ends a read of the peer.
func (p *peer) finishRead(id uint64, why Cause) {
	s := p.space
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers[p.rank] == p && !s.closed {
		s.responder.finishRead(p.rank, id, why)
		s.runActions()
	}
}

// serveRead writes the bytes of a segment to the reader's window. It reports false if the link is over.
func (p *peer) serveRead(r *readJob) (why Cause, ok bool) {
	for at := uint32(0); at < r.n && why == causeNone; {
		n := min(r.n-at, largeSize)
		var buffer int
		select {
		case buffer = <-p.readBuffers.freeIndexes:
		case <-p.done:
			return 0, false
		}
		var err error
		if why, err = p.copyOut(r, at, n, buffer, p.space.ep.Write); err != nil {
			return 0, false
		}
		at += n
	}
	return why, true
}

// copyOut writes n bytes at an offset of a read, from a buffer. It pins the window while it copies, not while the bytes
// travel. The error is the write's.
func (p *peer) copyOut(r *readJob, at, n uint32, buffer int,
	write func(int, link.Write) error) (Cause, error) {
	src, v := p.space.table.Acquire(shmem.Peer(p.rank), r.ref, r.off+at, n, shmem.AccessRead)
	if v != 0 {
		p.readBuffers.release(buffer)
		return causeOf(v), nil
	}
	buf := p.readBuffers.bytes(buffer)[:n]
	copy(buf, src)
	p.space.table.Release(r.ref)
	return causeNone, write(p.rank, link.Write{
		Ref:    r.dest,
		Offset: at,
		Data:   buf,
		Imm:    r.id,
		Cookie: cookieReader | p.cookie(0, buffer, false),
	})
}
