package memory

// Writes over a network: bytes are copied into staging buffers, and leave from there.

import (
	"context"
	"time"

	"ringlet/transport"
	"ringlet/transport/link"
)

// write cuts a write into link writes: at the rows of the table, and at the size of staging buffers.
func (im *imported) write(ctx context.Context, c *call) {
	s := im.space
	why := reasonNone
	for _, p := range c.op.pieces {
		for off, data := p.Offset, p.Data; len(data) > 0 && why == reasonNone; {
			r := im.find(off)
			at, n := r.part(off, min(len(data), largeSize))
			why = im.stage(ctx, c, r, at, data[:n])
			data, off = data[n:], off+int64(n)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mine(c.slot, c.id) {
		return
	}
	f := &s.flight[c.slot]
	f.sealed, f.short = true, f.sent == 1 && c.op.length() <= shortWrite
	if f.bad == reasonNone {
		f.bad = why
	}
	s.landed(c.slot)
	s.settle()
}

// stage copies bytes into a staging buffer, and queues them.
func (im *imported) stage(ctx context.Context, c *call, r *run, at uint32, data []byte) Cause {
	s := im.space
	from, large := im.peer.writes.of(len(data))
	var i int
	select {
	case i = <-from.free:
	default:
		bounded, cancel := s.bounded(ctx, c.until)
		defer cancel()
		select {
		case i = <-from.free:
		case <-bounded.Done():
			return ErrTimeout
		case <-im.peer.gone:
			return ErrLinkDown
		}
	}
	buf := from.at(i)[:len(data)]
	copy(buf, data)
	s.mu.Lock()
	if t := &s.user.tx[c.slot]; t.id != c.id || t.state != txRunning || s.flight[c.slot].bad != reasonNone {
		s.mu.Unlock()
		from.put(i)
		return ErrTimeout // or what the flight says
	}
	s.flight[c.slot].left++
	s.flight[c.slot].sent++
	s.mu.Unlock()
	w := link.Write{
		Ref:    r.ref,
		Offset: at,
		Data:   buf,
		Dmove:  r.attributes&Dmove != 0,
		Cookie: im.peer.cookie(c.slot, i, large),
	}
	if w.Dmove {
		w.Deadline = transport.Deadline(time.Duration(max(0, c.until-s.now())))
	}
	why := im.queue(ctx, c.until, w)
	if why != reasonNone {
		s.mu.Lock()
		if s.mine(c.slot, c.id) {
			s.flight[c.slot].left--
			s.flight[c.slot].sent--
		}
		s.mu.Unlock()
		from.put(i)
	}
	return why
}

// queue queues a link write. A peer that withholds an answer may keep the link's queue full for as long as it likes, so
// nobody waits for room longer than for anything else.
func (im *imported) queue(ctx context.Context, until int64, w link.Write) Cause {
	s, p := im.space, im.peer
	err := s.ep.TryWrite(im.rank, w)
	if err == nil {
		return reasonNone
	}
	bounded, cancel := s.bounded(ctx, until)
	defer cancel()
	for isFull(err) {
		select {
		case <-p.room:
		case <-bounded.Done():
			return ErrTimeout
		case <-p.gone:
			return ErrLinkDown
		}
		err = s.ep.TryWrite(im.rank, w)
	}
	select { // one outcome wakes one of those who wait, and may have made room for more
	case p.room <- struct{}{}:
	default:
	}
	if err != nil {
		return ErrLinkDown
	}
	return reasonNone
}
