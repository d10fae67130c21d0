package memory

import (
	"context"

	"ringlet/shmem"
)

// A long read over a network: the owner writes into the reader's memory, which it is lent for this one read. Before the
// reader looks, the loan is revoked: from then on nobody writes there.

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
	var under []*call // pieces, in order
	for len(dst) > 0 && err == nil {
		select {
		case im.peer.long <- struct{}{}:
		default:
			if len(under) > 0 { // who has one waits for no other: several that each have some would wait for ever
				err = im.collect(ctx, under[0])
				under = under[1:]
				continue
			}
			if err = im.longTurn(ctx, off, dst); err != nil {
				return err
			}
		}
		r := im.find(off)
		_, n := r.part(off, min(len(dst), longRead))
		var c *call
		if c, err = im.issue(ctx, off, dst[:n], at&Ordered != 0); err == nil {
			under = append(under, c)
		}
		dst, off = dst[n:], off+int64(n)
	}
	for _, c := range under {
		if e := im.collect(ctx, c); err == nil {
			err = e
		}
	}
	return err
}

// longTurn waits for another read's piece to end.
func (im *Import) longTurn(ctx context.Context, off int64, dst []byte) error {
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
	case im.peer.long <- struct{}{}:
		return nil
	case <-bounded.Done():
		return im.error(&o, Refused, context.Cause(bounded))
	case <-im.peer.gone:
		return im.error(&o, Refused, ErrLinkDown)
	}
}

// issue asks for the bytes of one piece, and collect ends it. In between dst is the owner's to write.
func (im *Import) issue(ctx context.Context, off int64, dst []byte, ordered bool) (c *call, err error) {
	s := im.space
	c = s.getCall()
	c.op = op{
		name:    "read",
		kind:    kindRead,
		off:     off,
		dst:     dst,
		ordered: ordered,
	}
	if c.landing, err = s.table.Lend(shmem.Peer(im.rank), dst, shmem.AccessNwrite); err != nil {
		err = im.error(&c.op, Refused, err)
	} else if err = im.begin(ctx, c, im.context); err != nil {
		_ = s.table.Revoke(c.landing)
	}
	if err != nil {
		im.pieceOver(c)
		return nil, err
	}
	if s.await(ctx, c, false) {
		s.unsent(c)
	} else {
		im.carry(ctx, c)
	}
	return c, nil
}

func (im *Import) collect(ctx context.Context, c *call) error {
	im.space.await(ctx, c, true)
	_ = im.space.table.Revoke(c.landing) // nobody of this host is lent memory, so nobody is waited for
	err := im.outcome(ctx, c)
	im.pieceOver(c)
	return err
}

func (im *Import) pieceOver(c *call) {
	im.space.putCall(c)
	<-im.peer.long
}
