package link

// Pipeline of a datagram. Everything here runs under the owner's lock; nothing allocates once the rings have warmed up.
//
//	sending    1 Write / Signal / Fence   (caller)    queue the request; its data is not copied and must not change
//	           2 Next                     (sequential) ack, repairs, responses, then requests → one datagram in buf
//	receiving  3 Receive                  (sequential) number checked, frames parsed, data copied once, to its place
//	           4 EndBatch, Events         (sequential) an ack falls due; the caller reads what happened
//	time       5 Tick                     (sequential) a probe, then repair by time
//
// A datagram that its carrier decrypts into place (carrier quic):
//
//	1 Reserve  (sequential) the head, not yet authenticated, says where the body belongs; that memory is pinned
//	2 opening  (the carrier) the carrier decrypts the body straight into its place
//	3 Commit   (sequential) it was authentic: number, chunk and credit are noted; or Abort: it was not
//
// The carrier decrypts other datagrams into a buffer of its own and calls Receive. Reserve returns a place only for a
// missing chunk of an nwrite that an authentic datagram has begun. A forged datagram can thus only write where the true
// chunk is still to be written, and harms nothing. A dmove gets no place: it may end with chunks missing, and later
// writes may own that memory.

import (
	"encoding/binary"

	"ringlet/internal/invariants"
)

// Core is one end of a link: a pure state machine. One goroutine at a time owns it (its owner holds a lock). Its parts
// share nothing but the notices: the core builds datagrams from the frames of each part, and passes received frames to
// the part that they are for.
type Core struct {
	cfg Config // immutable after New

	requester  requester  // remote writes to the peer
	responder  responder  // remote writes of the peer
	signals    signals    // messages, both ways
	recovery   recovery   // sent datagrams
	acks       acks       // received datagrams
	fragmenter fragmenter // the datagram that is being sent in fragments
	notices    notices    // events for the owner, and counters

	reserved    header // header of the datagram between Reserve and Commit
	receiveTime int64  // when the datagram in hand arrived, ns
}

// New makes one end of a link. It panics if the configuration cannot work: the hellos have checked what the peer asks
// for, so a peer alone cannot cause that.
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

// Write queues a remote write. It reports false when the request queue is full; a completion frees a place.
func (c *Core) Write(w Write) bool { return c.requester.queue(op{Write: w}) }

// WriteMany queues many remote writes with one common outcome. Pieces that fit one datagram travel together, as many as
// it holds; a longer piece is a transaction of its own, as a Write is. It reports false when the request queue is full.
// The pieces must not change until their completion. There must be at least one.
func (c *Core) WriteMany(pieces []Piece, cookie uint64) bool {
	return c.requester.queue(op{Write: Write{Cookie: cookie}, pieces: pieces})
}

// RelocateWrite moves the data of a WriteMany under way: to(i) returns the new place of piece i, which holds the same
// bytes and must not change until the completion. The caller may then reuse the old memory. It reports false, without
// calling to, if no such write is under way.
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

// Signal queues a copy of p as a message; it arrives exactly once and in order. It never waits; the caller must bound
// the number of signals under way. It reports false when p is longer than MaxSignal.
func (c *Core) Signal(p []byte) bool {
	if len(p) > MaxSignal {
		return false
	}
	c.signals.queue(p)
	return true
}

// Events returns the events since the last call and uses spare for the next ones, so the caller can read events outside
// the owner's lock. Their signal data, which may lie in received datagrams, is valid until the next batch is received;
// lists of placements are valid until the next call.
func (c *Core) Events(spare []Event) []Event {
	for space := range c.acks.recv {
		c.acks.recv[space].fragments.recycle()
	}
	return c.notices.takeEvents(spare)
}

// HasEvents reports whether Events would return any. Some arise outside Receive: a fence with no write before it
// completes at once, and a dmove may expire before it is sent.
func (c *Core) HasEvents() bool { return len(c.notices.events) > 0 }

// Stats returns a copy of the counters.
func (c *Core) Stats() Stats {
	s := c.notices.stats
	s.TransactionsFree = uint64(len(c.requester.freeTransactions))
	s.TransactionsUsed = maxTransactions - s.TransactionsFree
	return s
}

// NextDue reports whether Next would build a datagram, or complete dmoves that have expired at the end of the queue.
func (c *Core) NextDue() bool {
	return c.fragmenter.pending() || c.acks.due || c.recovery.mayResend() || c.mayRespond() ||
		c.recovery.mayRequest() && c.requester.mayCut()
}

// hasResponses reports whether answers or signals wait for their first transmission.
func (c *Core) hasResponses() bool { return c.responder.responses.len() > 0 || c.signals.pending() }

// mayRespond reports whether the credit allows one more datagram of responses, and there are some.
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

// NextGather is Next for a carrier that takes a datagram in two parts. A returned body follows the BulkHeaderSize bytes
// in buf on the wire; it lies in the writer's memory and is valid until the next call of any method.
func (c *Core) NextGather(now int64, buf []byte) (n int, body []byte) {
	c.requester.gathering, c.requester.gatheredBody = true, nil
	n = c.Next(now, buf)
	body = c.requester.gatheredBody
	c.requester.gathering, c.requester.gatheredBody = false, nil
	return n, body
}

// buildDatagram builds the next datagram. It passes one that is too long for the path to the fragmenter and returns 0.
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

// build builds the next datagram, not in fragments, and returns its record; an ack has none.
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

// NextAck builds an ack into buf if one is due, and nothing else, for a receiver that cannot wait for the pump to send.
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

// begin begins a new datagram of a space, with an ack in front if that leaves space for a frame of next bytes.
func (c *Core) begin(space, next int, buf []byte) (int, *sentDatagram) {
	r := c.recovery.send[space].newRecord()
	putHeader(buf, header{kind: uint8(space), view: c.cfg.View, seq: r.seq})
	return headerSize + c.acks.putFrame(buf[headerSize:], c.recovery.path.currentSize-headerSize-next), r
}

// buildRequests fills a datagram with chunks. The caller has made the first one ready by cutNext.
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

// rebuild sends a datagram again under its own number, with those frames that still matter. It may have none left: its
// number must arrive all the same, so that its credit comes back.
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
		buf[1] |= flagImmediateAck // the lost datagram has kept others waiting
	}
	c.recovery.onSent(r, now)
	c.notices.stats.DatagramsResent++
	return n
}

// scheduleTailCopy has a datagram sent a second time after all that is due, if the path loses datagrams and this is the
// last of a burst. A dmove gets no copy: its writer accepts its loss.
func (c *Core) scheduleTailCopy(space int, r *sentDatagram) {
	more := space == spaceRequests && c.requester.mayCut() || space == spaceResponses && c.hasResponses()
	c.recovery.tailCopies[space] = tailCopy{}
	if c.recovery.loss.isLossy() && !r.fragmented && !more && !r.hasDmove {
		c.recovery.tailCopies[space] = tailCopy{r, r.seq}
	}
}

// buildTailCopy builds a copy that is due, or returns 0. Copy and original count as one transmission: the ack of either
// may measure the round trip.
func (c *Core) buildTailCopy(now int64, buf []byte) int {
	space, r := c.recovery.nextTailCopy()
	if r == nil {
		return 0
	}
	repeated := r.repeated
	n := c.rebuild(space, r, now, buf)
	r.repeated = repeated
	buf[1] &^= flagImmediateAck // the sender does not wait for the copy's ack
	return n
}

// Receive takes one datagram from the carrier. If the datagram does not parse or breaks the protocol, Receive returns
// an error and ignores the rest of it; the link goes on. Call EndBatch after the last datagram of a batch.
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

// drop counts a datagram that has no effect, by the verdict on its number.
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

// receiveNumbered takes a datagram of one of the packet number spaces.
func (c *Core) receiveNumbered(h *header, d []byte) error {
	c.acks.onReceived(h)
	if v := c.acks.recv[h.kind].accept(h.seq); v != fresh {
		if v == duplicate {
			c.responder.countDuplicates(d)
			// Either the sender has not got the ack, or this is a tail copy, for whose ack no sender waits.
			c.acks.due = c.acks.due || !c.cfg.PiggybackAcks || h.immediateAck
		}
		return c.drop(v)
	}
	// a datagram takes effect when it arrives for the first time
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
		return c.malformed(headerSize, "the fragments make a datagram of another number, view or space")
	}
	inner.immediateAck = inner.immediateAck || h.immediateAck
	return c.receiveNumbered(&inner, datagram)
}

func (c *Core) handleFrame(space uint8, b []byte) (int, string) {
	switch {
	case b[0] == frameAck:
		switch { // an ack with frames behind it has no bitmaps
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

// receiveAck applies an ack and frees what it confirms. It returns the offset of what it does not understand, or -1.
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

// Reserve returns where the n bytes behind a head of BulkHeaderSize bytes belong, or nil if the carrier must use a
// buffer of its own. A place that is not nil stays pinned until the caller calls Commit or Abort.
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

// Abort says that the reserved datagram is not authentic.
func (c *Core) Abort() { c.responder.abort() }

// Commit says that the reserved datagram is authentic and its body in place.
func (c *Core) Commit(now int64) {
	c.notices.stats.DatagramsReceived++
	c.receiveTime = now
	c.acks.onReceived(&c.reserved)
	c.acks.recv[spaceRequests].accept(c.reserved.seq)
	c.responder.commit()
}

// EndBatch says that no more datagrams are at hand, so an ack of the batch falls due, at once or soon.
func (c *Core) EndBatch() { c.acks.endBatch(c.receiveTime) }

// Deadline is when the owner must next call Tick, ns on the owner's clock, or 0 for never.
func (c *Core) Deadline() int64 {
	d := c.recovery.deadline()
	if c.acks.deadline != 0 && (d == 0 || c.acks.deadline < d) {
		return c.acks.deadline
	}
	return d
}

// SilentFor is for how long no ack has confirmed any outstanding datagram, ns.
func (c *Core) SilentFor(now int64) int64 {
	if c.recovery.inFlight() == 0 {
		return 0
	}
	return now - c.recovery.silentSince
}

// Tick repairs by time. Datagrams may be due after it; call Next.
func (c *Core) Tick(now int64) {
	c.acks.tick(now)
	c.recovery.tick(now)
}
