package memory

import (
	"ringlet/shmem"
	"ringlet/transport/link"
)

// What a peer reads here, over a network: its bytes are copied to a buffer of the peer's and written to where it wants
// them.

// maxInlineRead is so short that its bytes cost no more than its request. Waking a goroutine costs more.
const maxInlineRead = 16 << 10

// takeShortRead takes a read that the goroutine which received it may carry out, but for one into mapped memory. That
// goroutine never waits for room in a link's queue, for it brings what makes room. mu is held.
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

// queueRead hands a read to the goroutine of the peer. mu is held.
func (p *peer) queueRead(r readJob) {
	if p.readJobs == nil {
		p.readJobs = make(chan readJob, maxPending)
		p.space.wg.Go(p.serveReads)
	}
	p.readJobs <- r // the owner lets no more wait than there is room for
}

// serveReads carries out what the peer reads, until its link is over.
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

// serveRead writes the bytes of a segment to where their reader wants them. It reports false where the link is over.
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

// copyOut writes n bytes at an offset of what is read, out of a buffer. A window is pinned while its bytes are copied,
// and not while they travel. The error is that of the write.
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
