package memory

import (
	"context"

	"ringlet/transport"
	"ringlet/transport/link"
)

// kept is the staging buffer of an open write buffer, and then of the transaction that it leaves in.
type kept struct {
	im     *imported
	buffer int // of the peer's small ones
	ref    link.Write
}

// combine puts a small write into a write buffer, and returns.
func (im *Import) combine(ctx context.Context, c *call) error {
	s, o := im.space, &c.op
	data := o.pieces[0].Data
	k := combining{target: im.imported, context: im.context}
	s.mu.Lock()
	joined := s.join(k, o.off, data)
	s.mu.Unlock()
	if joined {
		return nil
	}
	deadline := s.deadline(ctx)
	if why, err := s.token(ctx, im.rank, im.peer.gone, deadline); err != nil || why != reasonNone {
		if err == nil {
			err = why
		}
		return im.error(o, Refused, err)
	}
	var buffer int
	bounded, cancel := ctx, func() {}
	select {
	case buffer = <-im.peer.small.free:
	default:
		bounded, cancel = s.bounded(ctx, deadline)
		select {
		case buffer = <-im.peer.small.free:
		case <-im.peer.gone:
			buffer = none
		case <-bounded.Done():
			buffer = none
		}
	}
	defer cancel()
	s.mu.Lock()
	defer s.sendPosted()
	defer s.mu.Unlock()
	why := reasonNone
	switch {
	case buffer == none && bounded.Err() != nil:
		why = ErrTimeout
	case buffer == none || s.closed || s.peers[im.rank] != im.peer:
		why = ErrLinkDown
	case im.over.Load() != 0:
		why = Cause(im.over.Load())
	case s.user.contexts[im.context].failed.outcome != Done:
		why = ErrEarlier
	}
	if why != reasonNone {
		<-s.tokens[im.rank]
		if buffer != none {
			im.peer.small.put(buffer)
		}
		return im.error(o, Refused, why)
	}
	s.open(k, o.off, data, buffer)
	return nil
}

// join appends a write to an open write buffer. mu is held.
func (s *Space) join(k combining, off int64, data []byte) bool {
	i, at, full, ok := s.gather.join(k, off, len(data))
	if !ok {
		return false
	}
	b := &s.kept[i]
	copy(b.im.peer.small.at(b.buffer)[at:], data)
	s.stats.Combined++
	if full {
		s.leave(i)
	}
	return true
}

// open begins a write buffer with its first write. mu is held.
func (s *Space) open(k combining, off int64, data []byte, buffer int) {
	im := k.target.(*imported)
	for b, ok := s.gather.must(k); ok; b, ok = s.gather.must(k) {
		s.leave(b)
	}
	i, full := s.gather.begin(k, off, len(data), s.now())
	r := im.find(off)
	at, _ := r.part(off, 1)
	s.kept[i] = kept{im: im, buffer: buffer, ref: link.Write{Ref: r.ref, Offset: at, Dmove: r.attributes&Dmove != 0}}
	copy(im.peer.small.at(buffer), data)
	if full {
		s.leave(i)
	}
	s.stir() // the pump sleeps until another time
}

// flush makes what write buffers of a context hold leave. mu is held.
func (s *Space) flush(ordering int) {
	for b, ok := s.gather.of(ordering); ok; b, ok = s.gather.of(ordering) {
		s.leave(b)
	}
}

// leave makes a transaction of a write buffer; nobody waits for it but a fence. mu is held.
func (s *Space) leave(i int) {
	b := s.gather.close(i)
	k := s.kept[i]
	s.kept[i] = kept{}
	k.ref.Data = k.im.peer.small.at(k.buffer)[:b.n]
	slot := s.user.begin(request{
		context:  b.context,
		peer:     k.im.rank,
		ordered:  k.im.find(b.off).attributes&Ordered != 0,
		posted:   true,
		deadline: s.now() + int64(s.cfg.Timeout),
	})
	s.posts[slot] = k
	s.flight[slot] = flight{peer: k.im.rank, posted: &s.posts[slot]}
	s.settle()
}

// sendPosted sends the write buffers that may leave. It waits only for room in a link's queue of requests, which the
// tokens of a peer leave.
func (s *Space) sendPosted() {
	for {
		s.mu.Lock()
		if len(s.posted) == 0 {
			s.mu.Unlock()
			return
		}
		id := s.posted[0]
		s.posted = append(s.posted[:0], s.posted[1:]...)
		slot := int(id & 0xFFFF)
		f := &s.flight[slot]
		if !s.mine(slot, id) || f.posted == nil || f.sealed {
			s.mu.Unlock()
			continue
		}
		w, rank := f.posted.ref, f.posted.im.rank
		w.Cookie = f.posted.im.peer.cookie(slot, 0, false)
		f.left, f.sent, f.sealed, f.short = 1, 1, true, len(w.Data) <= shortWrite
		s.mu.Unlock()
		if w.Dmove {
			w.Deadline = transport.Deadline(s.cfg.Timeout)
		}
		if err := s.ep.Write(rank, w); err != nil {
			s.mu.Lock()
			if s.mine(slot, id) {
				f.left, f.sent, f.bad = 0, 0, ErrLinkDown
				s.landed(slot)
				s.settle()
			}
			s.mu.Unlock()
		}
	}
}
