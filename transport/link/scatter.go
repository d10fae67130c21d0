package link

import (
	"encoding/binary"

	"ringlet/shmem"
)

// placeScatter places the pieces of a frame, each in its own window. A piece that the export table does not allow makes
// the whole transaction refused, but keeps no other piece from its place.
func (c *Core) placeScatter(b []byte) (int, string) {
	size := scatterSize(b)
	if size == 0 {
		return 0, "a list of pieces is cut off, empty, or has one that is too long"
	}
	id := binary.LittleEndian.Uint32(b[4:])
	t := &c.inTransactions[id%maxTransactions]
	if t.inUse && int32(id-t.id) <= 0 {
		c.stats.ChunksLate++
		return size, ""
	}
	if c.responsesWaiting() >= maxTransactions {
		return 0, "a write while every transaction id waits for an answer"
	}
	*t = inTransaction{id: id, inUse: true, state: txPlaced}
	first := len(c.placements)
	why := c.placePieces(b[scatterHeader:size])
	c.reportPlacements(first)
	if why != 0 {
		t.state = txRefused
		c.stats.ChunksRefused++
		c.queueResponse(response{kind: frameRefused, reason: why, tx: id})
		return size, ""
	}
	c.stats.ChunksPlaced++
	c.queueResponse(response{kind: frameDone, tx: id})
	return size, ""
}

// placePieces copies pieces that are known to parse into their windows, and returns why the first that is not allowed
// is not.
func (c *Core) placePieces(b []byte) (why Reason) {
	var p Piece
	for len(b) > 0 {
		b = b[parsePiece(b, &p):]
		n := uint32(len(p.Data))
		dst, v := c.cfg.Table.Acquire(c.cfg.Peer, p.Ref, p.Offset, n, shmem.AccessNwrite)
		if v != 0 {
			c.emit(Event{
				Kind:   EventRefused,
				Reason: Reason(v),
				Ref:    p.Ref,
				Offset: p.Offset,
				Length: n,
				Imm:    p.Imm,
			})
			if why == 0 {
				why = Reason(v)
			}
			continue
		}
		copy(dst, p.Data)
		c.cfg.Table.AddWritten(p.Ref, n)
		c.cfg.Table.Release(p.Ref)
		c.stats.BytesPlaced += uint64(n)
		c.placements = append(c.placements, Placement{
			Ref:    p.Ref,
			Offset: p.Offset,
			Length: n,
			Imm:    p.Imm,
		})
	}
	return why
}

// reportPlacements tells of the pieces placed from index first on, in the same event as those just before where it can.
func (c *Core) reportPlacements(first int) {
	if first == len(c.placements) {
		return
	}
	if n := len(c.events); n > 0 && c.events[n-1].Kind == EventPlacedMany {
		e := &c.events[n-1]
		e.Placements = c.placements[first-len(e.Placements):]
		return
	}
	c.emit(Event{Kind: EventPlacedMany, Placements: c.placements[first:]})
}
