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
	if c.parting.more() {
		return c.nextPart(buf)
	}
	c.built = nil
	n := c.build(now, buf)
	if n == 0 {
		return c.buildTwin(now, buf)
	}
	if c.built == nil {
		return n // an echo
	}
	lane := int(buf[1] &^ flagWaits)
	if c.inParts(&c.send[lane], c.built, n+len(c.body), now) {
		return c.part(buf, n)
	}
	c.double(lane)
	return n
}

// build builds the next datagram whole.
func (c *Core) build(now int64, buf []byte) int {
	if c.echoDue && !(c.cfg.Piggyback && c.responsesPending() && c.send[laneResponses].open()) {
		return c.buildEcho(buf)
	}
	for l := lanes - 1; l >= 0; l-- {
		if !c.mayRepair(l) {
			continue
		}
		if r := c.send[l].popRepair(); r != nil {
			return c.rebuild(l, r, now, buf)
		}
	}
	if c.responsesPending() && c.send[laneResponses].open() {
		return c.buildResponses(now, buf)
	}
	if c.mayRequest() && c.cutNext(now) {
		c.stall = nil
		return c.buildRequests(now, buf)
	}
	c.stalled()
	return 0
}

// stalled counts what requests wait for, if any do: once for each wait, and again where its cause changes.
func (c *Core) stalled() {
	var cause *uint64
	switch {
	case c.cutting < 0 && c.uncut() == nil:
	case !c.send[laneRequests].open():
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

// NextEcho builds an echo into buf if one is due, and nothing else: for a receiver that sends it without waiting
// for the pump.
func (c *Core) NextEcho(buf []byte) int {
	if c.echoDue {
		return c.buildEcho(buf)
	}
	return 0
}

func (c *Core) buildEcho(buf []byte) int {
	putHeader(buf, header{kind: kindEcho, view: c.cfg.View, seq: uint32(c.stats.EchoesSent)})
	n := headerSize
	for l := range c.recv {
		n += c.recv[l].putEcho(buf[n:])
	}
	c.echoed()
	c.stats.DatagramsSent++
	return n
}

func (c *Core) echoed() {
	c.echoDue, c.unechoed, c.lazy = false, [lanes]int{}, 0
	for l := range c.recv {
		c.recv[l].gap = false
	}
	c.stats.EchoesSent++
}

// addEcho puts an echo in front of other frames, if one is owed, tells of no holes and leaves room for those of the
// given size.
func (c *Core) addEcho(b []byte, next int) int {
	if !c.cfg.Piggyback || c.unechoed == [lanes]int{} || headerSize+echoFrameSize+next > c.path.size {
		return 0
	}
	for l := range c.recv {
		if c.recv[l].next != c.recv[l].high {
			return 0
		}
	}
	b[0], b[1], b[2], b[3] = frameEcho, 0, 0, 0
	n := echoFrameHeader
	for l := range c.recv {
		n += c.recv[l].putEcho(b[n:])
	}
	c.echoed()
	return n
}

// stampRecord notes a transmission.
func (c *Core) stampRecord(r *record, now int64) {
	if c.send[0].live+c.send[1].live == 1 && !r.repeated {
		c.heardAt = now // the silence starts with the first outstanding datagram
		if c.backoff == 0 {
			c.progress = now
		}
	}
	c.stamp++
	r.sends = uint8(min(int(r.sends)+1, math.MaxUint8))
	r.stamp, r.at = c.stamp, now
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
		c.cut(o)
	}
	return true
}

// requestToCut returns the oldest request that still has bytes to send.
func (c *Core) requestToCut(now int64) *op {
	for {
		o := c.uncut()
		if o == nil || !o.Dmove || o.Deadline == 0 || now <= o.Deadline {
			return o
		}
		c.expire(o)
	}
}

// uncut is the oldest request that is not cut completely, nor a fence.
func (c *Core) uncut() *op {
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
	c.stats.ChunksDead += uint64(chunksOf(len(o.Data)-o.cut, c.unit))
	c.finish(o)
}

// cut takes a transaction id for what comes next of a request.
func (c *Core) cut(o *op) {
	i := c.freeTx[len(c.freeTx)-1]
	c.freeTx = c.freeTx[:len(c.freeTx)-1]
	t := &c.tx[i]
	*t = outTx{
		id:    t.id + maxTx,
		live:  true,
		dmove: o.Dmove,
		op:    c.opCut,
	}
	if o.pieces != nil {
		c.cutPieces(o, t)
		o.sent = o.whole == len(o.pieces)
	} else {
		c.cutData(o, t, &Piece{Ref: o.Ref, Imm: o.Imm, Data: o.Data}, o.Offset)
		o.sent = o.cut == len(o.Data)
	}
	o.open++
	if o.sent {
		c.opCut++
	}
	c.cutting = int(i)
}

// cutData makes a transaction of the next up to maxChunks chunks of p, which begins at an offset in its window.
func (c *Core) cutData(o *op, t *outTx, p *Piece, offset uint32) {
	n := min(len(p.Data)-o.cut, maxChunks*c.unit)
	t.ref, t.imm, t.base = p.Ref, p.Imm, offset+uint32(o.cut)
	t.data = p.Data[o.cut : o.cut+n]
	t.chunks = uint16(chunksOf(n, c.unit))
	o.cut += n
}

// cutPieces makes a transaction of as many pieces as a datagram holds, or of what comes next of a piece that is longer
// than any.
func (c *Core) cutPieces(o *op, t *outTx) {
	size, n, most := scatterHeader, o.whole, c.cfg.MaxDatagram // a first one that the path does not carry goes in parts
	for n < len(o.pieces) && headerSize+size+pieceHeader+len(o.pieces[n].Data) <= most {
		size += pieceHeader + len(o.pieces[n].Data)
		n++
		most = c.path.size
	}
	if n > o.whole {
		t.pieces, t.size, t.chunks = o.pieces[o.whole:n], size, 1
		o.whole = n
		return
	}
	p := &o.pieces[n]
	c.cutData(o, t, p, p.Offset)
	if o.cut == len(p.Data) {
		o.whole, o.cut = n+1, 0
	}
}

// frameSize is the number of bytes that a transaction's next chunk takes in a datagram.
func (c *Core) frameSize(t *outTx) int {
	if t.pieces != nil {
		return t.size
	}
	return writeHeaderSize + chunkLen(len(t.data), c.unit, int(t.next))
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
	r := c.send[laneRequests].begin()
	putHeader(buf, header{kind: laneRequests, view: c.cfg.View, seq: r.seq})
	n := headerSize
	n += c.addEcho(buf[n:], c.frameSize(&c.tx[c.cutting])) // Next has seen to it that something is being cut
	for n < c.path.size && c.cutNext(now) {                // no transaction is begun for a datagram that is full
		t := &c.tx[c.cutting]
		if n+c.frameSize(t) > c.path.size && len(r.items) > 0 { // a first one that is longer goes in parts
			break
		}
		r.items = append(r.items, item{kind: frameWrite, id: t.id, chunk: t.next})
		if n == headerSize && c.leaveBody(buf[n:], t, int(t.next)) {
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
		buf[1] |= flagWaits
	}
	c.stampRecord(r, now)
	return n
}

func (c *Core) putChunk(b []byte, t *outTx, chunk int) int {
	if t.pieces != nil {
		return c.putPieces(b, t)
	}
	n := chunkLen(len(t.data), c.unit, chunk)
	c.putChunkHead(b, t, chunk, n)
	copy(b[writeHeaderSize:], t.data[chunk*c.unit:chunk*c.unit+n])
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

func (c *Core) responsesWaiting() int { return len(c.responses) - c.respAt }

func (c *Core) signalPending() bool { return c.sigSend != c.sigNext && c.sigSend-c.sigLow < sigRing }

// respond queues a completion or a refusal.
func (c *Core) respond(r response) {
	if c.respAt == len(c.responses) || c.respAt >= maxTx {
		n := copy(c.responses, c.responses[c.respAt:])
		c.responses, c.respAt = c.responses[:n], 0
	}
	c.responses = append(c.responses, r)
}

func (c *Core) buildResponses(now int64, buf []byte) int {
	r := c.send[laneResponses].begin()
	putHeader(buf, header{kind: laneResponses, view: c.cfg.View, seq: r.seq})
	n := headerSize
	n += c.addEcho(buf[n:], signalHeader+MaxSignal)
	for c.respAt < len(c.responses) && n+refusedSize <= c.path.size {
		p := c.responses[c.respAt]
		c.respAt++
		it := item{kind: p.kind, chunk: uint16(p.reason), id: p.tx}
		r.items = append(r.items, it)
		n += putResponse(buf[n:], it)
	}
	for c.signalPending() {
		s := c.signal(c.sigSend)
		if n+signalHeader+len(s.data) > c.path.size {
			break
		}
		r.items = append(r.items, item{kind: frameSignal, id: c.sigSend})
		n += putSignal(buf[n:], c.sigSend, s.data)
		c.sigSend++
	}
	c.stampRecord(r, now)
	return n
}

// rebuild sends a datagram again under its own number, with what of it still matters. It may be empty: its number must
// arrive all the same, for the credit to come back.
func (c *Core) rebuild(lane int, r *record, now int64, buf []byte) int {
	putHeader(buf, header{kind: uint8(lane), view: c.cfg.View, seq: r.seq})
	n := headerSize
	kept := r.items[:0]
	for _, it := range r.items {
		m := 0
		switch it.kind {
		case frameWrite:
			m = c.rebuildChunk(buf[n:], it)
		case frameSignal:
			if s := c.signal(it.id); int32(it.id-c.sigLow) >= 0 && s.have {
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
		buf[1] |= flagWaits // what was lost has held up others
	}
	c.stampRecord(r, now)
	c.stats.DatagramsResent++
	return n
}

// rebuildChunk puts a chunk again if its transaction still wants it. A dmove never does: it is counted.
func (c *Core) rebuildChunk(b []byte, it item) int {
	i := it.id % maxTx
	t := &c.tx[i]
	switch {
	case !t.live || t.id != it.id:
		return 0
	case t.dmove:
		c.stats.ChunksDead++
		c.settle(i)
		return 0
	}
	c.stats.ChunksResent++
	if c.leaveBody(b, t, int(it.chunk)) {
		return writeHeaderSize
	}
	return c.putChunk(b, t, int(it.chunk))
}

// settle notes that one sent chunk of a dmove will not be heard of again; after the last, the transaction is over.
func (c *Core) settle(i uint32) {
	t := &c.tx[i]
	if t.pending--; t.pending == 0 && t.next == t.chunks {
		c.close(i, 0)
	}
}

// close ends a transaction, gives its id back and, with the last one, completes its request.
func (c *Core) close(i uint32, reason Reason) {
	t := &c.tx[i]
	t.live, t.data, t.pieces = false, nil, nil
	if c.cutting == int(i) {
		c.cutting = -1
	}
	c.freeTx = append(c.freeTx, uint16(i))
	o := &c.ops[t.op%maxOps]
	o.open--
	if reason != 0 && o.reason == 0 {
		o.reason = reason
		if o.pieces == nil { // the rest would be refused too; other pieces go elsewhere
			o.sent = true
		}
	}
	c.finish(o)
}

// finish completes a request that is sent and has no open transaction.
func (c *Core) finish(o *op) {
	if !o.sent || o.open > 0 || o.done {
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
	c.event(Event{
		Kind:   Completed,
		Reason: o.reason,
		Cookie: o.Cookie,
		Length: uint32(min(len(o.Data), math.MaxUint32)),
	})
	c.retire()
}
