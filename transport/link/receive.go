package link

import (
	"encoding/binary"

	"ringlet/shmem"
)

// Receive takes one datagram from the carrier. It returns an error, and uses nothing more of the datagram, when that
// does not parse or breaks the protocol; the link goes on. Call EndBatch after the last datagram that is at hand.
func (c *Core) Receive(now int64, d []byte) error {
	c.stats.DatagramsReceived++
	c.now = now
	h, err := parseHeader(d)
	if err != nil {
		c.stats.DatagramsMalformed++
		return err
	}
	if h.view != c.cfg.View {
		c.stats.DatagramsStale++
		return nil
	}
	if h.kind == kindEcho {
		return c.receiveEcho(now, d[headerSize:], headerSize)
	}
	if h.kind == kindPart {
		return c.receivePart(&h, d)
	}
	return c.numbered(&h, d)
}

// numbered takes a datagram of one of the lanes.
func (c *Core) numbered(h *header, d []byte) error {
	c.count(h)
	switch c.recv[h.kind].accept(h.seq) {
	case duplicate:
		c.stats.DatagramsDuplicate++
		c.recv[h.kind].doubled++
		c.countDuplicates(d)
		// The sender has not heard that it arrived; or it is a copy, which nobody waits for.
		if !c.cfg.Piggyback || h.waits {
			c.echoDue = true
		}
		return nil
	case beyond:
		c.stats.DatagramsBeyond++
		return malformed(4, "numbered beyond the credit")
	}
	c.joins[h.kind].forget(h.seq)
	return c.frames(h.kind, d)
}

// count notes a datagram that is to be echoed.
func (c *Core) count(h *header) {
	c.unechoed[h.kind]++
	if h.waits || c.unechoed[laneRequests] >= c.cfg.EchoEvery || c.unechoed[laneResponses] >= ResponseCredit/2 {
		c.echoDue = true
	}
}

// lazyEcho is how long an echo that nobody waits for may wait for something to travel with: well below the peer's
// minProbe.
const lazyEcho = millisecond

// EndBatch tells that no more datagrams are at hand, so what arrived should be echoed now; or soon, if the carrier
// counts packets, the sender does not wait and nothing is missing.
func (c *Core) EndBatch() {
	switch {
	case c.unechoed == [lanes]int{}:
	case !c.cfg.Piggyback, c.recv[laneRequests].missed(), c.recv[laneResponses].missed():
		c.echoDue = true
	case c.lazy == 0:
		c.lazy = c.now + lazyEcho
	}
}

// frames takes the frames of a datagram that has arrived for the first time.
func (c *Core) frames(lane uint8, d []byte) error {
	for off := headerSize; off < len(d) && d[off] != framePad; {
		n, why := c.frame(lane, d[off:])
		if why != "" {
			c.stats.DatagramsMalformed++
			return malformed(off, why)
		}
		off += n
	}
	return nil
}

func (c *Core) frame(lane uint8, b []byte) (int, string) {
	if b[0] == frameEcho {
		return c.echoFrame(b)
	}
	if b[0] == frameWrite || b[0] == frameScatter {
		if lane != laneRequests {
			return 0, "a write among the responses"
		}
		if b[0] == frameScatter {
			return c.scatter(b)
		}
		var f writeFrame
		n, why := parseWrite(b, c.unit, &f)
		if why == "" {
			why = c.place(&f)
		}
		return n, why
	}
	if lane != laneResponses {
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
		return n, c.signalled(id, b[signalHeader:n])
	case frameDone:
		return doneSize, c.answered(id, 0)
	case frameRefused:
		if b[1] == 0 {
			return 0, "a refusal without a reason"
		}
		return refusedSize, c.answered(id, Reason(b[1]))
	}
	return 0, "unknown type of frame"
}

// place puts one chunk where it belongs, if the export table allows it. It says why when the peer breaks the
// protocol.
func (c *Core) place(f *writeFrame) string {
	t := &c.in[f.tx%maxTx]
	if !t.used || t.id != f.tx {
		if t.used && int32(f.tx-t.id) < 0 {
			c.stats.ChunksLate++
			return ""
		}
		if c.responsesWaiting() >= maxTx {
			// An id is used again only after its answer has arrived, so a peer that keeps the rules cannot get here.
			return "a write while every transaction id waits for an answer"
		}
		*t = inTx{
			id:    f.tx,
			used:  true,
			total: f.total,
			base:  f.base,
			ref:   shmem.Ref{Window: f.window, Gen: f.gen},
			dmove: f.flags&flagDmove != 0,
		}
	}
	switch {
	case t.state == txPlaced || t.total != f.total || t.has(f.chunk):
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
	dst, v := c.cfg.Table.Acquire(c.cfg.Peer, ref, f.base+uint32(f.chunk)*uint32(c.unit), uint32(len(f.data)), access)
	if v != 0 {
		c.refuse(t, f, Reason(v))
		return ""
	}
	copy(dst, f.data)
	c.cfg.Table.AddWritten(ref, uint32(len(f.data)))
	c.cfg.Table.Release(ref)
	c.landed(t, f, uint32(len(f.data)))
	return ""
}

// landed notes that a chunk of n bytes is in its place.
func (c *Core) landed(t *inTx, f *writeFrame, n uint32) {
	c.stats.ChunksPlaced++
	c.stats.BytesPlaced += uint64(n)
	t.mark(f.chunk)
	t.got++
	if int(t.got) < chunksOf(int(f.total), c.unit) {
		return
	}
	t.state = txPlaced
	c.event(Event{
		Kind:   Placed,
		Ref:    t.ref,
		Offset: f.base,
		Length: f.total,
		Imm:    f.imm,
	})
	if !t.dmove {
		c.respond(response{kind: frameDone, tx: f.tx})
	}
}

func (c *Core) refuse(t *inTx, f *writeFrame, why Reason) {
	t.state = txRefused
	c.stats.ChunksRefused++
	c.event(Event{
		Kind:   Refused,
		Reason: why,
		Ref:    shmem.Ref{Window: f.window, Gen: f.gen},
		Offset: f.base,
		Length: f.total,
		Imm:    f.imm,
	})
	if f.flags&flagDmove == 0 {
		c.respond(response{kind: frameRefused, reason: why, tx: f.tx})
	}
}

// answered takes the response to one of our transactions. There is one response to a transaction and it arrives once,
// so one that fits none breaks the protocol.
func (c *Core) answered(id uint32, why Reason) string {
	i := id % maxTx
	t := &c.tx[i]
	switch {
	case !t.live || t.id != id:
		return "a response to a transaction that is not open"
	case t.dmove:
		return "a response to a dmove"
	case why == 0 && t.next != t.chunks:
		return "a completion of a transaction that is not sent"
	}
	c.close(i, why)
	return ""
}

// signalled takes a signal, keeps it if an earlier one is missing, and delivers what is in order.
func (c *Core) signalled(seq uint32, p []byte) string {
	ahead := int32(seq - c.sigExpect)
	if ahead < 0 {
		c.stats.SignalsDuplicate++
		return ""
	}
	if ahead >= sigRing {
		return "a signal is numbered too far ahead"
	}
	if ahead > 0 {
		s := &c.sigIn[seq%sigRing]
		s.data, s.have = append(s.data[:0], p...), true
		return ""
	}
	c.deliver(p)
	for s := &c.sigIn[c.sigExpect%sigRing]; s.have; s = &c.sigIn[c.sigExpect%sigRing] {
		s.have = false
		c.deliver(s.data)
	}
	return ""
}

func (c *Core) deliver(p []byte) {
	c.sigExpect++
	c.stats.SignalsReceived++
	c.event(Event{Kind: Signalled, Data: p})
}

// countDuplicates counts the chunks of a datagram that arrived again.
func (c *Core) countDuplicates(d []byte) {
	var f writeFrame
	for off := headerSize; off < len(d); {
		n, why := 0, ""
		switch d[off] {
		case frameEcho:
			off += echoFrameSize
			continue
		case frameWrite:
			n, why = parseWrite(d[off:], c.unit, &f)
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

// echoFrame takes an echo that travels with other frames. Such a one tells of no holes.
func (c *Core) echoFrame(b []byte) (int, string) {
	if len(b) < echoFrameSize {
		return 0, "an echo is cut off"
	}
	if err := c.receiveEcho(c.now, b[echoFrameHeader:echoFrameSize], echoFrameHeader); err != nil {
		c.stats.DatagramsMalformed-- // it is counted with the datagram
		return 0, "an echo has holes, or speaks of datagrams never sent"
	}
	return echoFrameSize, ""
}

// receiveEcho learns what arrived, gives back what that frees, and finds what was lost. The echo's lanes stand at
// offset at.
func (c *Core) receiveEcho(now int64, b []byte, at int) error {
	c.stats.EchoesReceived++
	whole := len(b)
	c.heard = heard{}
	before, believed := c.send[0].live+c.send[1].live, false
	for l := range c.send {
		// An echo that follows a repetition sooner than any round trip tells of an earlier transmission (RFC 8985
		// §6.2); where round trips were longer than the waits, sooner than one waits now.
		was, newest := c.send[l].live, c.send[l].newest
		c.send[l].believed, c.send[l].hasty = now-c.rtt.least, c.loss.hasty > 0
		if c.loss.hasty > 0 {
			c.send[l].believed = now - c.patience()
		}
		next, limit, bitmap, rest, ok := parseEchoLane(b)
		if !ok || !c.send[l].echo(next, limit, bitmap, c.onAck[l]) {
			c.stats.DatagramsMalformed++
			return malformed(at+whole-len(b), "an echo is cut off, or speaks of datagrams never sent")
		}
		c.loss.told(l, doubledIn(b))
		b = rest
		if c.send[l].live < was {
			c.send[l].progress = now
		}
		believed = believed || c.send[l].newest > newest
		lost := 0
		if tolerance := c.tolerance(); len(bitmap) > 0 || c.send[l].overtaken(tolerance) {
			lost = c.send[l].gaps(tolerance)
		}
		if l == laneRequests {
			c.jam.heard(was-c.send[l].live, lost, c.send[l].newest, c.stamp)
		}
	}
	c.weigh(now)
	c.overlooked(now)
	if c.send[0].live+c.send[1].live < before {
		c.progress, c.heardAt, c.loss.quick = now, now, 0
		if c.doubted = !believed; believed {
			c.backoff = 0
		}
		c.backoff = min(c.backoff, 1) // not a probe again, then: it would tell as little
	}
	if c.heard.stamp != 0 && !c.heard.repeated {
		c.rtt.sample(now - c.heard.at)
	}
	return nil
}

// overlooked repairs the end of a lane that is silent while the other is not: as long as one is heard of, there is
// no silence that would. What is on its way may be long behind what was sent later on the other lane, so time
// decides, not order.
func (c *Core) overlooked(now int64) {
	before := now - max(minTimeout, c.patience())
	if c.loss.lossy() {
		before = now - min(max(quickSilent<<c.loss.hasty, 4*c.rtt.smoothed), now-before)
	}
	for l := range c.send {
		s := &c.send[l]
		if r := &s.ring[s.low&s.mask]; s.live > 0 && s.progress <= before && r.live && !r.queued && r.at <= before {
			s.overdue(before, timeoutBurst)
			s.trial = true
		}
	}
}

// requestArrived and responseArrived free what a datagram that arrived was kept for.
func (c *Core) requestArrived(r *record) {
	c.hear(r)
	for _, it := range r.items {
		if t := &c.tx[it.id%maxTx]; t.live && t.id == it.id && t.dmove {
			c.settle(it.id % maxTx)
		}
	}
}

func (c *Core) responseArrived(r *record) {
	c.hear(r)
	for _, it := range r.items {
		if it.kind == frameSignal {
			c.signal(it.id).have = false
		}
	}
	for c.sigLow != c.sigSend && !c.signal(c.sigLow).have {
		c.sigLow++
	}
}

// heard is the newest transmission that an echo tells of for the first time.
type heard struct {
	stamp    uint64
	at       int64
	repeated bool
}

// hear notes a record that an echo tells of, and what it says of the path. Only the newest one makes a round trip:
// what was sent before it may have waited for an echo that was lost (RFC 9002 §5.1). One that was repeated makes
// none, since nobody knows which transmission was echoed (Karn).
func (c *Core) hear(r *record) {
	c.loss.arrived(int(r.sends))
	if c.path.arrived(int(r.size), r.parted, r.stamp) {
		c.stats.PathGrown++
	}
	if r.stamp > c.heard.stamp {
		c.heard = heard{stamp: r.stamp, at: r.at, repeated: r.repeated}
	}
}
