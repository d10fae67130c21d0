package memory

import (
	"context"

	"ringlet/shmem"
)

// A long read over a network: the reader lends the owner its memory for this one read, and the owner writes there. The
// reader revokes the loan before it looks at the bytes, so that no peer writes there any longer.

func (im *Import) readLong(ctx context.Context, off int64, dst []byte) (err error) {
	full := op{
		name: "read",
		kind: kindLoad,
		off:  off,
		dst:  dst,
	}
	at, why := im.checkAccess(off, len(dst), AllowRead)
	if over := Cause(im.endCause.Load()); over != causeNone {
		why = over
	}
	if why != causeNone {
		return im.newError(&full, Refused, why)
	}
	var inFlight []*call // pieces in order
	for len(dst) > 0 && err == nil {
		select {
		case <-im.peer.longReadTokens:
		default:
			if len(inFlight) > 0 { // two reads that each held tokens and waited for more would wait for ever
				err = im.collectPiece(ctx, inFlight[0])
				inFlight = inFlight[1:]
				continue
			}
			s := im.space
			if _, err = acquirePlace(ctx, s, im.peer.longReadTokens, im.peer.done, s.deadline(ctx)); err != nil {
				return im.newError(&op{name: full.name, off: off, dst: dst}, Refused, err)
			}
		}
		r := im.rowAt(off)
		_, n := r.clip(off, min(len(dst), maxReadPiece))
		var c *call
		if c, err = im.issuePiece(ctx, off, dst[:n], at&Ordered != 0); err == nil {
			inFlight = append(inFlight, c)
		}
		dst, off = dst[n:], off+int64(n)
	}
	for _, c := range inFlight {
		if e := im.collectPiece(ctx, c); err == nil {
			err = e
		}
	}
	return err
}

// issuePiece requests the bytes of one piece, and collectPiece ends it. In between the owner may write to dst.
func (im *Import) issuePiece(ctx context.Context, off int64, dst []byte, ordered bool) (c *call, err error) {
	s := im.space
	c = s.getCall()
	c.op = op{
		name:    "read",
		kind:    kindRead,
		off:     off,
		dst:     dst,
		ordered: ordered,
	}
	if c.readWindow, err = s.table.Lend(shmem.Peer(im.rank), dst, shmem.AccessNwrite); err != nil {
		err = im.newError(&c.op, Refused, err)
	} else if err = im.beginCall(ctx, c, im.context); err != nil {
		_ = s.table.Revoke(c.readWindow)
	}
	if err != nil {
		im.releasePiece(c)
		return nil, err
	}
	if s.await(ctx, c, false) {
		s.endUnsent(c)
	} else {
		im.perform(ctx, c)
	}
	return c, nil
}

func (im *Import) collectPiece(ctx context.Context, c *call) error {
	im.space.await(ctx, c, true)
	_ = im.space.table.Revoke(c.readWindow) // waits for no process: peers on this host are lent no memory
	err := im.outcomeError(ctx, c)
	im.releasePiece(c)
	return err
}

func (im *Import) releasePiece(c *call) {
	im.space.putCall(c)
	im.peer.longReadTokens <- struct{}{}
}
