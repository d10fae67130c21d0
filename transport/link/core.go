package link

// Pipeline of a datagram. Everything here runs under the owner's lock; nothing allocates once the rings have warmed up.
//
//	sending    1 Write / Signal / Fence   (caller)    queue the request; its data stays the caller's and must not change
//	           2 Next                     (sequential) ack, repairs, responses, then requests → one datagram in buf
//	receiving  3 Receive                  (sequential) number checked, frames parsed, data copied once, to its place
//	           4 EndBatch, Events         (sequential) an ack falls due; the caller reads what happened
//	time       5 Tick                     (sequential) a probe, then repair by time
//
// The way of a datagram that its carrier opens by itself (carrier quic):
//
//	1 Reserve  (sequential) the head, not yet authenticated, tells where the body may go: a pin
//	2 opening  (the carrier) the body is opened straight into its place
//	3 Commit   (sequential) it was authentic: number, chunk and credit are noted; or Abort: it was not
//
// What has no reservation is opened aside and goes to Receive. A place is given only for a chunk that is missing from
// an nwrite which an authentic datagram has begun, so a forged one can spoil nothing that was placed: its bytes are
// overwritten by the true ones. A dmove gets none: it is over although chunks of it are missing, and later writes may
// have been placed there.

import (
	"encoding/binary"

	"ringlet/internal/invariants"
)

// Core is one end of a link: a pure state machine. It is owned by one goroutine at a time (its owner holds a lock). Its
// parts know nothing of each other but what has happened and the counters: the core builds datagrams of what they have
// to say, and gives each the frames that it understands.
type Core struct {
	cfg Config // immutable after New

	requester  requester  // remote writes of this end
	responder  responder  // and of the peer
	signals    signals    // messages, both ways
	recovery   recovery   // datagrams sent
	acks       acks       // datagrams received
	fragmenter fragmenter // the datagram that goes in fragments
	notices    notices    // what the owner is to be told, and the counters

	reserved    header // of the datagram between Reserve and Commit
	receiveTime int64  // of the datagram in hand
}

// New makes one end of a link. It panics if the configuration cannot work: it is made by the hello, never by a peer
// alone.
func New(cfg Config) *Core {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		panic("link: " + err.Error())
	}
	c := &Core{cfg: cfg}
	c.requester = newRequester(&c.cfg, &c.notices)
	c.responder = newResponder(&c.cfg, &c.notices)
	c.signals = newSignals(&c.notices)
	c.recovery = newRecovery(&c.cfg, &c.notices)
	c.acks = newAcks(&c.cfg, &c.notices)
	return c
}

// Write queues a remote write. It reports false when the request queue is full; a completion will make room.
func (c *Core) Write(w Write) bool { return c.requester.queue(op{Write: w}) }

// WriteMany queues many remote writes that have one outcome in common. Pieces that fit a datagram travel together, as
// many as it holds; a longer one is a transaction of its own, as a Write's. It reports false when the request queue is
// full. The pieces must stay unchanged until they are completed. There must be some.
func (c *Core) WriteMany(pieces []Piece, cookie uint64) bool {
	return c.requester.queue(op{Write: Write{Cookie: cookie}, pieces: pieces})
}

// RelocateWrite has the pieces of a WriteMany under way lie elsewhere from now on, where to says for each: the same
// bytes, which must not change until the write is completed. What the pieces lay in is the caller's again. It reports
// false where no such write is under way, and then asks for nothing.
func (c *Core) RelocateWrite(cookie uint64, to func(piece int) []byte) bool {
	return c.requester.relocate(cookie, to)
}

// Fence queues a mark that completes when every write queued before it has its outcome.
func (c *Core) Fence(cookie uint64) bool {
	if !c.requester.queue(op{Write: Write{Cookie: cookie}, isFence: true, fullyCut: true}) {
		return false
	}
	c.requester.retire()
	return true
}

// Signal queues a message; it arrives exactly once and in order. It copies p, and never waits: how many may pile up is
// for the caller to bound. It reports false when p is longer than MaxSignal.
func (c *Core) Signal(p []byte) bool {
	if len(p) > MaxSignal {
		return false
	}
	c.signals.queue(p)
	return true
}

// Events returns what happened since the last call and takes spare for what comes next, so that the events can be read
// outside the owner's lock. Signal data in them lies in the datagrams received, or in the link, until the next batch is
// received; lists of placements are valid until the next call.
func (c *Core) Events(spare []Event) []Event {
	for space := range c.acks.recv {
		c.acks.recv[space].fragments.recycle()
	}
	return c.notices.takeEvents(spare)
}

// HasEvents reports whether something has happened that Events would tell: a fence passed at once, a dmove died before
// it was sent.
func (c *Core) HasEvents() bool { return len(c.notices.events) > 0 }

// Stats returns a copy of the counters.
func (c *Core) Stats() Stats {
	s := c.notices.stats
	s.TransactionsFree = uint64(len(c.requester.freeTransactions))
	s.TransactionsUsed = maxTransactions - s.TransactionsFree
	return s
}

// NextDue reports whether Next would build a datagram; or, where the last requests are dmoves past their time of death,
// end those.
func (c *Core) NextDue() bool {
	return c.fragmenter.pending() || c.acks.due || c.recovery.mayResend() || c.mayRespond() ||
		c.recovery.mayRequest() && c.requester.mayCut()
}

// hasResponses reports whether answers or signals wait to be sent for the first time.
func (c *Core) hasResponses() bool { return c.responder.responses.len() > 0 || c.signals.pending() }

// mayRespond reports whether one more datagram of them may be sent.
func (c *Core) mayRespond() bool {
	return c.hasResponses() && c.recovery.send[spaceResponses].hasCredit()
}

// Next builds the next datagram to send into buf (at least MaxDatagram long) and returns its length, or 0 when there is
// nothing to send or no credit to send it.
func (c *Core) Next(now int64, buf []byte) int {
	due, head := invariants.Enabled && c.NextDue(), c.requester.opHead
	n := 0
	if !c.fragmenter.pending() {
		n = c.buildDatagram(now, buf)
	}
	if c.fragmenter.pending() {
		n = c.fragmenter.build(buf)
		c.notices.stats.DatagramFragmentsSent++
	}
	if n > 0 {
		c.notices.stats.DatagramsSent++
	} else if due && c.requester.opHead == head && c.NextDue() { // the arguments cost an allocation
		invariants.Check(false, "something is due, and nothing of it is sent: %+v", c.notices.stats)
	}
	return n
}

// NextGather is Next for a carrier that takes a datagram in two parts: when it returns a body, that lies where the
// writer has it, stays valid as long as no other method is called, and follows the BulkHeaderSize bytes in buf.
func (c *Core) NextGather(now int64, buf []byte) (n int, body []byte) {
	c.requester.gathering, c.requester.gatheredBody = true, nil
	n = c.Next(now, buf)
	body = c.requester.gatheredBody
	c.requester.gathering, c.requester.gatheredBody = false, nil
	return n, body
}

// buildDatagram builds the next datagram; one that the path does not carry whole it puts aside, to go in fragments.
func (c *Core) buildDatagram(now int64, buf []byte) int {
	n, r := c.build(now, buf)
	if n == 0 {
		return c.buildTailCopy(now, buf)
	}
	if r == nil {
		return n // an ack
	}
	space := int(buf[1] &^ flagImmediateAck)
	body := c.requester.gatheredBody
	if c.recovery.shouldFragment(space, r, n+len(body), now) {
		c.fragmenter.start(buf[:n], body, c.recovery.path.baseSize)
		c.requester.gatheredBody = nil
		return 0
	}
	c.scheduleTailCopy(space, r)
	return n
}

// build builds the next datagram whole, and returns its record; an ack has none.
func (c *Core) build(now int64, buf []byte) (int, *sentDatagram) {
	if c.acks.due && !(c.cfg.PiggybackAcks && c.mayRespond()) {
		return c.buildAck(buf), nil
	}
	if space, r := c.recovery.nextRepair(); r != nil {
		return c.rebuild(space, r, now, buf), r
	}
	if c.mayRespond() {
		return c.buildResponses(now, buf)
	}
	if c.recovery.mayRequest() && c.requester.cutNext(now, c.recovery.path.currentSize) {
		return c.buildRequests(now, buf)
	}
	c.requester.countStall(c.recovery.send[spaceRequests].hasCredit(), c.recovery.mayRequest())
	return 0, nil
}

// NextAck builds an ack into buf if one is due, and nothing else: for a receiver that sends it without waiting
// for the pump.
func (c *Core) NextAck(buf []byte) int {
	if !c.acks.due {
		return 0
	}
	c.notices.stats.DatagramsSent++
	return c.buildAck(buf)
}

func (c *Core) buildAck(buf []byte) int {
	putHeader(buf, header{kind: kindAck, view: c.cfg.View, seq: uint32(c.notices.stats.AcksSent)})
	return headerSize + c.acks.put(buf[headerSize:])
}

// begin begins a new datagram of a space, with an ack if one can come before a frame of the given size.
func (c *Core) begin(space, next int, buf []byte) (int, *sentDatagram) {
	r := c.recovery.send[space].newRecord()
	putHeader(buf, header{kind: uint8(space), view: c.cfg.View, seq: r.seq})
	return headerSize + c.acks.putFrame(buf[headerSize:], c.recovery.path.currentSize-headerSize-next), r
}

// buildRequests fills a datagram with chunks; the first stands ready.
func (c *Core) buildRequests(now int64, buf []byte) (int, *sentDatagram) {
	size := c.recovery.path.currentSize
	n, r := c.begin(spaceRequests, c.requester.nextFrameSize(), buf)
	n = c.requester.putChunks(now, buf, n, size, r)
	if c.cfg.PadDatagrams && c.requester.cuttingTransaction >= 0 && c.requester.gatheredBody == nil && n < size {
		clear(buf[n:size])
		n = size
	}
	if c.cfg.PiggybackAcks && !c.recovery.mayRequest() {
		buf[1] |= flagImmediateAck
	}
	c.recovery.onSent(r, now)
	return n, r
}

func (c *Core) buildResponses(now int64, buf []byte) (int, *sentDatagram) {
	n, r := c.begin(spaceResponses, signalHeader+MaxSignal, buf)
	n = c.responder.putResponses(buf, n, c.recovery.path.currentSize, r)
	n = c.signals.put(buf, n, c.recovery.path.currentSize, r)
	c.recovery.onSent(r, now)
	return n, r
}

// rebuild sends a datagram again under its own number, with what of it still matters. It may be empty: its number must
// arrive all the same, for the credit to come back.
func (c *Core) rebuild(space int, r *sentDatagram, now int64, buf []byte) int {
	putHeader(buf, header{kind: uint8(space), view: c.cfg.View, seq: r.seq})
	n := headerSize
	kept := r.frames[:0]
	for _, it := range r.frames {
		var m int
		switch it.kind {
		case frameWrite:
			m = c.requester.putAgain(buf[n:], it)
		case frameSignal:
			m = c.signals.putAgain(buf[n:], it.id)
		default:
			m = putResponse(buf[n:], it)
		}
		if m > 0 {
			kept = append(kept, it)
			n += m
		}
	}
	r.frames, r.repeated, r.hasDmove = kept, true, false
	if c.cfg.PiggybackAcks {
		buf[1] |= flagImmediateAck // what was lost has held up others
	}
	c.recovery.onSent(r, now)
	c.notices.stats.DatagramsResent++
	return n
}

// scheduleTailCopy has a datagram just built sent again behind all that is due, if the path loses and nothing of its
// space waits. A dmove is not worth it: who wants it to arrive does not send one.
func (c *Core) scheduleTailCopy(space int, r *sentDatagram) {
	more := space == spaceRequests && c.requester.mayCut() || space == spaceResponses && c.hasResponses()
	c.recovery.tailCopies[space] = tailCopy{}
	if c.recovery.loss.isLossy() && !r.fragmented && !more && !r.hasDmove {
		c.recovery.tailCopies[space] = tailCopy{r, r.seq}
	}
}

// buildTailCopy builds a copy that is due, or returns 0. It is one transmission with the first: a round trip may be
// measured by either.
func (c *Core) buildTailCopy(now int64, buf []byte) int {
	space, r := c.recovery.nextTailCopy()
	if r == nil {
		return 0
	}
	repeated := r.repeated
	n := c.rebuild(space, r, now, buf)
	r.repeated = repeated
	buf[1] &^= flagImmediateAck // nobody waits for the copy
	return n
}

// Receive takes one datagram from the carrier. It returns an error, and uses nothing more of the datagram, when that
// does not parse or breaks the protocol; the link goes on. Call EndBatch after the last datagram that is at hand.
func (c *Core) Receive(now int64, d []byte) error {
	c.notices.stats.DatagramsReceived++
	c.receiveTime = now
	h, err := parseHeader(d)
	switch {
	case err != nil:
		c.notices.stats.DatagramsMalformed++
		return err
	case h.view != c.cfg.View:
		c.notices.stats.DatagramsStale++
		return nil
	case h.kind == kindAck:
		if wrongAt := c.receiveAck(d[headerSize:]); wrongAt >= 0 {
			return c.malformed(headerSize+wrongAt, "an ack is cut off, or speaks of datagrams never sent")
		}
		return nil
	case h.kind == kindFragment:
		return c.receiveFragment(&h, d)
	}
	return c.receiveNumbered(&h, d)
}

// malformed counts a datagram that does not parse, or breaks the protocol.
func (c *Core) malformed(at int, why string) error {
	c.notices.stats.DatagramsMalformed++
	return malformedError(at, why)
}

// drop counts a datagram that has no effect of its own by what its number says.
func (c *Core) drop(v verdict) error {
	switch v {
	case beyondCredit:
		c.notices.stats.DatagramsBeyondCredit++
		return malformedError(4, "numbered beyond the credit")
	case duplicate, duplicateFragment:
		c.notices.stats.DatagramsDuplicate++
	}
	return nil
}

// receiveNumbered takes a datagram of one of the spaces.
func (c *Core) receiveNumbered(h *header, d []byte) error {
	c.acks.onReceived(h)
	if v := c.acks.recv[h.kind].accept(h.seq); v != fresh {
		if v == duplicate {
			c.responder.countDuplicates(d)
			// The sender has not heard that it arrived; or it is a copy, which nobody waits for.
			c.acks.due = c.acks.due || !c.cfg.PiggybackAcks || h.immediateAck
		}
		return c.drop(v)
	}
	// what arrives for the first time has effect
	for off := headerSize; off < len(d) && d[off] != framePad; {
		n, why := c.handleFrame(h.kind, d[off:])
		if why != "" {
			return c.malformed(off, why)
		}
		off += n
	}
	return nil
}

// receiveFragment takes one fragment. It returns an error as Receive does.
func (c *Core) receiveFragment(h *header, d []byte) error {
	c.notices.stats.DatagramFragmentsReceived++
	f, why := parseFragment(d, c.cfg.MaxDatagram)
	if why != "" {
		return c.malformed(headerSize, why)
	}
	datagram, verdict := c.acks.recv[f.space].acceptFragment(h.seq, &f, c.cfg.MaxDatagram)
	c.acks.due = c.acks.due || verdict == duplicate
	if verdict != fresh || datagram == nil {
		return c.drop(verdict)
	}
	inner, err := parseHeader(datagram)
	if err != nil || inner.kind != f.space || inner.seq != h.seq || inner.view != h.view {
		return c.malformed(headerSize, "the fragments of a datagram make another")
	}
	inner.immediateAck = inner.immediateAck || h.immediateAck
	return c.receiveNumbered(&inner, datagram)
}

func (c *Core) handleFrame(space uint8, b []byte) (int, string) {
	switch {
	case b[0] == frameAck:
		switch { // it tells of no holes
		case len(b) < ackFrameSize:
			return 0, "an ack is cut off"
		case c.receiveAck(b[ackFrameHeader:ackFrameSize]) >= 0:
			return 0, "an ack has holes, or speaks of datagrams never sent"
		}
		return ackFrameSize, ""
	case b[0] == frameWrite || b[0] == frameScatter:
		if space != spaceRequests {
			return 0, "a write among the responses"
		}
		return c.responder.receiveWrite(b)
	case space != spaceResponses:
		return 0, "a response among the requests"
	case len(b) < signalHeader:
		return 0, "a response is cut off"
	}
	id := binary.LittleEndian.Uint32(b[4:])
	switch b[0] {
	case frameSignal:
		n := signalHeader + int(binary.LittleEndian.Uint16(b[2:]))
		if n > len(b) || n > signalHeader+MaxSignal {
			return 0, "a signal is cut off or too long"
		}
		return n, c.signals.receive(id, b[signalHeader:n])
	case frameDone:
		return doneSize, c.requester.onResponse(id, 0)
	case frameRefused:
		if b[1] == 0 {
			return 0, "a refusal without a reason"
		}
		return refusedSize, c.requester.onResponse(id, Reason(b[1]))
	}
	return 0, "unknown type of frame"
}

// receiveAck learns what arrived, and gives back what that frees. It returns the offset of what it does not understand,
// or -1.
func (c *Core) receiveAck(b []byte) (wrongAt int) {
	c.notices.stats.AcksReceived++
	wrongAt = c.recovery.onAck(c.receiveTime, b)
	requests, responses := &c.recovery.send[spaceRequests], &c.recovery.send[spaceResponses]
	for _, seq := range requests.acked {
		if r := requests.record(seq); r.hasDmove {
			c.requester.onAcked(r)
		}
	}
	for _, seq := range responses.acked {
		c.signals.onAcked(responses.record(seq))
	}
	return wrongAt
}

// Reserve says where the n bytes behind a head of BulkHeaderSize bytes belong, or nil when they are to be opened aside.
// Until Commit or Abort, one of which must follow a place that is not nil, the memory is pinned.
func (c *Core) Reserve(head []byte, n int) []byte {
	if len(head) != BulkHeaderSize {
		return nil
	}
	h, err := parseHeader(head)
	if err != nil || h.view != c.cfg.View || h.kind != spaceRequests || c.acks.recv[spaceRequests].judge(h.seq) != fresh {
		return nil
	}
	c.reserved = h
	return c.responder.reserve(head[headerSize:], n)
}

// Abort says that the datagram with the reservation is not authentic.
func (c *Core) Abort() { c.responder.abort() }

// Commit says that the datagram with the reservation is authentic, its body in place.
func (c *Core) Commit(now int64) {
	c.notices.stats.DatagramsReceived++
	c.receiveTime = now
	c.acks.onReceived(&c.reserved)
	c.acks.recv[spaceRequests].accept(c.reserved.seq)
	c.responder.commit()
}

// EndBatch tells that no more datagrams are at hand, so what arrived should be acked now, or soon.
func (c *Core) EndBatch() { c.acks.endBatch(c.receiveTime) }

// Deadline is when Tick must next be called, ns on the owner's clock, or 0 when there is nothing to wait for.
func (c *Core) Deadline() int64 {
	d := c.recovery.deadline()
	if c.acks.deadline != 0 && (d == 0 || c.acks.deadline < d) {
		return c.acks.deadline
	}
	return d
}

// SilentFor is for how long nothing has been heard of all that is outstanding, ns.
func (c *Core) SilentFor(now int64) int64 {
	if c.recovery.inFlight() == 0 {
		return 0
	}
	return now - c.recovery.silentSince
}

// Tick repairs by time. It may make datagrams due; ask Next.
func (c *Core) Tick(now int64) {
	c.acks.tick(now)
	c.recovery.tick(now)
}
