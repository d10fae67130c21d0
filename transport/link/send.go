package link

import (
	"math"

	"ringlet/internal/invariants"
)

// Next builds the next datagram to send into buf (at least MaxDatagram long) and returns its length, or 0 when there is
// nothing to send or no credit to send it.
func (c *Core) Next(now int64, buf []byte) int {
	if invariants.Enabled && c.NextDue() {
		return c.nextDue(now, buf)
	}
	return c.next(now, buf)
}

// nextDue is Next with the promise of Due looked after.
func (c *Core) nextDue(now int64, buf []byte) int {
	head := c.opHead
	n := c.next(now, buf)
	if n == 0 && c.opHead == head && c.NextDue() { // the arguments cost an allocation
		invariants.Check(false, "something is due, and nothing of it is sent: %+v", c.stats)
	}
	return n
}

func (c *Core) next(now int64, buf []byte) int {
	if c.fragmenter.pending() {
		return c.nextFragment(buf)
	}
	c.builtDatagram = nil
	n := c.build(now, buf)
	if n == 0 {
		return c.buildTailCopy(now, buf)
	}
	if c.builtDatagram == nil {
		return n // an ack
	}
	space := int(buf[1] &^ flagImmediateAck)
	if c.shouldFragment(&c.send[space], c.builtDatagram, n+len(c.gatheredBody), now) {
		return c.startFragments(buf, n)
	}
	c.scheduleTailCopy(space)
	return n
}

// build builds the next datagram whole.
func (c *Core) build(now int64, buf []byte) int {
	if c.ackDue && !(c.cfg.PiggybackAcks && c.responsesPending() && c.send[spaceResponses].hasCredit()) {
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
		c.stallCounter = nil
		return c.buildRequests(now, buf)
	}
	c.countStall()
	return 0
}

// countStall counts what requests wait for, if any do: once for each wait, and again where its cause changes.
func (c *Core) countStall() {
	var cause *uint64
	switch {
	case c.cuttingTransaction < 0 && c.nextUncut() == nil:
	case !c.send[spaceRequests].hasCredit():
		cause = &c.stats.StallsCredit
	case !c.mayRequest():
		cause = &c.stats.StallsCongestion
	default:
		cause = &c.stats.StallsTransactions
	}
	if cause != nil && cause != c.stallCounter {
		*cause++
	}
	c.stallCounter = cause
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
	c.onAckSent()
	c.stats.DatagramsSent++
	return n
}

func (c *Core) onAckSent() {
	c.ackDue, c.sinceLastAck, c.ackDeadline = false, [numSpaces]int{}, 0
	for l := range c.recv {
		c.recv[l].unreportedGap = false
	}
	c.stats.AcksSent++
}

// addAck puts an ack in front of other frames, if one is owed, tells of no holes and leaves room for those of the
// given size.
func (c *Core) addAck(b []byte, next int) int {
	if !c.cfg.PiggybackAcks || c.sinceLastAck == [numSpaces]int{} || headerSize+ackFrameSize+next > c.path.currentSize {
		return 0
	}
	for l := range c.recv {
		if c.recv[l].firstMissing != c.recv[l].highestPlusOne {
			return 0
		}
	}
	b[0], b[1], b[2], b[3] = frameAck, 0, 0, 0
	n := ackFrameHeader
	for l := range c.recv {
		n += c.recv[l].putAck(b[n:])
	}
	c.onAckSent()
	return n
}

// noteTransmission notes a transmission.
func (c *Core) noteTransmission(r *sentDatagram, now int64) {
	if c.send[0].inFlight+c.send[1].inFlight == 1 && !r.repeated {
		c.silentSince = now // the silence starts with the first outstanding datagram
		if c.backoff == 0 {
			c.lastProgress = now
		}
	}
	c.transmissions++
	r.timesSent = uint8(min(int(r.timesSent)+1, math.MaxUint8))
	r.transmission, r.sentAt = c.transmissions, now
	c.builtDatagram = r
	c.stats.DatagramsSent++
}

// cutNext makes sure that a transaction with unsent chunks stands ready, cutting the next request if need be. It
// reports false when there is none, or no free transaction.
func (c *Core) cutNext(now int64) bool {
	for c.cuttingTransaction < 0 {
		o := c.requestToCut(now)
		if o == nil || len(c.freeTransactions) == 0 {
			return false
		}
		c.beginTransaction(o)
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
		if o := &c.ops[c.opCut%maxOps]; !o.fullyCut {
			return o
		}
		c.opCut++
	}
	return nil
}

// expire ends a dmove whose time of death has passed before it was sent.
func (c *Core) expire(o *op) {
	o.fullyCut, o.firstRefusal = true, ReasonExpired
	c.stats.WritesExpired++
	c.stats.ChunksExpired += uint64(chunkCount(len(o.Data)-o.bytesCut, c.chunkSize))
	c.finishOp(o)
}

// beginTransaction takes a transaction id for what comes next of a request.
func (c *Core) beginTransaction(o *op) {
	i := c.freeTransactions[len(c.freeTransactions)-1]
	c.freeTransactions = c.freeTransactions[:len(c.freeTransactions)-1]
	t := &c.outTransactions[i]
	*t = outTransaction{
		id:    t.id + maxTransactions,
		inUse: true,
		dmove: o.Dmove,
		op:    c.opCut,
	}
	if o.pieces != nil {
		c.cutPieces(o, t)
		o.fullyCut = o.piecesCut == len(o.pieces)
	} else {
		c.cutData(o, t, &Piece{Ref: o.Ref, Imm: o.Imm, Data: o.Data}, o.Offset)
		o.fullyCut = o.bytesCut == len(o.Data)
	}
	o.openTransactions++
	if o.fullyCut {
		c.opCut++
	}
	c.cuttingTransaction = int(i)
}

// cutData makes a transaction of the next up to maxChunks chunks of p, which begins at an offset in its window.
func (c *Core) cutData(o *op, t *outTransaction, p *Piece, offset uint32) {
	n := min(len(p.Data)-o.bytesCut, maxChunks*c.chunkSize)
	t.ref, t.imm, t.windowOffset = p.Ref, p.Imm, offset+uint32(o.bytesCut)
	t.data = p.Data[o.bytesCut : o.bytesCut+n]
	t.chunks = uint16(chunkCount(n, c.chunkSize))
	o.bytesCut += n
}

// cutPieces makes a transaction of as many pieces as a datagram holds, or of what comes next of a piece that is longer
// than any.
func (c *Core) cutPieces(o *op, t *outTransaction) {
	// a first one that the path does not carry goes in fragments
	size, n, most := scatterHeader, o.piecesCut, c.cfg.MaxDatagram
	for n < len(o.pieces) && headerSize+size+pieceHeader+len(o.pieces[n].Data) <= most {
		size += pieceHeader + len(o.pieces[n].Data)
		n++
		most = c.path.currentSize
	}
	if n > o.piecesCut {
		t.pieces, t.scatterFrameSize, t.chunks = o.pieces[o.piecesCut:n], size, 1
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
func (c *Core) frameSize(t *outTransaction) int {
	if t.pieces != nil {
		return t.scatterFrameSize
	}
	return writeHeaderSize + chunkLen(len(t.data), c.chunkSize, int(t.nextChunk))
}

// putPieces puts a transaction of pieces; it is one chunk.
func (c *Core) putPieces(b []byte, t *outTransaction) int {
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
	// Next has seen to it that something is being cut
	n += c.addAck(buf[n:], c.frameSize(&c.outTransactions[c.cuttingTransaction]))
	// no transaction is begun for a datagram that is full
	for n < c.path.currentSize && c.cutNext(now) {
		t := &c.outTransactions[c.cuttingTransaction]
		if n+c.frameSize(t) > c.path.currentSize && len(r.frames) > 0 { // a first one that is longer goes in fragments
			break
		}
		r.frames = append(r.frames, sentFrame{kind: frameWrite, id: t.id, chunk: t.nextChunk})
		if n == headerSize && c.gatherBody(buf[n:], t, int(t.nextChunk)) {
			n += writeHeaderSize
		} else {
			n += c.putChunk(buf[n:], t, int(t.nextChunk))
		}
		t.pendingChunks++
		if t.nextChunk++; t.nextChunk == t.chunks {
			c.cuttingTransaction = -1
		}
		if c.gatheredBody != nil {
			break // the datagram is full
		}
	}
	if c.cfg.PadDatagrams && c.cuttingTransaction >= 0 && c.gatheredBody == nil && n < c.path.currentSize {
		clear(buf[n:c.path.currentSize])
		n = c.path.currentSize
	}
	if c.cfg.PiggybackAcks && !c.mayRequest() {
		buf[1] |= flagImmediateAck
	}
	c.noteTransmission(r, now)
	return n
}

func (c *Core) putChunk(b []byte, t *outTransaction, chunk int) int {
	if t.pieces != nil {
		return c.putPieces(b, t)
	}
	n := chunkLen(len(t.data), c.chunkSize, chunk)
	c.putChunkHead(b, t, chunk, n)
	copy(b[writeHeaderSize:], t.data[chunk*c.chunkSize:chunk*c.chunkSize+n])
	return writeHeaderSize + n
}

// putChunkHead puts what stands before the n bytes of a chunk.
func (c *Core) putChunkHead(b []byte, t *outTransaction, chunk, n int) {
	f := writeFrame{
		tx:                t.id,
		window:            t.ref.Window,
		gen:               t.ref.Gen,
		transactionOffset: t.windowOffset,
		transactionSize:   uint32(len(t.data)),
		chunk:             uint16(chunk),
		imm:               t.imm,
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

func (c *Core) signalPending() bool {
	return c.sigSend != c.sigNext && c.sigSend-c.sigLow < maxUnackedSignals
}

// queueResponse queues a completion or a refusal.
func (c *Core) queueResponse(r response) {
	if c.respHead == len(c.responses) || c.respHead >= maxTransactions {
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
	for c.respHead < len(c.responses) && n+refusedSize <= c.path.currentSize {
		p := c.responses[c.respHead]
		c.respHead++
		it := sentFrame{kind: p.kind, chunk: uint16(p.reason), id: p.tx}
		r.frames = append(r.frames, it)
		n += putResponse(buf[n:], it)
	}
	for c.signalPending() {
		s := c.signalSlot(c.sigSend)
		if n+signalHeader+len(s.data) > c.path.currentSize {
			break
		}
		r.frames = append(r.frames, sentFrame{kind: frameSignal, id: c.sigSend})
		n += putSignal(buf[n:], c.sigSend, s.data)
		c.sigSend++
	}
	c.noteTransmission(r, now)
	return n
}

// rebuild sends a datagram again under its own number, with what of it still matters. It may be empty: its number must
// arrive all the same, for the credit to come back.
func (c *Core) rebuild(space int, r *sentDatagram, now int64, buf []byte) int {
	putHeader(buf, header{kind: uint8(space), view: c.cfg.View, seq: r.seq})
	n := headerSize
	kept := r.frames[:0]
	for _, it := range r.frames {
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
	r.frames, r.repeated = kept, true
	if c.cfg.PiggybackAcks {
		buf[1] |= flagImmediateAck // what was lost has held up others
	}
	c.noteTransmission(r, now)
	c.stats.DatagramsResent++
	return n
}

// rebuildChunk puts a chunk again if its transaction still wants it. A dmove never does: it is counted.
func (c *Core) rebuildChunk(b []byte, it sentFrame) int {
	i := it.id % maxTransactions
	t := &c.outTransactions[i]
	switch {
	case !t.inUse || t.id != it.id:
		return 0
	case t.dmove:
		c.stats.ChunksExpired++
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
	t := &c.outTransactions[i]
	if t.pendingChunks--; t.pendingChunks == 0 && t.nextChunk == t.chunks {
		c.closeTransaction(i, 0)
	}
}

// closeTransaction ends a transaction, gives its id back and, with the last one, completes its request.
func (c *Core) closeTransaction(i uint32, reason Reason) {
	t := &c.outTransactions[i]
	t.inUse, t.data, t.pieces = false, nil, nil
	if c.cuttingTransaction == int(i) {
		c.cuttingTransaction = -1
	}
	c.freeTransactions = append(c.freeTransactions, uint16(i))
	o := &c.ops[t.op%maxOps]
	o.openTransactions--
	if reason != 0 && o.firstRefusal == 0 {
		o.firstRefusal = reason
		if o.pieces == nil { // the rest would be refused too; other pieces go elsewhere
			o.fullyCut = true
		}
	}
	c.finishOp(o)
}

// finishOp completes a request that is sent and has no open transaction.
func (c *Core) finishOp(o *op) {
	if !o.fullyCut || o.openTransactions > 0 || o.isDone {
		return
	}
	o.isDone = true
	switch o.firstRefusal {
	case 0:
		c.stats.WritesCompleted++
	case ReasonExpired:
	default:
		c.stats.WritesRefused++
	}
	c.emit(Event{
		Kind:   EventCompleted,
		Reason: o.firstRefusal,
		Cookie: o.Cookie,
		Length: uint32(min(len(o.Data), math.MaxUint32)),
	})
	c.retireOps()
}
