package link

import (
	"math"

	"ringlet/internal/invariants"
	"ringlet/shmem"
)

// A Write is one remote write. Data must not change until the write is completed.
type Write struct {
	Ref      shmem.Ref // the window that its owner has granted
	Offset   uint32    // bytes from the window's start
	Data     []byte
	Imm      uint64 // sent to the receiver with the bytes
	Dmove    bool   // no response and no repair: losses are counted
	Deadline int64  // ns; a dmove that is not sent by then expires. Zero: never
	Cookie   uint64 // identifies the write in its completion
}

// A Piece is one of many remote writes with a common outcome.
type Piece struct {
	Ref    shmem.Ref
	Offset uint32 // bytes from the window's start
	Imm    uint64 // sent to the receiver with the bytes
	Data   []byte
}

type op struct {
	Write
	pieces           []Piece
	bytesCut         int // bytes already cut into transactions; with pieces, of the piece in hand
	piecesCut        int // pieces cut completely
	openTransactions int // transactions without an outcome
	firstRefusal     Reason
	isFence          bool
	fullyCut         bool // cut completely, or given up
	isDone           bool
}

type outTransaction struct {
	frame            writeFrame // header of its chunks; tx is its id on the wire: generation<<10 | index
	inUse            bool
	op               uint32
	pieces           []Piece // instead of frame.data
	scatterFrameSize int     // length of the frame that holds the pieces, bytes
	chunks           uint16
	nextChunk        uint16 // the next chunk to send for the first time
	pendingChunks    int    // chunks of a dmove that were sent and are neither acked nor lost
}

// requester sends remote writes: it holds the queue of writes and fences, the transactions that they are cut into, and
// their outcomes.
type requester struct {
	// immutable after newRequester
	cfg       *Config
	chunkSize int // bytes of a full chunk
	*notices

	ops                [maxOps]op
	opHead             uint32 // oldest request without an outcome
	opCut              uint32 // request that is being cut into transactions
	opTail             uint32
	outTransactions    []outTransaction
	freeTransactions   []uint16
	cuttingTransaction int     // transaction whose chunks are being sent, or -1
	stallCounter       *uint64 // counter for what requests wait for now; nil: they do not wait
	queueFull          bool    // the last write found the queue full
	gathering          bool    // putChunk leaves a full chunk in the writer's memory
	gatheredBody       []byte  // the chunk that putChunk left, of the present datagram
}

func newRequester(cfg *Config, n *notices) requester {
	q := requester{
		cfg:                cfg,
		chunkSize:          fullChunk(cfg.MaxDatagram),
		notices:            n,
		outTransactions:    make([]outTransaction, maxTransactions),
		freeTransactions:   make([]uint16, 0, maxTransactions),
		cuttingTransaction: -1,
	}
	for i := maxTransactions - 1; i >= 0; i-- {
		q.freeTransactions = append(q.freeTransactions, uint16(i))
		q.outTransactions[i].frame.tx = uint32(i)
	}
	return q
}

// fullChunk is the number of bytes in a full chunk, for the given size of datagrams.
func fullChunk(maxDatagram int) int { return maxDatagram - headerSize - writeHeaderSize }

func (q *requester) queue(o op) bool {
	if q.opTail-q.opHead >= maxOps {
		if !q.queueFull { // later tries are the same wait
			q.queueFull = true
			q.stats.StallsQueue++
		}
		return false
	}
	q.queueFull = false
	q.ops[q.opTail%maxOps] = o
	q.opTail++
	return true
}

// relocate does what Core.RelocateWrite says.
func (q *requester) relocate(cookie uint64, to func(piece int) []byte) bool {
	for at := q.opHead; at != q.opTail; at++ {
		o := &q.ops[at%maxOps]
		if o.Cookie != cookie || o.pieces == nil || o.isDone {
			continue
		}
		for i := range o.pieces {
			p := &o.pieces[i]
			was := p.Data
			if p.Data = to(i); headerSize+scatterHeader+pieceHeader+len(was) > q.cfg.MaxDatagram {
				q.relocateChunks(at, was, p.Data)
			}
		}
		return true
	}
	return false
}

// relocateChunks moves the transactions of a piece that was cut into chunks to the piece's new bytes.
func (q *requester) relocateChunks(o uint32, was, now []byte) {
	for i := range q.outTransactions {
		t := &q.outTransactions[i]
		at, n := int(t.frame.transactionOffset), len(t.frame.data)
		if t.inUse && t.op == o && n > 0 && at < len(was) && &t.frame.data[0] == &was[at] {
			t.frame.data = now[at:][:n]
		}
	}
}

// retire removes completed requests from the head of the queue.
func (q *requester) retire() {
	for q.opHead != q.opTail {
		o := &q.ops[q.opHead%maxOps]
		if o.isFence {
			q.emit(Event{Kind: EventFenced, Cookie: o.Cookie})
			o.isDone = true
		}
		if !o.isDone {
			return
		}
		if invariants.Enabled && o.openTransactions != 0 {
			invariants.Check(false, "request %d is over with %d transactions open", q.opHead, o.openTransactions)
		}
		*o = op{}
		q.opHead++
	}
}

// mayCut reports whether a chunk is ready to send, or cutNext can make one: there is a request to cut and a free
// transaction id.
func (q *requester) mayCut() bool {
	if q.cuttingTransaction >= 0 {
		return true
	}
	return len(q.freeTransactions) > 0 && q.nextUncut() != nil
}

// cutNext makes sure that a transaction with unsent chunks is ready, and cuts the next request if need be. It reports
// false if there is no request, or no free transaction id. Pieces may share a datagram of pathSize bytes.
func (q *requester) cutNext(now int64, pathSize int) bool {
	for q.cuttingTransaction < 0 {
		o := q.nextUncut()
		switch {
		case o != nil && o.Dmove && o.Deadline != 0 && now > o.Deadline: // it has expired
			o.fullyCut, o.firstRefusal = true, ReasonExpired
			q.stats.WritesExpired++
			q.stats.ChunksExpired += uint64(chunkCount(len(o.Data)-o.bytesCut, q.chunkSize))
			q.finishOp(o)
		case o == nil || len(q.freeTransactions) == 0:
			return false
		default:
			q.beginTransaction(o, pathSize)
		}
	}
	return true
}

// nextUncut returns the oldest request that is not cut completely, fences excepted.
func (q *requester) nextUncut() *op {
	if int32(q.opCut-q.opHead) < 0 {
		q.opCut = q.opHead // a refused or expired request may have left the queue before it was cut
	}
	for q.opCut != q.opTail {
		if o := &q.ops[q.opCut%maxOps]; !o.fullyCut {
			return o
		}
		q.opCut++
	}
	return nil
}

// beginTransaction begins the next transaction of a request. The transaction has the request's next bytes or, if the
// request consists of pieces, its next pieces. pathSize is how many bytes a datagram may have on the path.
func (q *requester) beginTransaction(o *op, pathSize int) {
	i := q.freeTransactions[len(q.freeTransactions)-1]
	q.freeTransactions = q.freeTransactions[:len(q.freeTransactions)-1]
	t := &q.outTransactions[i]
	*t = outTransaction{frame: writeFrame{tx: t.frame.tx + maxTransactions}, inUse: true, op: q.opCut}
	if o.Dmove {
		t.frame.flags = flagDmove
	}
	if o.pieces != nil {
		q.cutPieces(o, t, pathSize)
		o.fullyCut = o.piecesCut == len(o.pieces)
	} else {
		q.cutData(o, t, &Piece{Ref: o.Ref, Imm: o.Imm, Data: o.Data}, o.Offset)
		o.fullyCut = o.bytesCut == len(o.Data)
	}
	o.openTransactions++
	if o.fullyCut {
		q.opCut++
	}
	q.cuttingTransaction = int(i)
}

// cutData makes a transaction of the next up to maxChunks chunks of p, which begins at the given offset in its window.
func (q *requester) cutData(o *op, t *outTransaction, p *Piece, offset uint32) {
	n := min(len(p.Data)-o.bytesCut, maxChunks*q.chunkSize)
	f := &t.frame
	f.ref, f.imm, f.transactionOffset, f.transactionSize = p.Ref, p.Imm, offset+uint32(o.bytesCut), uint32(n)
	f.data = p.Data[o.bytesCut : o.bytesCut+n]
	t.chunks = uint16(chunkCount(n, q.chunkSize))
	o.bytesCut += n
}

// cutPieces makes a transaction of as many pieces as fit a datagram, or of the next chunks of a piece that fits none.
func (q *requester) cutPieces(o *op, t *outTransaction, pathSize int) {
	// the first piece may exceed pathSize: its datagram then goes in fragments
	size, n, most := scatterHeader, o.piecesCut, q.cfg.MaxDatagram
	for n < len(o.pieces) && headerSize+size+pieceHeader+len(o.pieces[n].Data) <= most {
		size += pieceHeader + len(o.pieces[n].Data)
		n++
		most = pathSize
	}
	if n > o.piecesCut {
		t.pieces, t.scatterFrameSize, t.chunks = o.pieces[o.piecesCut:n], size, 1
		o.piecesCut = n
		return
	}
	p := &o.pieces[n]
	q.cutData(o, t, p, p.Offset)
	if o.bytesCut == len(p.Data) {
		o.piecesCut, o.bytesCut = n+1, 0
	}
}

// nextFrameSize is the length of the next chunk's frame. A transaction must be ready.
func (q *requester) nextFrameSize() int {
	t := &q.outTransactions[q.cuttingTransaction]
	if t.pieces != nil {
		return t.scatterFrameSize
	}
	return writeHeaderSize + chunkLen(len(t.frame.data), q.chunkSize, int(t.nextChunk))
}

// putChunks writes chunks behind the first n bytes of a datagram as long as they fit the path, and returns the
// datagram's length: chunks of one large write, or of several small ones (write-combining, SCI-bridge §III.A).
func (q *requester) putChunks(now int64, buf []byte, n, pathSize int, r *sentDatagram) int {
	q.stallCounter = nil
	// a full datagram begins no further transaction
	for n < pathSize && q.gatheredBody == nil && q.cutNext(now, pathSize) {
		t := &q.outTransactions[q.cuttingTransaction]
		if n+q.nextFrameSize() > pathSize && len(r.frames) > 0 { // a first frame that is too long goes in fragments
			break
		}
		r.frames = append(r.frames, sentFrame{kind: frameWrite, id: t.frame.tx, chunk: t.nextChunk})
		n += q.putChunk(buf[n:], t, int(t.nextChunk))
		r.hasDmove = r.hasDmove || t.frame.isDmove()
		t.pendingChunks++
		if t.nextChunk++; t.nextChunk == t.chunks {
			q.cuttingTransaction = -1
		}
	}
	return n
}

// putChunk writes one chunk and returns its length in b. When gathering, it leaves the bytes of a full chunk in the
// writer's memory; such a chunk has a datagram for itself.
func (q *requester) putChunk(b []byte, t *outTransaction, chunk int) int {
	if t.pieces != nil {
		return q.putPieces(b, t)
	}
	n := chunkLen(len(t.frame.data), q.chunkSize, chunk)
	data := t.frame.data[chunk*q.chunkSize:][:n]
	t.frame.chunk = uint16(chunk)
	putWriteHeader(b, &t.frame, n)
	q.stats.ChunksSent++
	q.stats.BytesSent += uint64(n)
	if q.gathering && n == q.chunkSize {
		q.gatheredBody = data
		return writeHeaderSize
	}
	return writeHeaderSize + copy(b[writeHeaderSize:], data)
}

// putPieces writes a transaction of pieces, which is one chunk.
func (q *requester) putPieces(b []byte, t *outTransaction) int {
	putScatterHeader(b, t.frame.tx, len(t.pieces))
	n := scatterHeader
	for i := range t.pieces {
		n += putPiece(b[n:], &t.pieces[i])
	}
	q.stats.ChunksSent++
	q.stats.BytesSent += uint64(n - scatterHeader - len(t.pieces)*pieceHeader)
	return n
}

// putAgain writes a chunk again if its transaction is still open. A chunk of a dmove is not repeated but counted as
// lost.
func (q *requester) putAgain(b []byte, it sentFrame) int {
	t := q.find(it.id)
	switch {
	case t == nil:
		return 0
	case t.frame.isDmove():
		q.stats.ChunksExpired++
		q.retireDmoveChunk(t)
		return 0
	}
	q.stats.ChunksResent++
	return q.putChunk(b, t, int(it.chunk))
}

// find returns the transaction with an id, or nil if it is closed.
func (q *requester) find(id uint32) *outTransaction {
	if t := &q.outTransactions[id%maxTransactions]; t.inUse && t.frame.tx == id {
		return t
	}
	return nil
}

// onAcked ends dmoves whose last chunk was in a datagram that has arrived. Other writes end with their response.
func (q *requester) onAcked(r *sentDatagram) {
	for _, it := range r.frames {
		if t := q.find(it.id); t != nil && t.frame.isDmove() {
			q.retireDmoveChunk(t)
		}
	}
}

// onResponse handles the response to one of our transactions. Each gets one response, once; any other breaks the
// protocol.
func (q *requester) onResponse(id uint32, why Reason) string {
	t := q.find(id)
	switch {
	case t == nil:
		return "a response to a transaction that is not open"
	case t.frame.isDmove():
		return "a response to a dmove"
	case why == 0 && t.nextChunk != t.chunks:
		return "a completion of a transaction that is not sent"
	}
	q.closeTransaction(t, why)
	return ""
}

// retireDmoveChunk notes that a sent chunk of a dmove is acked or lost; after the last chunk the transaction ends.
func (q *requester) retireDmoveChunk(t *outTransaction) {
	if t.pendingChunks--; t.pendingChunks == 0 && t.nextChunk == t.chunks {
		q.closeTransaction(t, 0)
	}
}

// closeTransaction ends a transaction and frees its id. The last transaction of a request completes it.
func (q *requester) closeTransaction(t *outTransaction, reason Reason) {
	i := t.frame.tx % maxTransactions
	t.inUse, t.frame.data, t.pieces = false, nil, nil
	if q.cuttingTransaction == int(i) {
		q.cuttingTransaction = -1
	}
	q.freeTransactions = append(q.freeTransactions, uint16(i))
	o := &q.ops[t.op%maxOps]
	o.openTransactions--
	if reason != 0 && o.firstRefusal == 0 {
		o.firstRefusal = reason
		if o.pieces == nil { // the peer would refuse the rest, too; pieces have windows of their own
			o.fullyCut = true
		}
	}
	q.finishOp(o)
}

// finishOp completes a request that is cut completely and has no open transaction.
func (q *requester) finishOp(o *op) {
	if !o.fullyCut || o.openTransactions > 0 || o.isDone {
		return
	}
	o.isDone = true
	switch o.firstRefusal {
	case 0:
		q.stats.WritesCompleted++
	case ReasonExpired:
	default:
		q.stats.WritesRefused++
	}
	written := Placement{Length: uint32(min(len(o.Data), math.MaxUint32))}
	q.emit(Event{Kind: EventCompleted, Reason: o.firstRefusal, Cookie: o.Cookie, Placement: written})
	q.retire()
}

// countStall counts why requests wait: once for each wait, and again when the cause changes.
func (q *requester) countStall(hasCredit, hasWindow bool) {
	var cause *uint64
	switch {
	case q.cuttingTransaction < 0 && q.nextUncut() == nil:
	case !hasCredit:
		cause = &q.stats.StallsCredit
	case !hasWindow:
		cause = &q.stats.StallsCongestion
	default:
		cause = &q.stats.StallsTransactions
	}
	if cause != nil && cause != q.stallCounter {
		*cause++
	}
	q.stallCounter = cause
}
