package memory

import (
	"sync"

	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/link"
)

// Sizes of what a peer has of this node. Each peer has its own, so that one that stands still takes nothing from
// others.
const (
	smallBuffers  = 64 // of bufferSize, for writes; and as many for posts and write buffers
	largeBuffers  = 16 // of largeSize, the same
	largeSize     = 64 << 10
	maxReadPiece  = 256 << 10 // the longest read in one piece
	maxLongReads  = 4         // under way at once
	readerBuffers = 4
)

// bufferPool are staging buffers, made when they are first wanted.
type bufferPool struct {
	size        int
	freeIndexes chan int

	mu    sync.Mutex
	mem   [][]byte       // guarded by mu
	lists [][]link.Piece // guarded by mu; of pieces in a buffer
}

// bytesPerPiece is how many bytes of a buffer there are for each piece in it, at least.
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

// pieces is an empty list for as many pieces as leave from a buffer together.
func (b *bufferPool) pieces(i int) []link.Piece {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists[i] == nil {
		b.lists[i] = make([]link.Piece, 0, b.size/bytesPerPiece)
	}
	return b.lists[i]
}

// staging are the buffers that bytes leave from, by their size.
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

// peer is what this node has for another member of the view, while one link to it lasts.
type peer struct {
	space        *Space
	rank         int
	linkNumber   uint64        // number of the link; whoever takes the place of another one has the next
	done         chan struct{} // closed when the link is over
	writeStaging staging       // of writes that have started: their link ends them
	postStaging  staging       // of what is posted, which may wait for a write: so it has none of a write's
	readBuffers  *bufferPool
	readJobs     chan readJob // nil before the first long read
	imports      []*imported

	queueSpace     chan struct{} // a link write has its outcome, so that the link's queue may have room
	writeOutcomes  uint64        // of link writes
	postsQueueFull []uint64      // what was posted, and found that queue full

	longReadTokens chan struct{} // pieces of long reads that are under way; of the rank, not of its link
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

// handler is a Space as the links tell it.
type handler Space

// A cookie names the slot of a transaction and the buffer that a link write leaves from, or the buffer of a reader. It
// names the link, too: what was queued just as a link ended may travel over the next one, and is nobody's there.
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

// Placed brings what a long read asked for. Other bytes are of no interest: who wants to know of them asks for a
// notice.
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

// PlacedMany is of none either.
func (h *handler) PlacedMany(int, []transport.Placement) {}

// Refused counts what the table has turned away. Bytes of a read that was given up are among it.
func (h *handler) Refused(rank int, p transport.Placement, _ error) {
	s := (*Space)(h)
	s.mu.Lock()
	s.stats.WritesRefused++
	s.onReadBytes(rank, &p, ErrProtocol)
	s.runActions()
	s.mu.Unlock()
}

// onReadBytes notes that bytes of a long read are in their place, or were turned away: each of them once. mu is held.
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

// Malformed is counted by the link.
func (h *handler) Malformed(int, error) {}

// Completed ends a link write.
func (h *handler) Completed(rank int, cookie uint64, err error) {
	s := (*Space)(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[rank]
	p.onQueueSpace()
	if cookie>>32&cookieLinks != p.linkNumber {
		return // its transaction and its buffer went with the link
	}
	buffer := int(cookie >> 16 & 0xFFFF)
	if cookie&cookieReader != 0 {
		p.readBuffers.release(buffer)
		return
	}
	slot := int(cookie & 0xFFFF)
	f := &s.flights[slot]
	switch {
	case f.posted != nil: // its buffer goes back with the slot
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

// onQueueSpace lets those try again that found the queue of a link full. mu is held.
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

// causeOfWrite is why a link write was refused.
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

// finishWrite ends a write whose link writes are all over. mu is held.
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

// Signal takes a message of a peer: an answer at once; a request at once too, but for what would wait.
func (h *handler) Signal(rank int, payload []byte) {
	s := (*Space)(h)
	m, err := parse(payload)
	s.mu.Lock()
	var (
		released []shmem.Ref
		r        readJob
		buffer   int
		here     bool // the read is carried out here
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

// revokeLater revokes without waiting for it. mu is held.
func (s *Space) revokeLater(refs []shmem.Ref) {
	if len(refs) == 0 {
		return
	}
	done := make(chan struct{})
	s.activeRevokes[done] = true
	s.wg.Go(func() {
		defer close(done)
		for _, r := range refs {
			_ = s.table.Revoke(r) // what an evicted peer is still inside of stays taken, and Withdraw says so
		}
		s.mu.Lock()
		delete(s.activeRevokes, done)
		s.mu.Unlock()
	})
}

// onAnswer ends the transaction that a peer answers. mu is held.
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
			len(m.body) > 0, c.op.kind == kindRead: // whose bytes tell that it is done
			outcome, m.status = Unknown, ErrProtocol
		case c.op.kind == kindLoad:
			copy(c.op.dst, m.body)
		case c.op.kind == kindFind:
			c.body = append([]byte(nil), m.body...)
		}
	} else if f.isFind && outcome == Done { // nobody wants it any more
		_ = s.send(rank, &message{kind: kindLeave, a: m.b})
	}
	s.requester.finish(slot, outcome, m.status)
}

// LinkDown ends what goes on with a peer, both ways.
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
			s.sendBuffer(i) // and it is refused
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

// isQueueFull says that a link's queue had no room.
func isQueueFull(err error) bool {
	_, full := err.(*transport.FullError) //nolint:errorlint // the link's own, not wrapped
	return full
}
