package memory

import (
	"context"

	"ringlet/shmem"
)

// A long read over a network: the owner writes into windows of this node's landing area, which it is granted for one
// read each. Before the bytes are looked at, the grant is revoked: from then on nobody writes there.

// arriving is a read that has begun.
type arriving struct {
	c    *call
	slot int // of the landing area
	err  error
}

func (im *Import) readLong(ctx context.Context, off int64, dst []byte) (err error) {
	whole := op{
		name: "read",
		kind: kindLoad,
		off:  off,
		dst:  dst,
	}
	at, why := im.check(off, len(dst), AllowRead)
	if over := Cause(im.over.Load()); over != reasonNone {
		why = over
	}
	if why != reasonNone {
		return im.error(&whole, Refused, why)
	}
	var under []arriving // in order
	for len(dst) > 0 && err == nil {
		var slot int
		select {
		case slot = <-im.peer.slots:
		default:
			if len(under) > 0 { // who has one waits for no other: several that each have some would wait for ever
				err = im.collect(ctx, under[0])
				under = under[1:]
				continue
			}
			if slot, err = im.landingSlot(ctx, off, dst); err != nil {
				return err
			}
		}
		r := im.find(off)
		_, n := r.part(off, min(len(dst), landingSlot))
		a := im.issue(ctx, slot, off, dst[:n], at&Ordered != 0)
		if err = a.err; err == nil {
			under = append(under, a)
		}
		dst, off = dst[n:], off+int64(n)
	}
	for _, a := range under {
		if e := im.collect(ctx, a); err == nil {
			err = e
		}
	}
	return err
}

// landingSlot waits for a slot that another read has.
func (im *Import) landingSlot(ctx context.Context, off int64, dst []byte) (int, error) {
	s := im.space
	bounded, cancel := s.bounded(ctx, s.deadline(ctx))
	defer cancel()
	o := op{
		name: "read",
		kind: kindRead,
		off:  off,
		dst:  dst,
	}
	select {
	case slot := <-im.peer.slots:
		return slot, nil
	case <-bounded.Done():
		return none, im.error(&o, Refused, context.Cause(bounded))
	case <-im.peer.gone:
		return none, im.error(&o, Refused, ErrLinkDown)
	}
}

// issue asks for bytes that fit a slot of the landing area.
func (im *Import) issue(ctx context.Context, slot int, off int64, dst []byte, ordered bool) arriving {
	s, p := im.space, im.peer
	o := op{
		name:    "read",
		kind:    kindRead,
		off:     off,
		dst:     dst,
		ordered: ordered,
	}
	a := arriving{slot: slot}
	a.c = s.getCall()
	a.c.op = o
	if a.c.landing, a.err = im.land(a.slot, len(dst)); a.err == nil {
		if a.err = im.begin(ctx, a.c, im.context); a.err == nil {
			if !s.await(ctx, a.c, false) {
				im.carry(ctx, a.c)
			} else {
				s.unsent(a.c)
			}
			return a
		}
		_ = s.table.Revoke(a.c.landing)
	} else {
		a.err = im.error(&o, Refused, a.err)
	}
	s.putCall(a.c)
	p.slots <- a.slot
	return a
}

// land grants a slot of the landing area to the owner.
func (im *imported) land(slot, n int) (shmem.Ref, error) {
	s, p := im.space, im.peer
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.peers[im.rank] != p {
		return shmem.Ref{}, ErrLinkDown
	}
	if p.landing == 0 {
		mem := make([]byte, landingSlots*landingSlot)
		id, err := s.table.Export(mem, shmem.PageRule{
			Pages:  pagesOf(len(mem)),
			Peer:   shmem.Peer(im.rank),
			Access: shmem.AccessNwrite,
		})
		if err != nil {
			return shmem.Ref{}, err
		}
		p.landing, p.memory = id, mem
	}
	return s.table.Grant(shmem.Peer(im.rank), p.landing, slot*landingSlot, n, shmem.AccessNwrite)
}

// collect ends a read that has begun.
func (im *Import) collect(ctx context.Context, a arriving) error {
	s, p := im.space, im.peer
	s.await(ctx, a.c, true)
	_ = s.table.Revoke(a.c.landing) // nobody of this host is granted landing areas, so nobody is waited for
	err := im.outcome(ctx, a.c)
	if err == nil {
		copy(a.c.op.dst, p.memory[a.slot*landingSlot:])
	}
	s.putCall(a.c)
	p.slots <- a.slot
	return err
}
