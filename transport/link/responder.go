package link

import (
	"encoding/binary"

	"ringlet/shmem"
)

// placer is the export table, which decides whether and where a peer's bytes are written. shmem.Table is one.
type placer interface {
	Acquire(peer shmem.Peer, r shmem.Ref, off, n uint32, a shmem.Access) ([]byte, shmem.Violation)
	Release(r shmem.Ref)
	AddWritten(r shmem.Ref, n uint32)
}

type inTransaction struct {
	id           uint32
	inUse        bool
	state        inTransactionState
	dmove        bool
	placedCount  uint16
	totalBytes   uint32
	windowOffset uint32
	ref          shmem.Ref
	placed       [maxChunks / 64]uint64 // chunks in place; bytes that were placed are never overwritten by a repetition
}

func (t *inTransaction) isPlaced(chunk uint16) bool { return t.placed[chunk>>6]&(1<<(chunk&63)) != 0 }
func (t *inTransaction) markPlaced(chunk uint16)    { t.placed[chunk>>6] |= 1 << (chunk & 63) }

type inTransactionState uint8

const (
	txFilling inTransactionState = iota
	txPlaced
	txRefused
)

// responder receives remote writes: it places chunks where the export table allows it, and holds the responses to be
// sent.
type responder struct {
	// immutable after newResponder
	cfg       *Config
	chunkSize int // bytes of a full chunk
	*notices

	inTransactions []inTransaction
	responses      fifo[sentFrame] // completions and refusals to be sent
	reserved       *inTransaction  // of the full chunk between reserve and commit
	reservedFrame  writeFrame
}

func newResponder(cfg *Config, n *notices) responder {
	return responder{
		cfg:            cfg,
		chunkSize:      fullChunk(cfg.MaxDatagram),
		notices:        n,
		inTransactions: make([]inTransaction, maxTransactions),
	}
}

// place copies bytes to their destination, or returns why the export table refuses them.
func (p *responder) place(ref shmem.Ref, offset uint32, data []byte, access shmem.Access) Reason {
	dst, v := p.cfg.Table.Acquire(p.cfg.Peer, ref, offset, uint32(len(data)), access)
	if v != 0 {
		return Reason(v)
	}
	copy(dst, data)
	p.release(ref, uint32(len(data)))
	return 0
}

// release unpins a window into which n bytes were written.
func (p *responder) release(ref shmem.Ref, n uint32) {
	p.cfg.Table.AddWritten(ref, n)
	p.cfg.Table.Release(ref)
	p.stats.BytesPlaced += uint64(n)
}

// offset is a chunk's offset in its window.
func (p *responder) offset(f *writeFrame) uint32 {
	return f.transactionOffset + uint32(f.chunk)*uint32(p.chunkSize)
}

// receiveWrite handles the write or scatter frame at the beginning of b. It returns the frame's length, or why the peer
// breaks the protocol.
func (p *responder) receiveWrite(b []byte) (int, string) {
	if b[0] == frameScatter {
		return p.placeScatter(b)
	}
	var f writeFrame
	n, why := parseWrite(b, p.chunkSize, &f)
	if why == "" {
		why = p.placeChunk(&f)
	}
	return n, why
}

// placeChunk places one chunk if the export table allows it. It returns why the peer breaks the protocol, or "".
func (p *responder) placeChunk(f *writeFrame) string {
	t := &p.inTransactions[f.tx%maxTransactions]
	if !t.inUse || t.id != f.tx {
		if why, ok := p.mayBegin(t, f.tx); !ok {
			return why
		}
		*t = inTransaction{
			id:           f.tx,
			inUse:        true,
			totalBytes:   f.transactionSize,
			windowOffset: f.transactionOffset,
			ref:          f.ref,
			dmove:        f.isDmove(),
		}
	}
	switch {
	case t.state == txPlaced || t.totalBytes != f.transactionSize || t.isPlaced(f.chunk):
		p.stats.ChunksLate++
		return ""
	case t.state == txRefused:
		p.stats.ChunksRefused++
		return ""
	}
	access := shmem.AccessNwrite
	if f.isDmove() {
		access = shmem.AccessDmove
	}
	if why := p.place(f.ref, p.offset(f), f.data, access); why != 0 {
		p.refuse(t, f, why)
		return ""
	}
	p.onChunkPlaced(t, f)
	return ""
}

// mayBegin reports whether transaction id may replace t. It may not if it is over, or if it breaks the protocol, which
// why then explains.
func (p *responder) mayBegin(t *inTransaction, id uint32) (why string, ok bool) {
	if t.inUse && int32(id-t.id) <= 0 {
		p.stats.ChunksLate++
		return "", false
	}
	if p.responses.len() >= maxTransactions {
		// A peer reuses an id only after the answer has arrived, so one that keeps the protocol cannot get here.
		return "a write while every transaction id waits for an answer", false
	}
	return "", true
}

// onChunkPlaced notes that a chunk is in place.
func (p *responder) onChunkPlaced(t *inTransaction, f *writeFrame) {
	p.stats.ChunksPlaced++
	t.markPlaced(f.chunk)
	t.placedCount++
	if int(t.placedCount) < chunkCount(int(f.transactionSize), p.chunkSize) {
		return
	}
	t.state = txPlaced
	where := f.placement()
	where.Ref = t.ref
	p.emit(Event{Kind: EventPlaced, Placement: where})
	if !t.dmove {
		p.responses.push(sentFrame{kind: frameDone, id: f.tx})
	}
}

func (p *responder) refuse(t *inTransaction, f *writeFrame, why Reason) {
	t.state = txRefused
	p.stats.ChunksRefused++
	p.emit(Event{Kind: EventRefused, Reason: why, Placement: f.placement()})
	if !f.isDmove() {
		p.responses.push(sentFrame{kind: frameRefused, chunk: uint16(why), id: f.tx})
	}
}

// placeScatter places the pieces of a frame, each in its own window. If the export table refuses a piece, the whole
// transaction is refused, but its other pieces are placed.
func (p *responder) placeScatter(b []byte) (int, string) {
	size := scatterSize(b)
	if size == 0 {
		return 0, "a list of pieces is cut off, empty, or has one that is too long"
	}
	id := binary.LittleEndian.Uint32(b[4:])
	t := &p.inTransactions[id%maxTransactions]
	if why, ok := p.mayBegin(t, id); !ok {
		return size, why
	}
	*t = inTransaction{id: id, inUse: true, state: txPlaced}
	if why := p.placePieces(b[scatterHeader:size]); why != 0 {
		t.state = txRefused
		p.stats.ChunksRefused++
		p.responses.push(sentFrame{kind: frameRefused, chunk: uint16(why), id: id})
		return size, ""
	}
	p.stats.ChunksPlaced++
	p.responses.push(sentFrame{kind: frameDone, id: id})
	return size, ""
}

// placePieces copies pieces, which parse, into their windows. It returns the reason of the first refusal.
func (p *responder) placePieces(b []byte) (first Reason) {
	var piece Piece
	begin := len(p.placements)
	for len(b) > 0 {
		b = b[parsePiece(b, &piece):]
		where := Placement{piece.Ref, piece.Offset, uint32(len(piece.Data)), piece.Imm}
		why := p.place(piece.Ref, piece.Offset, piece.Data, shmem.AccessNwrite)
		if why == 0 {
			p.placements = append(p.placements, where)
			continue
		}
		if first == 0 {
			first = why
		}
		p.emit(Event{Kind: EventRefused, Reason: why, Placement: where})
	}
	p.reportPlacements(begin)
	return first
}

// reserve returns where the n bytes behind the head of a write belong, or nil if they are to be placed by receiveWrite.
func (p *responder) reserve(head []byte, n int) []byte {
	f := &p.reservedFrame
	if n != p.chunkSize || head[0] != frameWrite || parseWriteHead(head, p.chunkSize, n, f) != "" {
		return nil
	}
	t := &p.inTransactions[f.tx%maxTransactions]
	if !t.inUse || t.id != f.tx || t.state != txFilling || t.totalBytes != f.transactionSize ||
		t.windowOffset != f.transactionOffset || t.ref != f.ref || t.dmove || f.isDmove() || t.isPlaced(f.chunk) {
		return nil
	}
	dst, v := p.cfg.Table.Acquire(p.cfg.Peer, f.ref, p.offset(f), uint32(n), shmem.AccessNwrite)
	if v != 0 {
		return nil
	}
	p.reserved = t
	return dst
}

// abort unpins the reserved place.
func (p *responder) abort() { p.cfg.Table.Release(p.reserved.ref) }

// commit says that the reserved chunk is in place.
func (p *responder) commit() {
	p.release(p.reserved.ref, uint32(p.chunkSize))
	p.onChunkPlaced(p.reserved, &p.reservedFrame)
}

// putResponses writes as many responses as fit behind the first n bytes of a datagram, and returns its length.
func (p *responder) putResponses(buf []byte, n, pathSize int, r *sentDatagram) int {
	for p.responses.len() > 0 && n+refusedSize <= pathSize {
		it := p.responses.pop()
		r.frames = append(r.frames, it)
		n += putResponse(buf[n:], it)
	}
	return n
}

// countDuplicates counts the chunks of a datagram that has arrived again.
func (p *responder) countDuplicates(d []byte) {
	var f writeFrame
	for off := headerSize; off < len(d); {
		n, why := 0, ""
		switch d[off] {
		case frameAck:
			off += ackFrameSize
			continue
		case frameWrite:
			n, why = parseWrite(d[off:], p.chunkSize, &f)
		case frameScatter:
			n = scatterSize(d[off:])
		}
		if n == 0 || why != "" {
			return
		}
		p.stats.ChunksDuplicate++
		off += n
	}
}
