package link

import (
	"math"

	"ringlet/internal/invariants"
	"ringlet/shmem"
)

// A Write is one remote write. Data must stay unchanged until the write is completed.
type Write struct {
	Ref      shmem.Ref // the window, as its owner granted it
	Offset   uint32    // bytes from the window's start
	Data     []byte
	Imm      uint64 // told to the receiver when the bytes are in place
	Dmove    bool   // no response, no repair: what is lost is counted
	Deadline int64  // ns; a dmove not sent by then dies. Zero: never
	Cookie   uint64 // comes back in the completion
}

// A Piece is one remote write among many that have one outcome in common.
type Piece struct {
	Ref    shmem.Ref
	Offset uint32 // bytes from the window's start
	Imm    uint64 // told to the receiver when the bytes are in place
	Data   []byte
}

type op struct {
	Write
	pieces           []Piece
	bytesCut         int    // bytes already cut into transactions; of pieces, those of the one in hand
	piecesCut        int    // pieces cut completely
	openTransactions int    // transactions that have no outcome
	firstRefusal     Reason // first refusal
	isFence          bool
	fullyCut         bool // cut completely, or abandoned
	isDone           bool
}

type outTransaction struct {
	frame            writeFrame // of its chunks; tx is its number on the wire: generation<<10 | index
	inUse            bool
	op               uint32
	pieces           []Piece // in place of a frame's data
	scatterFrameSize int     // of the frame that holds the pieces, bytes
	chunks           uint16
	nextChunk        uint16 // next chunk never sent
	pendingChunks    int    // chunks sent without an outcome (dmove)
}

// requester is the end of a link that asks for remote writes: the queue of them and of fences, the transactions that
// they are cut into, and what becomes of these.
type requester struct {
	// immutable after newRequester
	cfg       *Config
	chunkSize int // bytes of a full chunk
	*notices

	ops                [maxOps]op
	opHead             uint32 // oldest without outcome
	opCut              uint32 // being cut into transactions
	opTail             uint32
	outTransactions    []outTransaction
	freeTransactions   []uint16
	cuttingTransaction int     // transaction being sent, or -1
	stallCounter       *uint64 // counter of what requests wait for now; nil: for nothing
	queueFull          bool    // the last write found no room in the queue
	gathering          bool    // full chunks are left where they lie
	gatheredBody       []byte  // the one that was left, of the datagram in hand
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

// fullChunk is the number of bytes in a full chunk, for a carrier with the given datagram size.
func fullChunk(maxDatagram int) int { return maxDatagram - headerSize - writeHeaderSize }

func (q *requester) queue(o op) bool {
	if q.opTail-q.opHead >= maxOps {
		if !q.queueFull { // its next tries are the same wait
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

// relocate has the pieces of a request lie elsewhere, as Core.RelocateWrite says.
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

// relocateChunks has the transactions of a piece that shares no datagram follow its bytes.
func (q *requester) relocateChunks(o uint32, was, now []byte) {
	for i := range q.outTransactions {
		t := &q.outTransactions[i]
		at, n := int(t.frame.transactionOffset), len(t.frame.data)
		if t.inUse && t.op == o && n > 0 && at < len(was) && &t.frame.data[0] == &was[at] {
			t.frame.data = now[at:][:n]
		}
	}
}

// retire takes finished requests off the head of the queue.
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

// mayCut reports whether a chunk stands ready, or can be made: of a request that is not cut yet, with a transaction id
// for it.
func (q *requester) mayCut() bool {
	if q.cuttingTransaction >= 0 {
		return true
	}
	return len(q.freeTransactions) > 0 && q.nextUncut() != nil
}

// cutNext makes sure that a transaction with unsent chunks stands ready, cutting the next request if need be. It
// reports false when there is none, or no free transaction. Pieces share a datagram of pathSize bytes.
func (q *requester) cutNext(now int64, pathSize int) bool {
	for q.cuttingTransaction < 0 {
		o := q.nextUncut()
		switch {
		case o != nil && o.Dmove && o.Deadline != 0 && now > o.Deadline: // it has died before it was sent
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

// nextUncut is the oldest request that is not cut completely, nor a fence.
func (q *requester) nextUncut() *op {
	if int32(q.opCut-q.opHead) < 0 {
		q.opCut = q.opHead // what was refused or has died may have left the queue uncut
	}
	for q.opCut != q.opTail {
		if o := &q.ops[q.opCut%maxOps]; !o.fullyCut {
			return o
		}
		q.opCut++
	}
	return nil
}

// beginTransaction takes a transaction id for what comes next of a request.
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

// cutData makes a transaction of the next up to maxChunks chunks of p, which begins at an offset in its window.
func (q *requester) cutData(o *op, t *outTransaction, p *Piece, offset uint32) {
	n := min(len(p.Data)-o.bytesCut, maxChunks*q.chunkSize)
	f := &t.frame
	f.ref, f.imm, f.transactionOffset, f.transactionSize = p.Ref, p.Imm, offset+uint32(o.bytesCut), uint32(n)
	f.data = p.Data[o.bytesCut : o.bytesCut+n]
	t.chunks = uint16(chunkCount(n, q.chunkSize))
	o.bytesCut += n
}

// cutPieces makes a transaction of as many pieces as a datagram holds, or of what comes next of a piece that is longer
// than any.
func (q *requester) cutPieces(o *op, t *outTransaction, pathSize int) {
	// a first one that the path does not carry goes in fragments
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

// nextFrameSize is the number of bytes that the next chunk takes in a datagram. A transaction must stand ready.
func (q *requester) nextFrameSize() int {
	t := &q.outTransactions[q.cuttingTransaction]
	if t.pieces != nil {
		return t.scatterFrameSize
	}
	return writeHeaderSize + chunkLen(len(t.frame.data), q.chunkSize, int(t.nextChunk))
}

// putChunks puts chunks behind the first n bytes of a datagram, for as long as there are some and they fit the path,
// and returns its length: of one large write, or of several small ones (write-combining, SCI-bridge §III.A).
func (q *requester) putChunks(now int64, buf []byte, n, pathSize int, r *sentDatagram) int {
	q.stallCounter = nil
	// no transaction is begun for a datagram that is full
	for n < pathSize && q.gatheredBody == nil && q.cutNext(now, pathSize) {
		t := &q.outTransactions[q.cuttingTransaction]
		if n+q.nextFrameSize() > pathSize && len(r.frames) > 0 { // a first one that is longer goes in fragments
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

// putChunk puts one chunk and returns how many bytes. Where it is gathered, the bytes of a full chunk are left where
// they lie: it has its datagram for itself.
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

// putPieces puts a transaction of pieces; it is one chunk.
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

// putAgain puts a chunk again if its transaction still wants it. A dmove never does: it is counted.
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

// find is the transaction of an id, or nil if that is over.
func (q *requester) find(id uint32) *outTransaction {
	if t := &q.outTransactions[id%maxTransactions]; t.inUse && t.frame.tx == id {
		return t
	}
	return nil
}

// onAcked ends the dmoves of which a datagram that arrived had the last chunk. Other writes are answered.
func (q *requester) onAcked(r *sentDatagram) {
	for _, it := range r.frames {
		if t := q.find(it.id); t != nil && t.frame.isDmove() {
			q.retireDmoveChunk(t)
		}
	}
}

// onResponse takes the response to one of our transactions. There is one response to a transaction and it arrives once,
// so one that fits none breaks the protocol.
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

// retireDmoveChunk notes that one sent chunk of a dmove will not be heard of again; after the last, the transaction is
// over.
func (q *requester) retireDmoveChunk(t *outTransaction) {
	if t.pendingChunks--; t.pendingChunks == 0 && t.nextChunk == t.chunks {
		q.closeTransaction(t, 0)
	}
}

// closeTransaction ends a transaction, gives its id back and, with the last one, completes its request.
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
		if o.pieces == nil { // the rest would be refused too; other pieces go elsewhere
			o.fullyCut = true
		}
	}
	q.finishOp(o)
}

// finishOp completes a request that is sent and has no open transaction.
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

// countStall counts what requests wait for, if any do: once for each wait, and again where its cause changes.
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
