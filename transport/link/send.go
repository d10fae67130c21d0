package link

import (
	"math"

	"ringlet/internal/invariants"
)

// Next builds the next datagram to send into buf (at least MaxDatagram long) and returns its length, or 0 when there is
// nothing to send or no credit to send it.
func (c *Core) Next(now int64, buf []byte) int {
	if invariants.Enabled && c.Due() {
		return c.nextDue(now, buf)
	}
	return c.next(now, buf)
}

// nextDue is Next with the promise of Due looked after.
func (c *Core) nextDue(now int64, buf []byte) int {
	head := c.opHead
	n := c.next(now, buf)
	if n == 0 && c.opHead == head && c.Due() { // the arguments cost an allocation
		invariants.Check(false, "something is due, and nothing of it is sent: %+v", c.stats)
	}
	return n
}

func (c *Core) next(now int64, buf []byte) int {
	if c.fragmenter.pending() {
		return c.nextFragment(buf)
	}
	c.built = nil
	n := c.build(now, buf)
	if n == 0 {
		return c.buildTailCopy(now, buf)
	}
	if c.built == nil {
		return n // an ack
	}
	space := int(buf[1] &^ flagImmediateAck)
	if c.shouldFragment(&c.send[space], c.built, n+len(c.body), now) {
		return c.startFragments(buf, n)
	}
	c.scheduleTailCopy(space)
	return n
}

// build builds the next datagram whole.
func (c *Core) build(now int64, buf []byte) int {
	if c.ackDue && !(c.cfg.Piggyback && c.responsesPending() && c.send[spaceResponses].hasCredit()) {
		return c.buildAck(buf)
	}
	for l := numSpaces - 1; l >= 0; l-- {
		if !c.mayRepair(l) {
			continue
		}
		if r := c.send[l].popRepair(); r != nil {
			return c.rebuild(l, r, now, buf)
		}
	}
	if c.responsesPending() && c.send[spaceResponses].hasCredit() {
		return c.buildResponses(now, buf)
	}
	if c.mayRequest() && c.cutNext(now) {
		c.stall = nil
		return c.buildRequests(now, buf)
	}
	c.countStall()
	return 0
}

// countStall counts what requests wait for, if any do: once for each wait, and again where its cause changes.
func (c *Core) countStall() {
	var cause *uint64
	switch {
	case c.cutting < 0 && c.nextUncut() == nil:
	case !c.send[spaceRequests].hasCredit():
		cause = &c.stats.StallsCredit
	case !c.mayRequest():
		cause = &c.stats.StallsCongestion
	default:
		cause = &c.stats.StallsTx
	}
	if cause != nil && cause != c.stall {
		*cause++
	}
	c.stall = cause
}

// NextAck builds an ack into buf if one is due, and nothing else: for a receiver that sends it without waiting
// for the pump.
func (c *Core) NextAck(buf []byte) int {
	if c.ackDue {
		return c.buildAck(buf)
	}
	return 0
}

func (c *Core) buildAck(buf []byte) int {
	putHeader(buf, header{kind: kindAck, view: c.cfg.View, seq: uint32(c.stats.AcksSent)})
	n := headerSize
	for l := range c.recv {
		n += c.recv[l].putAck(buf[n:])
	}
	c.ackSent()
	c.stats.DatagramsSent++
	return n
}

func (c *Core) ackSent() {
	c.ackDue, c.sinceLastAck, c.ackDeadline = false, [numSpaces]int{}, 0
	for l := range c.recv {
		c.recv[l].unreportedGap = false
	}
	c.stats.AcksSent++
}

// addAck puts an ack in front of other frames, if one is owed, tells of no holes and leaves room for those of the
// given size.
func (c *Core) addAck(b []byte, next int) int {
	if !c.cfg.Piggyback || c.sinceLastAck == [numSpaces]int{} || headerSize+ackFrameSize+next > c.path.size {
		return 0
	}
	for l := range c.recv {
		if c.recv[l].next != c.recv[l].high {
			return 0
		}
	}
	b[0], b[1], b[2], b[3] = frameAck, 0, 0, 0
	n := ackFrameHeader
	for l := range c.recv {
		n += c.recv[l].putAck(b[n:])
	}
	c.ackSent()
	return n
}

// noteTransmission notes a transmission.
func (c *Core) noteTransmission(r *record, now int64) {
	if c.send[0].inFlight+c.send[1].inFlight == 1 && !r.repeated {
		c.silentSince = now // the silence starts with the first outstanding datagram
		if c.backoff == 0 {
			c.lastProgress = now
		}
	}
	c.transmissions++
	r.sends = uint8(min(int(r.sends)+1, math.MaxUint8))
	r.transmission, r.sentAt = c.transmissions, now
	c.built = r
	c.stats.DatagramsSent++
}

// cutNext makes sure that a transaction with unsent chunks stands ready, cutting the next request if need be. It
// reports false when there is none, or no free transaction.
func (c *Core) cutNext(now int64) bool {
	for c.cutting < 0 {
		o := c.requestToCut(now)
		if o == nil || len(c.freeTx) == 0 {
			return false
		}
		c.beginTx(o)
	}
	return true
}

// requestToCut returns the oldest request that still has bytes to send.
func (c *Core) requestToCut(now int64) *op {
	for {
		o := c.nextUncut()
		if o == nil || !o.Dmove || o.Deadline == 0 || now <= o.Deadline {
			return o
		}
		c.expire(o)
	}
}

// nextUncut is the oldest request that is not cut completely, nor a fence.
func (c *Core) nextUncut() *op {
	if int32(c.opCut-c.opHead) < 0 {
		c.opCut = c.opHead // what was refused or has died may have left the queue uncut
	}
	for c.opCut != c.opTail {
		if o := &c.ops[c.opCut%maxOps]; !o.sent {
			return o
		}
		c.opCut++
	}
	return nil
}

// expire ends a dmove whose time of death has passed before it was sent.
func (c *Core) expire(o *op) {
	o.sent, o.reason = true, ReasonExpired
	c.stats.WritesExpired++
	c.stats.ChunksDead += uint64(chunkCount(len(o.Data)-o.bytesCut, c.chunkSize))
	c.finishOp(o)
}

// beginTx takes a transaction id for what comes next of a request.
func (c *Core) beginTx(o *op) {
	i := c.freeTx[len(c.freeTx)-1]
	c.freeTx = c.freeTx[:len(c.freeTx)-1]
	t := &c.outTx[i]
	*t = outTx{
		id:    t.id + maxTx,
		live:  true,
		dmove: o.Dmove,
		op:    c.opCut,
	}
	if o.pieces != nil {
		c.cutPieces(o, t)
		o.sent = o.piecesCut == len(o.pieces)
	} else {
		c.cutData(o, t, &Piece{Ref: o.Ref, Imm: o.Imm, Data: o.Data}, o.Offset)
		o.sent = o.bytesCut == len(o.Data)
	}
	o.openTx++
	if o.sent {
		c.opCut++
	}
	c.cutting = int(i)
}

// cutData makes a transaction of the next up to maxChunks chunks of p, which begins at an offset in its window.
func (c *Core) cutData(o *op, t *outTx, p *Piece, offset uint32) {
	n := min(len(p.Data)-o.bytesCut, maxChunks*c.chunkSize)
	t.ref, t.imm, t.base = p.Ref, p.Imm, offset+uint32(o.bytesCut)
	t.data = p.Data[o.bytesCut : o.bytesCut+n]
	t.chunks = uint16(chunkCount(n, c.chunkSize))
	o.bytesCut += n
}

// cutPieces makes a transaction of as many pieces as a datagram holds, or of what comes next of a piece that is longer
// than any.
func (c *Core) cutPieces(o *op, t *outTx) {
	// a first one that the path does not carry goes in fragments
	size, n, most := scatterHeader, o.piecesCut, c.cfg.MaxDatagram
	for n < len(o.pieces) && headerSize+size+pieceHeader+len(o.pieces[n].Data) <= most {
		size += pieceHeader + len(o.pieces[n].Data)
		n++
		most = c.path.size
	}
	if n > o.piecesCut {
		t.pieces, t.size, t.chunks = o.pieces[o.piecesCut:n], size, 1
		o.piecesCut = n
		return
	}
	p := &o.pieces[n]
	c.cutData(o, t, p, p.Offset)
	if o.bytesCut == len(p.Data) {
		o.piecesCut, o.bytesCut = n+1, 0
	}
}

// frameSize is the number of bytes that a transaction's next chunk takes in a datagram.
func (c *Core) frameSize(t *outTx) int {
	if t.pieces != nil {
		return t.size
	}
	return writeHeaderSize + chunkLen(len(t.data), c.chunkSize, int(t.next))
}

// putPieces puts a transaction of pieces; it is one chunk.
func (c *Core) putPieces(b []byte, t *outTx) int {
	putScatterHeader(b, t.id, len(t.pieces))
	n := scatterHeader
	for i := range t.pieces {
		n += putPiece(b[n:], &t.pieces[i])
	}
	c.stats.ChunksSent++
	c.stats.BytesSent += uint64(n - scatterHeader - len(t.pieces)*pieceHeader)
	return n
}

// buildRequests fills a datagram with chunks: of one large write, or of several small ones (write-combining, SCI-bridge
// §III.A).
func (c *Core) buildRequests(now int64, buf []byte) int {
	r := c.send[spaceRequests].newRecord()
	putHeader(buf, header{kind: spaceRequests, view: c.cfg.View, seq: r.seq})
	n := headerSize
	n += c.addAck(buf[n:], c.frameSize(&c.outTx[c.cutting])) // Next has seen to it that something is being cut
	for n < c.path.size && c.cutNext(now) {                  // no transaction is begun for a datagram that is full
		t := &c.outTx[c.cutting]
		if n+c.frameSize(t) > c.path.size && len(r.items) > 0 { // a first one that is longer goes in fragments
			break
		}
		r.items = append(r.items, item{kind: frameWrite, id: t.id, chunk: t.next})
		if n == headerSize && c.gatherBody(buf[n:], t, int(t.next)) {
			n += writeHeaderSize
		} else {
			n += c.putChunk(buf[n:], t, int(t.next))
		}
		t.pending++
		if t.next++; t.next == t.chunks {
			c.cutting = -1
		}
		if c.body != nil {
			break // the datagram is full
		}
	}
	if c.cfg.Pad && c.cutting >= 0 && c.body == nil && n < c.path.size {
		clear(buf[n:c.path.size])
		n = c.path.size
	}
	if c.cfg.Piggyback && !c.mayRequest() {
		buf[1] |= flagImmediateAck
	}
	c.noteTransmission(r, now)
	return n
}

func (c *Core) putChunk(b []byte, t *outTx, chunk int) int {
	if t.pieces != nil {
		return c.putPieces(b, t)
	}
	n := chunkLen(len(t.data), c.chunkSize, chunk)
	c.putChunkHead(b, t, chunk, n)
	copy(b[writeHeaderSize:], t.data[chunk*c.chunkSize:chunk*c.chunkSize+n])
	return writeHeaderSize + n
}

// putChunkHead puts what stands before the n bytes of a chunk.
func (c *Core) putChunkHead(b []byte, t *outTx, chunk, n int) {
	f := writeFrame{
		tx:     t.id,
		window: t.ref.Window,
		gen:    t.ref.Gen,
		base:   t.base,
		total:  uint32(len(t.data)),
		chunk:  uint16(chunk),
		imm:    t.imm,
	}
	if t.dmove {
		f.flags = flagDmove
	}
	putWriteHeader(b, &f, n)
	c.stats.ChunksSent++
	c.stats.BytesSent += uint64(n)
}

func (c *Core) responsesPending() bool { return c.responsesWaiting() > 0 || c.signalPending() }

func (c *Core) responsesWaiting() int { return len(c.responses) - c.respHead }

func (c *Core) signalPending() bool { return c.sigSend != c.sigNext && c.sigSend-c.sigLow < sigRing }

// queueResponse queues a completion or a refusal.
func (c *Core) queueResponse(r response) {
	if c.respHead == len(c.responses) || c.respHead >= maxTx {
		n := copy(c.responses, c.responses[c.respHead:])
		c.responses, c.respHead = c.responses[:n], 0
	}
	c.responses = append(c.responses, r)
}

func (c *Core) buildResponses(now int64, buf []byte) int {
	r := c.send[spaceResponses].newRecord()
	putHeader(buf, header{kind: spaceResponses, view: c.cfg.View, seq: r.seq})
	n := headerSize
	n += c.addAck(buf[n:], signalHeader+MaxSignal)
	for c.respHead < len(c.responses) && n+refusedSize <= c.path.size {
		p := c.responses[c.respHead]
		c.respHead++
		it := item{kind: p.kind, chunk: uint16(p.reason), id: p.tx}
		r.items = append(r.items, it)
		n += putResponse(buf[n:], it)
	}
	for c.signalPending() {
		s := c.signalSlot(c.sigSend)
		if n+signalHeader+len(s.data) > c.path.size {
			break
		}
		r.items = append(r.items, item{kind: frameSignal, id: c.sigSend})
		n += putSignal(buf[n:], c.sigSend, s.data)
		c.sigSend++
	}
	c.noteTransmission(r, now)
	return n
}

// rebuild sends a datagram again under its own number, with what of it still matters. It may be empty: its number must
// arrive all the same, for the credit to come back.
func (c *Core) rebuild(space int, r *record, now int64, buf []byte) int {
	putHeader(buf, header{kind: uint8(space), view: c.cfg.View, seq: r.seq})
	n := headerSize
	kept := r.items[:0]
	for _, it := range r.items {
		m := 0
		switch it.kind {
		case frameWrite:
			m = c.rebuildChunk(buf[n:], it)
		case frameSignal:
			if s := c.signalSlot(it.id); int32(it.id-c.sigLow) >= 0 && s.occupied {
				m = putSignal(buf[n:], it.id, s.data)
			}
		default:
			m = putResponse(buf[n:], it)
		}
		if m > 0 {
			kept = append(kept, it)
			n += m
		}
	}
	r.items, r.repeated = kept, true
	if c.cfg.Piggyback {
		buf[1] |= flagImmediateAck // what was lost has held up others
	}
	c.noteTransmission(r, now)
	c.stats.DatagramsResent++
	return n
}

// rebuildChunk puts a chunk again if its transaction still wants it. A dmove never does: it is counted.
func (c *Core) rebuildChunk(b []byte, it item) int {
	i := it.id % maxTx
	t := &c.outTx[i]
	switch {
	case !t.live || t.id != it.id:
		return 0
	case t.dmove:
		c.stats.ChunksDead++
		c.retireDmoveChunk(i)
		return 0
	}
	c.stats.ChunksResent++
	if c.gatherBody(b, t, int(it.chunk)) {
		return writeHeaderSize
	}
	return c.putChunk(b, t, int(it.chunk))
}

// retireDmoveChunk notes that one sent chunk of a dmove will not be heard of again; after the last, the transaction is
// over.
func (c *Core) retireDmoveChunk(i uint32) {
	t := &c.outTx[i]
	if t.pending--; t.pending == 0 && t.next == t.chunks {
		c.closeTx(i, 0)
	}
}

// closeTx ends a transaction, gives its id back and, with the last one, completes its request.
func (c *Core) closeTx(i uint32, reason Reason) {
	t := &c.outTx[i]
	t.live, t.data, t.pieces = false, nil, nil
	if c.cutting == int(i) {
		c.cutting = -1
	}
	c.freeTx = append(c.freeTx, uint16(i))
	o := &c.ops[t.op%maxOps]
	o.openTx--
	if reason != 0 && o.reason == 0 {
		o.reason = reason
		if o.pieces == nil { // the rest would be refused too; other pieces go elsewhere
			o.sent = true
		}
	}
	c.finishOp(o)
}

// finishOp completes a request that is sent and has no open transaction.
func (c *Core) finishOp(o *op) {
	if !o.sent || o.openTx > 0 || o.done {
		return
	}
	o.done = true
	switch o.reason {
	case 0:
		c.stats.WritesCompleted++
	case ReasonExpired:
	default:
		c.stats.WritesRefused++
	}
	c.emit(Event{
		Kind:   Completed,
		Reason: o.reason,
		Cookie: o.Cookie,
		Length: uint32(min(len(o.Data), math.MaxUint32)),
	})
	c.retire()
}
