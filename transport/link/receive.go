package link

import (
	"encoding/binary"

	"ringlet/shmem"
)

// Receive takes one datagram from the carrier. It returns an error, and uses nothing more of the datagram, when that
// does not parse or breaks the protocol; the link goes on. Call EndBatch after the last datagram that is at hand.
func (c *Core) Receive(now int64, d []byte) error {
	c.stats.DatagramsReceived++
	c.receiveTime = now
	h, err := parseHeader(d)
	if err != nil {
		c.stats.DatagramsMalformed++
		return err
	}
	if h.view != c.cfg.View {
		c.stats.DatagramsStale++
		return nil
	}
	if h.kind == kindAck {
		return c.receiveAck(now, d[headerSize:], headerSize)
	}
	if h.kind == kindFragment {
		return c.receiveFragment(&h, d)
	}
	return c.receiveNumbered(&h, d)
}

// receiveNumbered takes a datagram of one of the spaces.
func (c *Core) receiveNumbered(h *header, d []byte) error {
	c.countReceived(h)
	switch c.recv[h.kind].accept(h.seq) {
	case duplicate:
		c.stats.DatagramsDuplicate++
		c.recv[h.kind].duplicates++
		c.countDuplicates(d)
		// The sender has not heard that it arrived; or it is a copy, which nobody waits for.
		if !c.cfg.PiggybackAcks || h.immediateAck {
			c.ackDue = true
		}
		return nil
	case beyondCredit:
		c.stats.DatagramsBeyondCredit++
		return malformedError(4, "numbered beyond the credit")
	}
	c.reassemblers[h.kind].discard(h.seq)
	return c.handleFrames(h.kind, d)
}

// countReceived notes a datagram that is to be acked.
func (c *Core) countReceived(h *header) {
	c.sinceLastAck[h.kind]++
	if h.immediateAck || c.sinceLastAck[spaceRequests] >= c.cfg.AckEvery ||
		c.sinceLastAck[spaceResponses] >= ResponseCredit/2 {
		c.ackDue = true
	}
}

// maxAckDelay is how long an ack that nobody waits for may wait for something to travel with: well below the peer's
// minProbeDelay.
const maxAckDelay = millisecond

// EndBatch tells that no more datagrams are at hand, so what arrived should be acked now; or soon, if the carrier
// counts packets, the sender does not wait and nothing is missing.
func (c *Core) EndBatch() {
	switch {
	case c.sinceLastAck == [numSpaces]int{}:
	case !c.cfg.PiggybackAcks, c.recv[spaceRequests].hasUnreportedGap(), c.recv[spaceResponses].hasUnreportedGap():
		c.ackDue = true
	case c.ackDeadline == 0:
		c.ackDeadline = c.receiveTime + maxAckDelay
	}
}

// handleFrames takes the frames of a datagram that has arrived for the first time.
func (c *Core) handleFrames(space uint8, d []byte) error {
	for off := headerSize; off < len(d) && d[off] != framePad; {
		n, why := c.handleFrame(space, d[off:])
		if why != "" {
			c.stats.DatagramsMalformed++
			return malformedError(off, why)
		}
		off += n
	}
	return nil
}

func (c *Core) handleFrame(space uint8, b []byte) (int, string) {
	if b[0] == frameAck {
		return c.handleAckFrame(b)
	}
	if b[0] == frameWrite || b[0] == frameScatter {
		if space != spaceRequests {
			return 0, "a write among the responses"
		}
		if b[0] == frameScatter {
			return c.placeScatter(b)
		}
		var f writeFrame
		n, why := parseWrite(b, c.chunkSize, &f)
		if why == "" {
			why = c.placeChunk(&f)
		}
		return n, why
	}
	if space != spaceResponses {
		return 0, "a response among the requests"
	}
	if len(b) < signalHeader {
		return 0, "a response is cut off"
	}
	id := binary.LittleEndian.Uint32(b[4:])
	switch b[0] {
	case frameSignal:
		n := signalHeader + int(binary.LittleEndian.Uint16(b[2:]))
		if n > len(b) || n > signalHeader+MaxSignal {
			return 0, "a signal is cut off or too long"
		}
		return n, c.onSignal(id, b[signalHeader:n])
	case frameDone:
		return doneSize, c.onResponse(id, 0)
	case frameRefused:
		if b[1] == 0 {
			return 0, "a refusal without a reason"
		}
		return refusedSize, c.onResponse(id, Reason(b[1]))
	}
	return 0, "unknown type of frame"
}

// placeChunk puts one chunk where it belongs, if the export table allows it. It says why when the peer breaks the
// protocol.
func (c *Core) placeChunk(f *writeFrame) string {
	t := &c.inTransactions[f.tx%maxTransactions]
	if !t.inUse || t.id != f.tx {
		if t.inUse && int32(f.tx-t.id) < 0 {
			c.stats.ChunksLate++
			return ""
		}
		if c.responsesWaiting() >= maxTransactions {
			// An id is used again only after its answer has arrived, so a peer that keeps the rules cannot get here.
			return "a write while every transaction id waits for an answer"
		}
		*t = inTransaction{
			id:           f.tx,
			inUse:        true,
			totalBytes:   f.transactionSize,
			windowOffset: f.transactionOffset,
			ref:          shmem.Ref{Window: f.window, Gen: f.gen},
			dmove:        f.flags&flagDmove != 0,
		}
	}
	switch {
	case t.state == txPlaced || t.totalBytes != f.transactionSize || t.isPlaced(f.chunk):
		c.stats.ChunksLate++
		return ""
	case t.state == txRefused:
		c.stats.ChunksRefused++
		return ""
	}
	access := shmem.AccessNwrite
	if f.flags&flagDmove != 0 {
		access = shmem.AccessDmove
	}
	ref := shmem.Ref{Window: f.window, Gen: f.gen}
	dst, v := c.cfg.Table.Acquire(c.cfg.Peer, ref, f.transactionOffset+uint32(f.chunk)*uint32(c.chunkSize),
		uint32(len(f.data)), access)
	if v != 0 {
		c.refuse(t, f, Reason(v))
		return ""
	}
	copy(dst, f.data)
	c.cfg.Table.AddWritten(ref, uint32(len(f.data)))
	c.cfg.Table.Release(ref)
	c.onChunkPlaced(t, f, uint32(len(f.data)))
	return ""
}

// onChunkPlaced notes that a chunk of n bytes is in its place.
func (c *Core) onChunkPlaced(t *inTransaction, f *writeFrame, n uint32) {
	c.stats.ChunksPlaced++
	c.stats.BytesPlaced += uint64(n)
	t.markPlaced(f.chunk)
	t.placedCount++
	if int(t.placedCount) < chunkCount(int(f.transactionSize), c.chunkSize) {
		return
	}
	t.state = txPlaced
	c.emit(Event{
		Kind:   EventPlaced,
		Ref:    t.ref,
		Offset: f.transactionOffset,
		Length: f.transactionSize,
		Imm:    f.imm,
	})
	if !t.dmove {
		c.queueResponse(response{kind: frameDone, tx: f.tx})
	}
}

func (c *Core) refuse(t *inTransaction, f *writeFrame, why Reason) {
	t.state = txRefused
	c.stats.ChunksRefused++
	c.emit(Event{
		Kind:   EventRefused,
		Reason: why,
		Ref:    shmem.Ref{Window: f.window, Gen: f.gen},
		Offset: f.transactionOffset,
		Length: f.transactionSize,
		Imm:    f.imm,
	})
	if f.flags&flagDmove == 0 {
		c.queueResponse(response{kind: frameRefused, reason: why, tx: f.tx})
	}
}

// onResponse takes the response to one of our transactions. There is one response to a transaction and it arrives once,
// so one that fits none breaks the protocol.
func (c *Core) onResponse(id uint32, why Reason) string {
	i := id % maxTransactions
	t := &c.outTransactions[i]
	switch {
	case !t.inUse || t.id != id:
		return "a response to a transaction that is not open"
	case t.dmove:
		return "a response to a dmove"
	case why == 0 && t.nextChunk != t.chunks:
		return "a completion of a transaction that is not sent"
	}
	c.closeTransaction(i, why)
	return ""
}

// onSignal takes a signal, keeps it if an earlier one is missing, and delivers what is in order.
func (c *Core) onSignal(seq uint32, p []byte) string {
	ahead := int32(seq - c.sigExpect)
	if ahead < 0 {
		c.stats.SignalsDuplicate++
		return ""
	}
	if ahead >= maxUnackedSignals {
		return "a signal is numbered too far ahead"
	}
	if ahead > 0 {
		s := &c.sigIn[seq%maxUnackedSignals]
		s.data, s.occupied = append(s.data[:0], p...), true
		return ""
	}
	c.deliverSignal(p)
	for s := &c.sigIn[c.sigExpect%maxUnackedSignals]; s.occupied; s = &c.sigIn[c.sigExpect%maxUnackedSignals] {
		s.occupied = false
		c.deliverSignal(s.data)
	}
	return ""
}

func (c *Core) deliverSignal(p []byte) {
	c.sigExpect++
	c.stats.SignalsReceived++
	c.emit(Event{Kind: EventSignal, Data: p})
}

// countDuplicates counts the chunks of a datagram that arrived again.
func (c *Core) countDuplicates(d []byte) {
	var f writeFrame
	for off := headerSize; off < len(d); {
		n, why := 0, ""
		switch d[off] {
		case frameAck:
			off += ackFrameSize
			continue
		case frameWrite:
			n, why = parseWrite(d[off:], c.chunkSize, &f)
		case frameScatter:
			n = scatterSize(d[off:])
		}
		if n == 0 || why != "" {
			return
		}
		c.stats.ChunksDuplicate++
		off += n
	}
}

// handleAckFrame takes an ack that travels with other frames. Such a one tells of no holes.
func (c *Core) handleAckFrame(b []byte) (int, string) {
	if len(b) < ackFrameSize {
		return 0, "an ack is cut off"
	}
	if err := c.receiveAck(c.receiveTime, b[ackFrameHeader:ackFrameSize], ackFrameHeader); err != nil {
		c.stats.DatagramsMalformed-- // it is counted with the datagram
		return 0, "an ack has holes, or speaks of datagrams never sent"
	}
	return ackFrameSize, ""
}

// receiveAck learns what arrived, gives back what that frees, and finds what was lost. The ack's spaces stand at
// offset at.
func (c *Core) receiveAck(now int64, b []byte, at int) error {
	c.stats.AcksReceived++
	size := len(b)
	c.rttSample = rttSample{}
	before, newestAdvanced := c.send[0].inFlight+c.send[1].inFlight, false
	for l := range c.send {
		// An ack that follows a repetition sooner than any round trip tells of an earlier transmission (RFC 8985
		// §6.2); where round trips were longer than the waits, sooner than one waits now.
		was, newest := c.send[l].inFlight, c.send[l].newestAcked
		c.send[l].latestAckable, c.send[l].recentSpurious = now-c.rtt.min, c.loss.spuriousBackoff > 0
		if c.loss.spuriousBackoff > 0 {
			c.send[l].latestAckable = now - c.pto()
		}
		next, limit, bitmap, rest, ok := parseSpaceAck(b)
		if !ok || !c.send[l].applyAck(next, limit, bitmap, c.onAck[l]) {
			c.stats.DatagramsMalformed++
			return malformedError(at+size-len(b), "an ack is cut off, or speaks of datagrams never sent")
		}
		c.loss.onDuplicates(l, parseDuplicates(b))
		b = rest
		if c.send[l].inFlight < was {
			c.send[l].lastProgress = now
		}
		newestAdvanced = newestAdvanced || c.send[l].newestAcked > newest
		lost := 0
		if threshold := c.reorderThreshold(); len(bitmap) > 0 || c.send[l].isOldestOvertaken(threshold) {
			lost = c.send[l].repairGaps(threshold)
		}
		if l == spaceRequests {
			c.congestion.onAck(was-c.send[l].inFlight, lost, c.send[l].newestAcked, c.transmissions)
		}
	}
	c.checkPathMTU(now)
	c.detectTailLoss(now)
	if c.send[0].inFlight+c.send[1].inFlight < before {
		c.lastProgress, c.silentSince, c.loss.quickProbes = now, now, 0
		if c.ambiguousAcks = !newestAdvanced; newestAdvanced {
			c.backoff = 0
		}
		c.backoff = min(c.backoff, 1) // not a probe again, then: it would tell as little
	}
	if c.rttSample.transmission != 0 && !c.rttSample.repeated {
		c.rtt.addSample(now - c.rttSample.sentAt)
	}
	return nil
}

// detectTailLoss repairs the end of a space that is silent while the other is not: as long as one is heard of, there is
// no silence that would. What is on its way may be long behind what was sent later on the other space, so time
// decides, not order.
func (c *Core) detectTailLoss(now int64) {
	before := now - max(minTimeout, c.pto())
	if c.loss.isLossy() {
		before = now - min(max(quickTailLossDelay<<c.loss.spuriousBackoff, 4*c.rtt.smoothed), now-before)
	}
	for l := range c.send {
		s := &c.send[l]
		if r := &s.records[s.oldestLive&s.mask]; s.inFlight > 0 && s.lastProgress <= before && r.outstanding &&
			!r.repairQueued && r.sentAt <= before {
			s.repairOverdue(before, maxTimeoutRepairs)
			s.fragmentNext = true
		}
	}
}

// onRequestAcked and onResponseAcked free what a datagram that arrived was kept for.
func (c *Core) onRequestAcked(r *sentDatagram) {
	c.noteAcked(r)
	for _, it := range r.frames {
		if t := &c.outTransactions[it.id%maxTransactions]; t.inUse && t.id == it.id && t.dmove {
			c.retireDmoveChunk(it.id % maxTransactions)
		}
	}
}

func (c *Core) onResponseAcked(r *sentDatagram) {
	c.noteAcked(r)
	for _, it := range r.frames {
		if it.kind == frameSignal {
			c.signalSlot(it.id).occupied = false
		}
	}
	for c.sigLow != c.sigSend && !c.signalSlot(c.sigLow).occupied {
		c.sigLow++
	}
}

// rttSample is the newest transmission that an ack tells of for the first time.
type rttSample struct {
	transmission uint64
	sentAt       int64
	repeated     bool
}

// noteAcked notes a record that an ack tells of, and what it says of the path. Only the newest one makes a round trip:
// what was sent before it may have waited for an ack that was lost (RFC 9002 §5.1). One that was repeated makes
// none, since nobody knows which transmission was acked (Karn).
func (c *Core) noteAcked(r *sentDatagram) {
	c.loss.onArrival(int(r.timesSent))
	if c.path.onArrival(int(r.size), r.fragmented, r.transmission) {
		c.stats.PathMTUGrown++
	}
	if r.transmission > c.rttSample.transmission {
		c.rttSample = rttSample{transmission: r.transmission, sentAt: r.sentAt, repeated: r.repeated}
	}
}
