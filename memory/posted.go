package memory

import (
	"context"

	"ringlet/transport"
	"ringlet/transport/link"
)

// postedWrite is the staging buffer of an open write buffer, and then of the transaction that it leaves in; or that of
// a write that was posted.
type postedWrite struct {
	im     *imported
	from   *buffers
	buffer int
	off    int64
	ref    link.Write
}

func (im *imported) newPostedWrite(from *buffers, buffer int, off int64, data []byte) postedWrite {
	r := im.rowAt(off)
	at, _ := r.clip(off, 1)
	copy(from.bytes(buffer), data)
	return postedWrite{
		im:     im,
		from:   from,
		buffer: buffer,
		off:    off,
		ref:    link.Write{Ref: r.ref, Offset: at, Dmove: r.attributes&Dmove != 0},
	}
}

// Post is Write without waiting. It copies data into a queue of the owner's own, and returns; what became of it is told
// by the next Fence of this ordering context. Where the queue is full it does nothing, and is refused with ErrFull; the
// Error names the owner. So who writes to several owners in turn, with an ordering context for each, goes past one that
// stands still. The queue of an owner, of all contexts, has room for 16 writes of more than 4 KiB, and for 64 shorter
// ones. Data are at most 64 KiB, and lie in pages of one kind; others are refused with ErrUnfit.
func (im *Import) Post(off int64, data []byte) error {
	s := im.space
	c := s.getCall()
	defer s.putCall(c)
	c.one[0] = Piece{off, data}
	c.op = op{name: "post", off: off, pieces: c.one[:]}
	fail := func(why Cause) error { return im.error(&c.op, Refused, why) }
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
		return fail(ErrUnfit)
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
	from, _ := im.peer.posts.poolFor(len(data))
	select {
	case s.tokens[im.rank] <- struct{}{}:
	default:
		return fail(ErrFull)
	}
	select {
	case buffer := <-from.free:
		k := im.newPostedWrite(from, buffer, off, data)
		k.ref.Data = from.bytes(buffer)[:len(data)]
		why = im.post(k)
	default:
		<-s.tokens[im.rank]
		why = ErrFull
	}
	if why != causeNone {
		return fail(why)
	}
	return nil
}

// post gives a write in its buffer, for which there is a token, to the requester, or both back.
func (im *Import) post(k postedWrite) Cause {
	s := im.space
	s.mu.Lock()
	if why := s.mayPost(im); why != causeNone {
		s.mu.Unlock()
		<-s.tokens[im.rank]
		k.from.release(k.buffer)
		return why
	}
	s.flush(im.context)
	s.beginPosted(k, im.context)
	s.mu.Unlock()
	s.sendPosted()
	return causeNone
}

// mayPost says what stands against a write whose outcome nobody waits for. mu is held.
func (s *Space) mayPost(im *Import) Cause {
	switch {
	case s.closed || s.peers[im.rank] != im.peer:
		return ErrLinkDown
	case im.endCause.Load() != 0:
		return Cause(im.endCause.Load())
	case s.user.contexts[im.context].failed.outcome != Done:
		return ErrEarlier
	}
	return causeNone
}

// combine puts a small write into a write buffer, and returns.
func (im *Import) combine(ctx context.Context, c *call) error {
	s, o := im.space, &c.op
	data := o.pieces[0].Data
	k := bufferKey{target: im.imported, context: im.context}
	s.mu.Lock()
	joined := s.joinBuffer(k, o.off, data)
	s.mu.Unlock()
	if joined {
		return nil
	}
	deadline := s.deadline(ctx)
	if why, err := s.acquireToken(ctx, im.rank, im.peer.done, deadline); err != nil || why != causeNone {
		if err == nil {
			err = why
		}
		return im.error(o, Refused, err)
	}
	from, buffer := im.peer.posts.small, none
	bounded, cancel := ctx, func() {}
	select {
	case buffer = <-from.free:
	default:
		bounded, cancel = s.withDeadline(ctx, deadline)
		select {
		case buffer = <-from.free:
		case <-im.peer.done:
		case <-bounded.Done():
		}
	}
	defer cancel()
	s.mu.Lock()
	defer s.sendPosted()
	defer s.mu.Unlock()
	var why Cause
	switch {
	case buffer == none && bounded.Err() != nil:
		why = ErrTimeout
	case buffer == none:
		why = ErrLinkDown
	default:
		why = s.mayPost(im)
	}
	if why != causeNone {
		<-s.tokens[im.rank]
		if buffer != none {
			from.release(buffer)
		}
		return im.error(o, Refused, why)
	}
	s.openBuffer(k, o.off, data, buffer)
	return nil
}

// joinBuffer appends a write to an open write buffer. mu is held.
func (s *Space) joinBuffer(k bufferKey, off int64, data []byte) bool {
	i, at, full, ok := s.gather.join(k, off, len(data))
	if !ok {
		return false
	}
	b := &s.openWrites[i]
	copy(b.from.bytes(b.buffer)[at:], data)
	s.stats.Combined++
	if full {
		s.sendBuffer(i)
	}
	return true
}

// openBuffer begins a write buffer with its first write. mu is held.
func (s *Space) openBuffer(k bufferKey, off int64, data []byte, buffer int) {
	im := k.target.(*imported)
	for b, ok := s.gather.victim(k); ok; b, ok = s.gather.victim(k) {
		s.sendBuffer(b)
	}
	i, full := s.gather.begin(k, off, len(data), s.now())
	s.openWrites[i] = im.newPostedWrite(im.peer.posts.small, buffer, off, data)
	if full {
		s.sendBuffer(i)
	}
	s.wakePump() // the pump sleeps until another time
}

// flush makes what write buffers of a context hold leave. mu is held.
func (s *Space) flush(ordering int) {
	for b, ok := s.gather.findOpen(ordering); ok; b, ok = s.gather.findOpen(ordering) {
		s.sendBuffer(b)
	}
}

// sendBuffer makes a transaction of a write buffer; nobody waits for it but a fence. mu is held.
func (s *Space) sendBuffer(i int) {
	b := s.gather.close(i)
	k := s.openWrites[i]
	s.openWrites[i] = postedWrite{}
	k.ref.Data = k.from.bytes(k.buffer)[:b.n]
	s.beginPosted(k, b.context)
}

// beginPosted makes a transaction of a buffer, whose outcome nobody waits for but a fence. mu is held.
func (s *Space) beginPosted(k postedWrite, ordering int) {
	deadline := s.now() + int64(s.cfg.Timeout)
	slot := s.user.begin(request{
		context:  ordering,
		peer:     k.im.rank,
		ordered:  k.im.rowAt(k.off).attributes&Ordered != 0,
		posted:   true,
		deadline: deadline,
	})
	s.posts[slot] = k
	s.flight[slot] = flight{peer: k.im.rank, posted: &s.posts[slot]}
	s.runActions()
	if deadline == s.user.deadline {
		s.wakePump() // the pump sleeps until a later one
	}
}

// sendPosted sends what was posted and may leave. What finds the queue of its link full leaves when there is room.
func (s *Space) sendPosted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.posted) > 0 {
		id := s.posted[0]
		s.posted = append(s.posted[:0], s.posted[1:]...)
		slot := int(id & 0xFFFF)
		f := &s.flight[slot]
		if !s.isCurrent(slot, id) || f.posted == nil || f.sealed {
			continue
		}
		k := *f.posted
		if k.im.mapped != nil {
			s.storePosted(slot, id, &k)
			continue
		}
		s.writePosted(slot, id, &k)
	}
}

// writePosted queues a posted write. mu is held, but not while it does so: some carriers tell of the outcome at once.
func (s *Space) writePosted(slot int, id uint64, k *postedWrite) {
	w, p, f := k.ref, k.im.peer, &s.flight[slot]
	w.Cookie = p.cookie(slot, 0, false)
	f.pending, f.sent, f.sealed, f.short = 1, 1, true, len(w.Data) <= shortWrite
	s.user.tx[slot].sent = true
	for {
		outcomes := p.outcomes
		s.mu.Unlock()
		if w.Dmove {
			w.Deadline = transport.Deadline(s.cfg.Timeout)
		}
		err := s.ep.TryWrite(p.rank, w)
		s.mu.Lock()
		switch {
		case err == nil || !s.isCurrent(slot, id):
		case !isQueueFull(err):
			f.pending, f.sent, f.cause = 0, 0, ErrLinkDown
			s.finishWrite(slot)
			s.runActions()
		case s.user.tx[slot].state == txLost: // its time is over, and it has not left
			s.user.finish(slot, Refused, ErrTimeout)
			s.runActions()
		case p.outcomes != outcomes: // meanwhile there may be room
			continue
		default:
			f.pending, f.sent, f.sealed, f.short = 0, 0, false, false
			s.user.tx[slot].sent = false
			p.queueFull = append(p.queueFull, id)
		}
		return
	}
}

// storePosted carries a posted write out by stores. mu is held, but not while it does so.
func (s *Space) storePosted(slot int, id uint64, k *postedWrite) {
	c := s.getCall()
	defer s.putCall(c)
	c.one[0] = Piece{k.off, k.ref.Data}
	c.op = op{off: k.off, pieces: c.one[:]}
	s.user.tx[slot].sent = true
	s.mu.Unlock()
	out, why, _ := k.im.performDirect(&c.op)
	s.mu.Lock()
	if s.isCurrent(slot, id) {
		s.user.finish(slot, out, why)
		s.runActions()
	}
}
