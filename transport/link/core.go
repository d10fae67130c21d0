package link

// Pipeline of a datagram. Everything here runs under the owner's lock; nothing allocates once the rings have warmed up.
//
//	sending    1 Write / Signal / Fence   (caller)    queue the request; its data stays the caller's and must not change
//	           2 Next                     (sequential) ack, repairs, responses, then requests → one datagram in buf
//	receiving  3 Receive                  (sequential) number checked, frames parsed, data copied once, to its place
//	           4 EndBatch, Events         (sequential) an ack falls due; the caller reads what happened
//	time       5 Tick                     (sequential) a probe, then repair by time

import (
	"ringlet/internal/invariants"
	"ringlet/shmem"
)

// placer is the export table that decides whether and where a peer's bytes go. shmem.Table fits it.
type placer interface {
	Acquire(peer shmem.Peer, r shmem.Ref, off, n uint32, a shmem.Access) ([]byte, shmem.Violation)
	Release(r shmem.Ref)
	AddWritten(r shmem.Ref, n uint32)
}

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
	id               uint32 // number on the wire: generation<<10 | index
	inUse            bool
	dmove            bool
	op               uint32
	ref              shmem.Ref
	imm              uint64
	data             []byte
	pieces           []Piece // in place of ref, imm and data
	scatterFrameSize int     // of the frame that holds the pieces, bytes
	windowOffset     uint32
	chunks           uint16
	nextChunk        uint16 // next chunk never sent
	pendingChunks    int    // chunks sent without an outcome (dmove)
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
	placed       [maxChunks / 64]uint64 // chunks in place: what was placed is never written again, whoever sends it
}

func (t *inTransaction) isPlaced(chunk uint16) bool { return t.placed[chunk>>6]&(1<<(chunk&63)) != 0 }
func (t *inTransaction) markPlaced(chunk uint16)    { t.placed[chunk>>6] |= 1 << (chunk & 63) }

type inTransactionState uint8

const (
	txFilling inTransactionState = iota
	txPlaced
	txRefused
)

// Core is one end of a link: a pure state machine. It is owned by one goroutine at a time (its owner holds a lock).
type Core struct {
	// immutable after New
	cfg       Config
	chunkSize int // bytes of a full chunk

	// sending
	send               [numSpaces]sendSpace
	ops                [maxOps]op
	opHead             uint32 // oldest without outcome
	opCut              uint32 // being cut into transactions
	opTail             uint32
	outTransactions    []outTransaction
	freeTransactions   []uint16
	cuttingTransaction int       // transaction being sent, or -1
	stallCounter       *uint64   // counter of what requests wait for now; nil: for nothing
	queueFull          bool      // the last write found no room in the queue
	sigOut             []sigSlot // by number, modulo its length, a power of two; grows
	sigNext            uint32    // next to be numbered
	sigSend            uint32    // next to be sent
	sigLow             uint32    // oldest not acked
	responses          []response
	respHead           int
	transmissions      uint64 // transmissions so far
	congestion         congestion
	path               path
	loss               loss
	tailCopies         [numSpaces]tailCopy
	fragmenter         fragmenter
	builtDatagram      *sentDatagram // of the datagram in hand

	// receiving
	recv            [numSpaces]recvSpace
	inTransactions  []inTransaction
	sigIn           [maxUnackedSignals]sigSlot
	sigExpect       uint32
	sinceLastAck    [numSpaces]int // received since the last ack
	ackDeadline     int64          // when an ack that may wait falls due, ns; 0 for none
	receiveTime     int64          // of the datagram in hand
	ackDue          bool
	reservation     reservation // the chunk that Reserve has found a place for
	reassemblers    [numSpaces]reassembler
	events          []Event
	placements      []Placement // pieces placed since the last call of Events
	sparePlacements []Placement // those before, which the caller may still read

	// time
	rtt           rtt
	lastProgress  int64 // last time the peer was heard making progress, or that it was reminded, ns
	silentSince   int64 // since when nothing was heard, reminded or not, ns
	backoff       uint
	ambiguousAcks bool      // since the last Tick that repaired only repetitions were heard of, or what they repeat
	rttSample     rttSample // by the ack in hand
	gatheredBody  []byte    // of the datagram in hand that NextGather has left where it lies
	gathering     bool      // NextGather is at work

	stats Stats
	onAck [numSpaces]func(*sentDatagram)
}

type sigSlot struct {
	data     []byte
	occupied bool
}

type response struct {
	kind   uint8
	reason Reason
	tx     uint32
}

// New makes one end of a link. It panics if the configuration cannot work: it is made by the hello, never by a peer
// alone.
func New(cfg Config) *Core {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		panic("link: " + err.Error())
	}
	c := &Core{
		cfg:                cfg,
		chunkSize:          fullChunk(cfg.MaxDatagram),
		path:               newPath(cfg.MaxDatagram, cfg.BaseDatagram),
		outTransactions:    make([]outTransaction, maxTransactions),
		freeTransactions:   make([]uint16, 0, maxTransactions),
		cuttingTransaction: -1,
		inTransactions:     make([]inTransaction, maxTransactions),
		sigOut:             make([]sigSlot, 16),
	}
	c.rtt.init()
	c.send[spaceRequests] = newSendSpace(cfg.SeqWindow, cfg.Credit)
	c.congestion = newCongestion(cfg.Credit)
	c.recv[spaceRequests] = newRecvSpace(cfg.SeqWindow, cfg.Credit)
	c.send[spaceResponses] = newSendSpace(DefaultSeqWindow, ResponseCredit)
	c.recv[spaceResponses] = newRecvSpace(DefaultSeqWindow, ResponseCredit)
	for i := maxTransactions - 1; i >= 0; i-- {
		c.freeTransactions = append(c.freeTransactions, uint16(i))
		c.outTransactions[i].id = uint32(i)
	}
	c.onAck = [numSpaces]func(*sentDatagram){c.onRequestAcked, c.onResponseAcked}
	return c
}

// fullChunk is the number of bytes in a full chunk, for a carrier with the given datagram size.
func fullChunk(maxDatagram int) int { return maxDatagram - headerSize - writeHeaderSize }

// Write queues a remote write. It reports false when the request queue is full; a completion will make room.
func (c *Core) Write(w Write) bool { return c.queueOp(op{Write: w}) }

// WriteMany queues many remote writes that have one outcome in common. Pieces that fit a datagram travel together, as
// many as it holds; a longer one is a transaction of its own, as a Write's. It reports false when the request queue is
// full. The pieces must stay unchanged until they are completed. There must be some.
func (c *Core) WriteMany(pieces []Piece, cookie uint64) bool {
	return c.queueOp(op{Write: Write{Cookie: cookie}, pieces: pieces})
}

// RelocateWrite has the pieces of a WriteMany under way lie elsewhere from now on, where to says for each: the same
// bytes, which must not change until the write is completed. What the pieces lay in is the caller's again. It reports
// false where no such write is under way, and then asks for nothing.
func (c *Core) RelocateWrite(cookie uint64, to func(piece int) []byte) bool {
	for at := c.opHead; at != c.opTail; at++ {
		o := &c.ops[at%maxOps]
		if o.Cookie != cookie || o.pieces == nil || o.isDone {
			continue
		}
		for i := range o.pieces {
			p := &o.pieces[i]
			was := p.Data
			if p.Data = to(i); headerSize+scatterHeader+pieceHeader+len(was) > c.cfg.MaxDatagram {
				c.relocateChunks(at, was, p.Data)
			}
		}
		return true
	}
	return false
}

// relocateChunks has the transactions of a piece that shares no datagram follow its bytes.
func (c *Core) relocateChunks(o uint32, was, now []byte) {
	for i := range c.outTransactions {
		t := &c.outTransactions[i]
		if t.inUse && t.op == o && len(t.data) > 0 && int(t.windowOffset) < len(was) && &t.data[0] == &was[t.windowOffset] {
			t.data = now[t.windowOffset:][:len(t.data)]
		}
	}
}

// Fence queues a mark that completes when every write queued before it has its outcome.
func (c *Core) Fence(cookie uint64) bool {
	if !c.queueOp(op{Write: Write{Cookie: cookie}, isFence: true, fullyCut: true}) {
		return false
	}
	c.retireOps()
	return true
}

func (c *Core) queueOp(o op) bool {
	if c.opTail-c.opHead >= maxOps {
		if !c.queueFull { // its next tries are the same wait
			c.queueFull = true
			c.stats.StallsQueue++
		}
		return false
	}
	c.queueFull = false
	c.ops[c.opTail%maxOps] = o
	c.opTail++
	return true
}

// retireOps takes finished requests off the head of the queue.
func (c *Core) retireOps() {
	for c.opHead != c.opTail {
		o := &c.ops[c.opHead%maxOps]
		if o.isFence {
			c.emit(Event{Kind: EventFenced, Cookie: o.Cookie})
			o.isDone = true
		}
		if !o.isDone {
			return
		}
		if invariants.Enabled && o.openTransactions != 0 {
			invariants.Check(false, "request %d is over with %d transactions open", c.opHead, o.openTransactions)
		}
		*o = op{}
		c.opHead++
	}
}

// Signal queues a message; it arrives exactly once and in order. It copies p, and never waits: how many may pile up is
// for the caller to bound. It reports false when p is longer than MaxSignal.
func (c *Core) Signal(p []byte) bool {
	if len(p) > MaxSignal {
		return false
	}
	if int(c.sigNext-c.sigLow) == len(c.sigOut) {
		c.growSignals()
	}
	s := c.signalSlot(c.sigNext)
	s.data, s.occupied = append(s.data[:0], p...), true
	c.sigNext++
	c.stats.SignalsSent++
	return true
}

func (c *Core) signalSlot(seq uint32) *sigSlot { return &c.sigOut[seq&uint32(len(c.sigOut)-1)] }

func (c *Core) growSignals() {
	old := c.sigOut
	c.sigOut = make([]sigSlot, 2*len(old))
	for seq := c.sigLow; seq != c.sigNext; seq++ {
		*c.signalSlot(seq) = old[seq&uint32(len(old)-1)]
	}
}

// Events returns what happened since the last call and takes spare for what comes next, so that the events can be read
// outside the owner's lock. Signal data in them lies in the datagrams received, or in the link, until the next batch is
// received; lists of placements are valid until the next call.
func (c *Core) Events(spare []Event) []Event {
	e := c.events
	c.events = spare[:0]
	c.placements, c.sparePlacements = c.sparePlacements[:0], c.placements
	for l := range c.reassemblers {
		c.reassemblers[l].recycle()
	}
	return e
}

// HasEvents reports whether something has happened that Events would tell: a fence passed at once, a dmove died before
// it was sent.
func (c *Core) HasEvents() bool { return len(c.events) > 0 }

func (c *Core) emit(e Event) { c.events = append(c.events, e) }

// isIdle reports whether nothing is queued, outstanding or owed.
func (c *Core) isIdle() bool {
	return c.opHead == c.opTail && c.sigLow == c.sigNext && c.respHead == len(c.responses) &&
		c.send[0].inFlight+c.send[1].inFlight == 0 && !c.ackDue && c.sinceLastAck == [numSpaces]int{}
}

// Stats returns a copy of the counters.
func (c *Core) Stats() Stats {
	s := c.stats
	s.TransactionsFree, s.TransactionsUsed = uint64(len(c.freeTransactions)),
		uint64(maxTransactions-len(c.freeTransactions))
	return s
}

// NextDue reports whether Next would build a datagram; or, where the last requests are dmoves past their time of death,
// end those.
func (c *Core) NextDue() bool {
	return c.fragmenter.pending() || c.tailCopies[spaceRequests].isDue() || c.tailCopies[spaceResponses].isDue() ||
		c.ackDue || c.mayRepair(spaceRequests) || c.mayRepair(spaceResponses) ||
		c.responsesPending() && c.send[spaceResponses].hasCredit() || c.mayRequest() && c.mayCut()
}

// mayCut reports whether a chunk stands ready, or can be made: of a request that is not cut yet, with a transaction id
// for it.
func (c *Core) mayCut() bool {
	if c.cuttingTransaction >= 0 {
		return true
	}
	return len(c.freeTransactions) > 0 && c.nextUncut() != nil
}
