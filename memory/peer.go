package memory

import (
	"sync"

	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/link"
)

// Sizes of what this node keeps for each peer. Each peer has its own, so that a peer that does not answer takes nothing
// from others.
const (
	smallBuffers  = 64 // of bufferSize, for writes; and as many for posts and write buffers
	largeBuffers  = 16 // of largeSize, for the same
	largeSize     = 64 << 10
	maxReadPiece  = 256 << 10 // bytes of the longest read in one piece
	maxLongReads  = 4         // pieces of long reads under way at once
	readerBuffers = 4
)

// bufferPool is a pool of staging buffers, made at first use.
type bufferPool struct {
	size        int
	freeIndexes chan int

	mu    sync.Mutex
	mem   [][]byte       // guarded by mu
	lists [][]link.Piece // guarded by mu; for the pieces in each buffer
}

// bytesPerPiece is the least number of a buffer's bytes for each piece in it.
const bytesPerPiece = 64

func newBuffers(n, size int) *bufferPool {
	b := &bufferPool{
		size:        size,
		freeIndexes: make(chan int, n),
		mem:         make([][]byte, n),
		lists:       make([][]link.Piece, n),
	}
	for i := range n {
		b.freeIndexes <- i
	}
	return b
}

func (b *bufferPool) release(i int) { b.freeIndexes <- i }

func (b *bufferPool) bytes(i int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mem[i] == nil {
		b.mem[i] = make([]byte, b.size)
	}
	return b.mem[i]
}

// pieces returns an empty list for the pieces that leave from a buffer together.
func (b *bufferPool) pieces(i int) []link.Piece {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists[i] == nil {
		b.lists[i] = make([]link.Piece, 0, b.size/bytesPerPiece)
	}
	return b.lists[i]
}

// staging holds the buffers from which bytes leave, by size.
type staging struct{ small, large *bufferPool }

func newStaging() staging {
	return staging{newBuffers(smallBuffers, bufferSize), newBuffers(largeBuffers, largeSize)}
}

func (s *staging) poolFor(n int) (from *bufferPool, large bool) {
	if n > bufferSize {
		return s.large, true
	}
	return s.small, false
}

// peer is what this node keeps for another member of the view, for the life of one link.
type peer struct {
	space        *Space
	rank         int
	linkNumber   uint64        // number of the link; its successor has the next
	done         chan struct{} // closed when the link is over
	writeStaging staging       // of writes that have started: the end of their link ends them
	postStaging  staging       // for posts, which may wait for a write, and so may not use its buffers
	readBuffers  *bufferPool
	readJobs     chan readJob // nil before the first long read
	imports      []*imported

	queueSpace     chan struct{} // signalled when a link write has its outcome, so the link's queue may have space
	writeOutcomes  uint64        // number of outcomes of link writes
	postsQueueFull []uint64      // posts that found the link's queue full

	longReadTokens chan struct{} // bounds the pieces of long reads under way; of the rank, not of the link
}

func newPeer(s *Space, rank int, link uint64) *peer {
	return &peer{
		space:          s,
		rank:           rank,
		linkNumber:     link & cookieLinks,
		done:           make(chan struct{}),
		writeStaging:   newStaging(),
		postStaging:    newStaging(),
		queueSpace:     make(chan struct{}, 1),
		readBuffers:    newBuffers(readerBuffers, largeSize),
		longReadTokens: newTokens(maxLongReads),
	}
}

// handler is a Space as the Handler of its links.
type handler Space

// A cookie contains the slot of a transaction and the buffer of a link write, or a reader's buffer, and the number of
// the link: a write queued as a link ended may travel over the next link, where its outcome is ignored.
const (
	cookieReader = uint64(1) << 63
	cookieLarge  = uint64(1) << 62
	cookieLinks  = uint64(1)<<30 - 1
)

func (p *peer) cookie(slot, buffer int, large bool) uint64 {
	c := uint64(slot) | uint64(buffer)<<16 | p.linkNumber<<32
	if large {
		c |= cookieLarge
	}
	return c
}

// Placed takes the bytes of long reads. It ignores writes of peers: a process that wants to know of them uses Wait.
func (h *handler) Placed(rank int, p transport.Placement) {
	if p.Imm == 0 {
		return
	}
	s := (*Space)(h)
	s.mu.Lock()
	s.onReadBytes(rank, &p, causeNone)
	s.runActions()
	s.mu.Unlock()
}

// PlacedMany ignores writes of peers.
func (h *handler) PlacedMany(int, []transport.Placement) {}

// Refused counts writes that the table has refused, also those of reads that were given up.
func (h *handler) Refused(rank int, p transport.Placement, _ error) {
	s := (*Space)(h)
	s.mu.Lock()
	s.stats.WritesRefused++
	s.onReadBytes(rank, &p, ErrProtocol)
	s.runActions()
	s.mu.Unlock()
}

// onReadBytes notes that bytes of a long read are in place, or were refused; it is called once for each byte. The
// caller holds mu.
func (s *Space) onReadBytes(rank int, p *transport.Placement, why Cause) {
	slot, ok := s.requester.slotOf(rank, p.Imm)
	if !ok || s.flights[slot].bytesMissing == 0 || s.flights[slot].readWindow != p.Ref {
		return
	}
	f := &s.flights[slot]
	if f.cause == causeNone {
		f.cause = why
	}
	if f.bytesMissing = max(0, f.bytesMissing-int(p.Length)); f.bytesMissing > 0 {
		return
	}
	if f.cause == causeNone {
		s.requester.finish(slot, Done, causeNone)
	} else {
		s.requester.finish(slot, Unknown, f.cause)
	}
}

// Malformed: the link counts malformed datagrams.
func (h *handler) Malformed(int, error) {}

// Completed ends a link write.
func (h *handler) Completed(rank int, cookie uint64, err error) {
	s := (*Space)(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[rank]
	p.onQueueSpace()
	if cookie>>32&cookieLinks != p.linkNumber {
		return // its transaction and buffer ended with the link
	}
	buffer := int(cookie >> 16 & 0xFFFF)
	if cookie&cookieReader != 0 {
		p.readBuffers.release(buffer)
		return
	}
	slot := int(cookie & 0xFFFF)
	f := &s.flights[slot]
	switch {
	case f.posted != nil: // runActions releases its buffer with the slot
	case cookie&cookieLarge != 0:
		p.writeStaging.large.release(buffer)
	default:
		p.writeStaging.small.release(buffer)
	}
	f.pendingWrites--
	if err != nil && f.cause == causeNone {
		f.cause = causeOfWrite(err)
	}
	s.finishWrite(slot)
	s.runActions()
}

// onQueueSpace lets writes and posts that found the link's queue full try again. The caller holds mu.
func (p *peer) onQueueSpace() {
	s := p.space
	p.writeOutcomes++
	select {
	case p.queueSpace <- struct{}{}:
	default:
	}
	if len(p.postsQueueFull) > 0 {
		s.postsReady = append(s.postsReady, p.postsQueueFull...)
		p.postsQueueFull = p.postsQueueFull[:0]
		s.wakePump()
	}
}

// causeOfWrite returns why a link write was refused.
func causeOfWrite(err error) Cause {
	r, ok := err.(*link.RefusedError) //nolint:errorlint // the link's own, not wrapped
	switch {
	case !ok:
		return ErrLinkDown
	case r.Reason == link.ReasonExpired:
		return ErrTimeout
	}
	return causeOf(shmem.Violation(r.Reason))
}

// finishWrite ends a write when all its link writes have ended. The caller holds mu.
func (s *Space) finishWrite(slot int) {
	f := &s.flights[slot]
	if !f.allQueued || f.pendingWrites > 0 {
		return
	}
	if f.cause == causeNone {
		s.requester.finish(slot, Done, causeNone)
		return
	}
	f.somePlaced = f.queuedWrites > 0 && !f.allOrNothing
	s.requester.finish(slot, Refused, f.cause)
}

// Signal handles a peer's message: answers and requests at once, except requests that would wait.
func (h *handler) Signal(rank int, payload []byte) {
	s := (*Space)(h)
	m, err := parse(payload)
	s.mu.Lock()
	var (
		released []shmem.Ref
		r        readJob
		buffer   int
		here     bool // this goroutine carries out the read
	)
	p := s.peers[rank]
	switch {
	case err != nil:
		s.stats.MalformedMessages++
	case m.kind == kindAnswer:
		s.onAnswer(rank, &m)
	case m.kind == kindRevoked:
		s.stats.EndMessages++
		for _, im := range s.peers[rank].imports {
			if im.epoch == m.b {
				im.invalidate(ErrRevoked)
			}
		}
	case !s.closed:
		released = s.responder.request(rank, &m)
		if r, buffer, here = p.takeShortRead(s.responder.outgoingReads); here {
			s.responder.outgoingReads = s.responder.outgoingReads[:0]
		}
	}
	s.runActions()
	s.revokeLater(released)
	s.mu.Unlock()
	if !here {
		return
	}
	why, err := p.copyOut(&r, 0, r.n, buffer, s.ep.TryWrite)
	if !isQueueFull(err) {
		p.finishRead(r.id, why)
		return
	}
	p.readBuffers.release(buffer)
	s.mu.Lock()
	if s.peers[rank] == p && !s.closed {
		p.queueRead(r)
	}
	s.mu.Unlock()
}

// revokeLater revokes windows in a goroutine of its own. The caller holds mu.
func (s *Space) revokeLater(refs []shmem.Ref) {
	if len(refs) == 0 {
		return
	}
	done := make(chan struct{})
	s.activeRevokes[done] = true
	s.wg.Go(func() {
		defer close(done)
		for _, r := range refs {
			_ = s.table.Revoke(r) // a window that an evicted peer is inside of stays taken, and Withdraw reports that
		}
		s.mu.Lock()
		delete(s.activeRevokes, done)
		s.mu.Unlock()
	})
}

// onAnswer ends the transaction that a peer answers. The caller holds mu.
func (s *Space) onAnswer(rank int, m *message) {
	slot, ok := s.requester.slotOf(rank, m.id)
	if !ok {
		s.stats.UnexpectedAnswers++
		return
	}
	f := &s.flights[slot]
	outcome := Done
	if m.status != causeNone {
		outcome = Refused
	}
	if c := f.call; c != nil {
		c.a, c.b = m.a, m.b
		switch {
		case outcome != Done:
		case c.op.kind == kindLoad && len(m.body) != len(c.op.dst), c.op.kind != kindLoad && c.op.kind != kindFind &&
			len(m.body) > 0, c.op.kind == kindRead: // it ends when its bytes are in place
			outcome, m.status = Unknown, ErrProtocol
		case c.op.kind == kindLoad:
			copy(c.op.dst, m.body)
		case c.op.kind == kindFind:
			c.body = append([]byte(nil), m.body...)
		}
	} else if f.isFind && outcome == Done { // the caller has given up: tell the owner
		_ = s.send(rank, &message{kind: kindLeave, a: m.b})
	}
	s.requester.finish(slot, outcome, m.status)
}

// LinkDown ends everything under way with a peer, in both directions.
func (h *handler) LinkDown(rank int, _ error) {
	s := (*Space)(h)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	old := s.peers[rank]
	close(old.done)
	for _, im := range old.imports {
		im.invalidate(ErrLinkDown)
	}
	for i := range s.openWrites {
		if s.combiner.buffers[i].inUse && s.openWrites[i].imported.peer == old {
			s.sendBuffer(i) // the requester refuses it
		}
	}
	s.requester.peerDown(rank, ErrLinkDown)
	refs := s.responder.peerGone(rank)
	s.runActions()
	p := newPeer(s, rank, old.linkNumber+1)
	p.longReadTokens = old.longReadTokens
	s.peers[rank] = p
	s.revokeLater(refs)
	s.mu.Unlock()
}

// isQueueFull reports whether a link's queue was full.
func isQueueFull(err error) bool {
	_, full := err.(*transport.FullError) //nolint:errorlint // the link's own, not wrapped
	return full
}
