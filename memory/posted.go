package memory

import (
	"context"

	"ringlet/transport"
	"ringlet/transport/link"
)

// postedWrite is a write without a waiting caller: an open write buffer, later its transaction, or a Post.
type postedWrite struct {
	imported    *imported
	pool        *bufferPool
	bufferIndex int
	off         int64
	linkWrite   link.Write
}

func (im *imported) newPostedWrite(from *bufferPool, buffer int, off int64, data []byte) postedWrite {
	r := im.rowAt(off)
	at, _ := r.clip(off, 1)
	copy(from.bytes(buffer), data)
	return postedWrite{
		imported:    im,
		pool:        from,
		bufferIndex: buffer,
		off:         off,
		linkWrite:   link.Write{Ref: r.ref, Offset: at, Dmove: r.attributes&Dmove != 0},
	}
}

// Post is Write without waiting. It copies data into a queue of the owner and returns; the next Fence of this ordering
// context returns the outcome. If the queue is full, it does nothing and returns ErrFull; the Error names the owner. So
// a caller that writes to several owners in turn, with an ordering context for each, goes on past one that does not
// answer. An owner's queue, for all contexts, holds 16 writes of more than 4 KiB and 64 shorter ones. Data are at most
// 64 KiB, in pages of one kind; Post refuses others with ErrNotPostable.
func (im *Import) Post(off int64, data []byte) error {
	s := im.space
	c := s.getCall()
	defer s.putCall(c)
	c.singlePiece[0] = Piece{off, data}
	c.op = op{name: "post", off: off, pieces: c.singlePiece[:]}
	fail := func(why Cause) error { return im.newError(&c.op, Refused, why) }
	if len(data) == 0 {
		return nil
	}
	at, why := im.checkAccess(off, len(data), AllowWrite)
	if over := Cause(im.endCause.Load()); over != causeNone {
		why = over
	}
	if why != causeNone {
		return fail(why)
	}
	if _, n := im.rowAt(off).clip(off, len(data)); n < len(data) || n > largeSize {
		return fail(ErrNotPostable)
	}
	if im.mapped != nil {
		switch now, why := s.admitDirect(im.context, at&Ordered != 0, true); {
		case why != causeNone:
			return fail(why)
		case now:
			out, why, partial := im.performDirect(&c.op)
			return im.resultError(&c.op, out, why.asError(), partial)
		}
	}
	from, _ := im.peer.postStaging.poolFor(len(data))
	select {
	case <-s.tokens[im.rank]:
	default:
		return fail(ErrFull)
	}
	select {
	case buffer := <-from.freeIndexes:
		k := im.newPostedWrite(from, buffer, off, data)
		k.linkWrite.Data = from.bytes(buffer)[:len(data)]
		why = im.post(k)
	default:
		s.tokens[im.rank] <- struct{}{}
		why = ErrFull
	}
	if why != causeNone {
		return fail(why)
	}
	return nil
}

// post passes a write in its buffer, with its token, to the requester; if it may not be posted, it returns both.
func (im *Import) post(k postedWrite) Cause {
	s := im.space
	s.mu.Lock()
	if why := s.mayPost(im); why != causeNone {
		s.mu.Unlock()
		s.tokens[im.rank] <- struct{}{}
		k.pool.release(k.bufferIndex)
		return why
	}
	s.flush(im.context)
	s.beginPosted(k, im.context)
	s.mu.Unlock()
	s.sendPosted()
	return causeNone
}

// mayPost returns why a posted write must be refused. The caller holds mu.
func (s *Space) mayPost(im *Import) Cause {
	switch {
	case s.closed || s.peers[im.rank] != im.peer:
		return ErrLinkDown
	case im.endCause.Load() != 0:
		return Cause(im.endCause.Load())
	case s.requester.contexts[im.context].firstFailure.outcome != Done:
		return ErrEarlier
	}
	return causeNone
}

// combine puts a small write into a write buffer, and returns.
func (im *Import) combine(ctx context.Context, c *call) error {
	s, o := im.space, &c.op
	data := o.pieces[0].Data
	k := bufferKey{imported: im.imported, context: im.context}
	s.mu.Lock()
	joined := s.joinBuffer(k, o.off, data)
	s.mu.Unlock()
	if joined {
		return nil
	}
	deadline := s.deadline(ctx)
	if _, err := acquirePlace(ctx, s, s.tokens[im.rank], im.peer.done, deadline); err != nil {
		return im.newError(o, Refused, err)
	}
	from := im.peer.postStaging.small
	buffer, err := acquirePlace(ctx, s, from.freeIndexes, im.peer.done, deadline)
	s.mu.Lock()
	defer s.sendPosted()
	defer s.mu.Unlock()
	why := causeOfWait(err)
	if err == nil {
		if why = s.mayPost(im); why != causeNone {
			from.release(buffer)
		}
	}
	if why != causeNone {
		s.tokens[im.rank] <- struct{}{}
		return im.newError(o, Refused, why)
	}
	s.openBuffer(k, o.off, data, buffer)
	return nil
}

// joinBuffer appends a write to an open write buffer. The caller holds mu.
func (s *Space) joinBuffer(k bufferKey, off int64, data []byte) bool {
	i, at, full, ok := s.combiner.join(k, off, len(data))
	if !ok {
		return false
	}
	b := &s.openWrites[i]
	copy(b.pool.bytes(b.bufferIndex)[at:], data)
	s.stats.WritesCombined++
	if full {
		s.sendBuffer(i)
	}
	return true
}

// openBuffer opens a write buffer with its first write. The caller holds mu.
func (s *Space) openBuffer(k bufferKey, off int64, data []byte, buffer int) {
	im := k.imported.(*imported)
	for b, ok := s.combiner.victim(k); ok; b, ok = s.combiner.victim(k) {
		s.sendBuffer(b)
	}
	i, full := s.combiner.begin(k, off, len(data), s.now())
	s.openWrites[i] = im.newPostedWrite(im.peer.postStaging.small, buffer, off, data)
	if full {
		s.sendBuffer(i)
	}
	s.wakePump() // the pump may sleep past the buffer's time
}

// flush sends the write buffers of a context. The caller holds mu.
func (s *Space) flush(ordering int) {
	for b, ok := s.combiner.findOpen(ordering); ok; b, ok = s.combiner.findOpen(ordering) {
		s.sendBuffer(b)
	}
}

// sendBuffer makes a transaction of a write buffer. The caller holds mu.
func (s *Space) sendBuffer(i int) {
	b := s.combiner.close(i)
	k := s.openWrites[i]
	s.openWrites[i] = postedWrite{}
	k.linkWrite.Data = k.pool.bytes(k.bufferIndex)[:b.n]
	s.beginPosted(k, b.context)
}

// beginPosted begins a transaction that sends the posted write k in the context ordering. Its writer does not wait for
// the outcome; only a fence does. The caller holds mu.
func (s *Space) beginPosted(k postedWrite, ordering int) {
	deadline := s.now() + int64(s.cfg.Timeout)
	slot := s.requester.begin(request{
		context:  ordering,
		peer:     k.imported.rank,
		ordered:  k.imported.rowAt(k.off).attributes&Ordered != 0,
		posted:   true,
		deadline: deadline,
	})
	s.postedWrites[slot] = k
	s.flights[slot] = flight{peer: k.imported.rank, posted: &s.postedWrites[slot]}
	s.runActions()
	if deadline == s.requester.earliestDeadline {
		s.wakePump() // the pump sleeps until a later deadline
	}
}

// sendPosted sends posted writes that may start. A write that finds its link's queue full waits for space there.
func (s *Space) sendPosted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.postsReady) > 0 {
		id := s.postsReady[0]
		s.postsReady = append(s.postsReady[:0], s.postsReady[1:]...)
		slot := int(id & 0xFFFF)
		f := &s.flights[slot]
		if !s.isCurrent(slot, id) || f.posted == nil || f.allQueued {
			continue
		}
		k := *f.posted
		if k.imported.mapped != nil {
			s.storePosted(slot, id, &k)
			continue
		}
		s.writePosted(slot, id, &k)
	}
}

// writePosted queues a posted write at the link. The caller holds mu; writePosted unlocks it meanwhile, since some
// carriers report the outcome within the call.
func (s *Space) writePosted(slot int, id uint64, k *postedWrite) {
	w, p, f := k.linkWrite, k.imported.peer, &s.flights[slot]
	w.Cookie = p.cookie(slot, 0, false)
	f.pendingWrites, f.queuedWrites, f.allQueued, f.allOrNothing = 1, 1, true, len(w.Data) <= maxAtomicWrite
	s.requester.transactions[slot].maybeSent = true
	for {
		outcomes := p.writeOutcomes
		s.mu.Unlock()
		if w.Dmove {
			w.Deadline = transport.Deadline(s.cfg.Timeout)
		}
		err := s.ep.TryWrite(p.rank, w)
		s.mu.Lock()
		switch {
		case err == nil || !s.isCurrent(slot, id):
		case !isQueueFull(err):
			f.pendingWrites, f.queuedWrites, f.cause = 0, 0, ErrLinkDown
			s.finishWrite(slot)
			s.runActions()
		case s.requester.transactions[slot].state == txLost: // it has timed out and was not sent
			s.requester.finish(slot, Refused, ErrTimeout)
			s.runActions()
		case p.writeOutcomes != outcomes: // there may be space meanwhile
			continue
		default:
			f.pendingWrites, f.queuedWrites, f.allQueued, f.allOrNothing = 0, 0, false, false
			s.requester.transactions[slot].maybeSent = false
			p.postsQueueFull = append(p.postsQueueFull, id)
		}
		return
	}
}

// storePosted carries out a posted write by stores. The caller holds mu; storePosted unlocks it meanwhile.
func (s *Space) storePosted(slot int, id uint64, k *postedWrite) {
	c := s.getCall()
	defer s.putCall(c)
	c.singlePiece[0] = Piece{k.off, k.linkWrite.Data}
	c.op = op{off: k.off, pieces: c.singlePiece[:]}
	s.requester.transactions[slot].maybeSent = true
	s.mu.Unlock()
	out, why, _ := k.imported.performDirect(&c.op)
	s.mu.Lock()
	if s.isCurrent(slot, id) {
		s.requester.finish(slot, out, why)
		s.runActions()
	}
}
