package memory

// Writes over a network: bytes are copied into staging buffers and leave from there. Each buffer is one link write: the
// bytes of one piece, or many small pieces.

import (
	"context"
	"errors"
	"time"

	"ringlet/transport"
	"ringlet/transport/link"
)

// smallPiece is the longest piece that leaves together with others, bytes. Longer ones fill datagrams by themselves.
const smallPiece = 4 << 10

// parcel is a staging buffer that is being filled.
type parcel struct {
	pool          *bufferPool
	bufferIndex   int
	fromLargePool bool
	unfilled      []byte       // the unused part of the buffer
	pieces        []link.Piece // in the buffer, if pieces leave together
}

// performWrite divides a write into link writes: at the rows of the table, and by the size of staging buffers.
func (im *imported) performWrite(ctx context.Context, c *call) {
	s := im.space
	why := causeNone
	var box parcel
	for i, p := range c.op.pieces {
		for off, data := p.Offset, p.Data; len(data) > 0 && why == causeNone; {
			r := im.rowAt(off)
			at, n := r.clip(off, min(len(data), largeSize))
			if len(c.op.pieces) > 1 && n <= smallPiece && r.attributes&Dmove == 0 {
				why = im.pack(ctx, c, &box, link.Piece{Ref: r.ref, Offset: at, Data: data[:n]}, len(c.op.pieces)-i)
			} else {
				why = im.stage(ctx, c, r, at, data[:n])
			}
			data, off = data[n:], off+int64(n)
		}
	}
	if why == causeNone {
		why = im.sendParcel(ctx, c, &box)
	} else if box.pool != nil {
		box.pool.release(box.bufferIndex)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isCurrent(c.slot, c.id) {
		return
	}
	f := &s.flights[c.slot]
	f.allQueued = true
	f.allOrNothing = f.queuedWrites == 1 && len(c.op.pieces) == 1 && c.op.length() <= maxAtomicWrite
	if f.cause == causeNone {
		f.cause = why
	}
	s.finishWrite(c.slot)
	s.runActions()
}

// pack copies a small piece into a buffer that leaves when it is full. remaining is the number of pieces still to come,
// this one included; it determines the size of a new buffer.
func (im *imported) pack(ctx context.Context, c *call, box *parcel, p link.Piece, remaining int) Cause {
	n := len(p.Data)
	if box.pool != nil && (n > len(box.unfilled) || len(box.pieces) == cap(box.pieces)) {
		if why := im.sendParcel(ctx, c, box); why != causeNone {
			return why
		}
	}
	if box.pool == nil {
		why := im.acquireBuffer(ctx, c, min(largeSize, remaining*max(n, bytesPerPiece)), box)
		if why != causeNone {
			return why
		}
		box.pieces = box.pool.pieces(box.bufferIndex)
	}
	copy(box.unfilled, p.Data)
	p.Data, box.unfilled = box.unfilled[:n:n], box.unfilled[n:]
	box.pieces = append(box.pieces, p)
	return causeNone
}

// sendParcel queues the pieces of a buffer, if there are any.
func (im *imported) sendParcel(ctx context.Context, c *call, box *parcel) Cause {
	if box.pool == nil {
		return causeNone
	}
	b := *box
	*box = parcel{}
	return im.queueParcel(ctx, c, &b, link.Write{})
}

// stage copies bytes into a staging buffer, and queues them at the link. It waits for a free buffer until the call's
// deadline. causeNone: they are queued, and data may change.
func (im *imported) stage(ctx context.Context, c *call, r *pageRun, at uint32, data []byte) Cause {
	var box parcel
	if why := im.acquireBuffer(ctx, c, len(data), &box); why != causeNone {
		return why
	}
	w := link.Write{
		Ref:    r.ref,
		Offset: at,
		Data:   box.unfilled[:copy(box.unfilled, data)],
		Dmove:  r.attributes&Dmove != 0,
	}
	if w.Dmove {
		w.Deadline = transport.Deadline(time.Duration(max(0, c.deadline-im.space.now())))
	}
	return im.queueParcel(ctx, c, &box, w)
}

// acquireBuffer takes a staging buffer of at least n bytes, and waits for one until the call's deadline.
func (im *imported) acquireBuffer(ctx context.Context, c *call, n int, box *parcel) Cause {
	pool, large := im.peer.writeStaging.poolFor(n)
	i, err := acquirePlace(ctx, im.space, pool.freeIndexes, im.peer.done, c.deadline)
	if err == nil {
		*box = parcel{pool: pool, bufferIndex: i, fromLargePool: large, unfilled: pool.bytes(i)}
	}
	return causeOfWait(err)
}

// causeOfWait returns why there was no buffer.
func causeOfWait(err error) Cause {
	switch {
	case err == nil:
		return causeNone
	case errors.Is(err, ErrLinkDown):
		return ErrLinkDown
	}
	return ErrTimeout
}

// queueParcel queues the contents of a staging buffer: its pieces, or a write. The buffer is free again after the
// outcome, or if nothing was queued.
func (im *imported) queueParcel(ctx context.Context, c *call, box *parcel, w link.Write) Cause {
	s := im.space
	s.mu.Lock()
	if t := &s.requester.transactions[c.slot]; t.id != c.id || t.state != txRunning ||
		s.flights[c.slot].cause != causeNone {
		s.mu.Unlock()
		box.pool.release(box.bufferIndex)
		return ErrTimeout // the flight may have another cause, which counts
	}
	s.flights[c.slot].pendingWrites++
	s.flights[c.slot].queuedWrites++
	s.mu.Unlock()
	w.Cookie = im.peer.cookie(c.slot, box.bufferIndex, box.fromLargePool)
	why := im.enqueue(ctx, c.deadline, w, box.pieces)
	if why != causeNone {
		s.mu.Lock()
		if s.isCurrent(c.slot, c.id) {
			s.flights[c.slot].pendingWrites--
			s.flights[c.slot].queuedWrites--
		}
		s.mu.Unlock()
		box.pool.release(box.bufferIndex)
	}
	return why
}

// enqueue queues a link write, or one of many pieces. A peer that withholds answers may keep the link's queue full for
// ever, so waiting for space ends at the call's deadline.
func (im *imported) enqueue(ctx context.Context, until int64, w link.Write, pieces []link.Piece) Cause {
	s, p := im.space, im.peer
	try := func() error {
		if pieces != nil {
			return s.ep.TryWriteMany(im.rank, pieces, w.Cookie)
		}
		return s.ep.TryWrite(im.rank, w)
	}
	err := try()
	if err == nil {
		return causeNone
	}
	bounded, cancel := s.withDeadline(ctx, until)
	defer cancel()
	for isQueueFull(err) {
		select {
		case <-p.queueSpace:
		case <-bounded.Done():
			return ErrTimeout
		case <-p.done:
			return ErrLinkDown
		}
		err = try()
	}
	select { // one outcome wakes one waiter, but may have made space for more
	case p.queueSpace <- struct{}{}:
	default:
	}
	if err != nil {
		return ErrLinkDown
	}
	return causeNone
}
