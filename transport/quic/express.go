package quic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/transport"
	"ringlet/transport/express"
	"ringlet/transport/link"
)

// expressConn is a connection whose datagrams go past quic-go: in packets of QUIC that package express seals with keys
// of the TLS session, on the same socket, to connection IDs of their own. quic-go's connection says who the peer is,
// whether it lives, and when it is over.
type expressConn struct {
	// immutable once the upgrade is over
	*conn
	recvSessionID uint64 // the connection ID of packets that come
	packetSize    int    // bytes of a full packet
	credit        int
	receiver      atomic.Pointer[transport.Receiver]
	damage        *transport.Damager // nil: none

	// owned by who opens the session's packets: the socket's reader, or serve
	opener  atomic.Pointer[express.Opener] // set once, by the upgrade
	idleDue bool
	inbox   inbox

	// owned by who holds the link's sending
	sealer *express.Sealer
	sender *sender

	// of the upgrade
	probeNonce   [express.ProbeData]byte // what probes say, and answers must repeat
	probeAnswers chan int                // sizes that the peer says have arrived
	upgradeMu    sync.Mutex
	probing      bool // guarded by upgradeMu: the sender is the upgrade's
}

func (c *expressConn) MaxDatagram() int { return c.packetSize - express.Overhead }

// creditBytes is how much a link may have in flight: a few reads' worth, and small enough to stay in the processor's
// cache.
const creditBytes = 1 << 20

// Sizes are what suits the size of packets.
func (c *expressConn) Sizes() transport.Sizes {
	return transport.Sizes{BaseDatagram: minPacketSize - express.Overhead, Credit: c.credit,
		SeqWindow: link.SeqWindowFor(c.credit)}
}

// creditFor is the credit for packets of the given size. All that a link has in flight, in parts and sent again, is
// well within the replay window.
func creditFor(size int) int { return min(2000, max(16, creditBytes/size)) }

// Send seals one datagram and sends it.
func (c *expressConn) Send([]byte) error {
	return errors.New("a connection of the carrier quic sends by Put and Flush")
}

// Recv waits until the connection is over and says why.
func (c *expressConn) Recv([][]byte) (int, error) {
	<-c.qc.Context().Done()
	return 0, translateError(context.Cause(c.qc.Context()))
}

func (c *expressConn) Start(r transport.Receiver) { c.receiver.Store(&r) }

func (c *expressConn) Close(reason string) error {
	c.net.sessions.byNumber[c.recvSessionID%maxSessions].CompareAndSwap(c, nil)
	return c.conn.Close(reason)
}

// receive opens the packets of one read.
func (c *expressConn) receive(r *receiveScratch, packets []byte, segment int) {
	r.used, r.authentic = 0, false
	var to transport.Receiver
	if started := c.receiver.Load(); started != nil && (*started).BeginRead() {
		to = *started
	}
	for len(packets) > 0 {
		p := packets[:min(segment, len(packets))]
		packets = packets[len(p):]
		c.receivePacket(r, to, p)
	}
	if r.authentic {
		c.bulkReads.Add(1)
	}
	if to != nil {
		to.EndRead()
	}
}

// notifyIdle tells the link that nothing more is at hand.
func (c *expressConn) notifyIdle() {
	if to := c.receiver.Load(); to != nil {
		(*to).Idle()
	}
}

// receivePacket takes one packet of this session.
func (c *expressConn) receivePacket(r *receiveScratch, to transport.Receiver, p []byte) {
	count := &c.net.sessions.stats
	opener := c.opener.Load()
	if opener == nil {
		increment(&count.LinkNotUp)
		return
	}
	if c.damage != nil && to != nil {
		c.damage.DamagePacket(p, express.NumberOffset, express.HeaderSize)
	}
	if v := opener.Inspect(p); v != express.Fresh {
		c.countRefused(v)
		return
	}
	if to == nil {
		c.receiveBeforeStart(r, opener, p)
		return
	}
	if first, rest := opener.Peek(); first != nil {
		if dst := to.Reserve(first[:link.BulkHeaderSize], len(first)-link.BulkHeaderSize+rest); dst != nil {
			at := len(first) - link.BulkHeaderSize
			if v := opener.OpenRest(dst[at:]); v != express.Fresh {
				to.Abort()
				c.countRefused(v)
				return
			}
			copy(dst, first[link.BulkHeaderSize:])
			r.authentic = true
			to.Commit()
			return
		}
	}
	switch kind, d, v := opener.Open(r.alloc(express.PlainSize(p))); {
	case v != express.Fresh:
		c.countRefused(v)
	case kind != express.Datagram:
		r.authentic = true
		increment(&count.Probes) // too late to mean anything
	default:
		r.authentic = true
		to.Receive(d)
	}
}

// countRefused counts a packet that is not used.
func (c *expressConn) countRefused(v express.Verdict) {
	count := &c.net.sessions.stats
	switch v {
	case express.Replayed:
		increment(&count.Replayed)
	case express.UnknownKey:
		increment(&count.UnknownKey)
	case express.Malformed:
		increment(&count.Malformed)
	default:
		increment(&count.Forged)
	}
}

// receiveBeforeStart takes a packet of a link that is not up: probes, and their answers.
func (c *expressConn) receiveBeforeStart(r *receiveScratch, opener *express.Opener, p []byte) {
	count := &c.net.sessions.stats
	c.upgradeMu.Lock()
	defer c.upgradeMu.Unlock()
	if !c.probing {
		increment(&count.LinkNotUp)
		return
	}
	kind, data, v := opener.Open(r.alloc(express.PlainSize(p)))
	switch {
	case v != express.Fresh:
		c.countRefused(v)
		return
	case kind == express.Datagram:
		increment(&count.LinkNotUp)
		return
	}
	if kind == express.ProbeAnswer && [express.ProbeData]byte(data) != c.probeNonce {
		increment(&count.Malformed)
		return
	}
	increment(&count.Probes)
	if kind == express.Probe {
		// An answer that cannot be sent is a probe that is not answered.
		_ = c.probe(express.ProbeAnswer, len(p), data[:express.ProbeData])
		return
	}
	select {
	case c.probeAnswers <- len(p):
	default: // the upgrade has enough
	}
}

// Append seals a datagram into the batch.
func (c *expressConn) Append(buf []byte, n int, body []byte) (bool, error) {
	o := c.sender
	head := buf[:n]
	urgent := link.IsUrgent(head)
	if body == nil {
		// Small datagrams are brought to one size, so that they leave and arrive together.
		head = buf[:max(n, min(smallDatagram, c.MaxDatagram()))]
		clear(head[n:])
	}
	need := len(head) + len(body) + express.Overhead
	if o.n > 0 && need > o.segment {
		if err := c.Flush(); err != nil {
			return false, err
		}
	}
	m, err := c.sealer.Seal(o.buf[o.n:], express.Datagram, head, body)
	if err != nil {
		return false, err
	}
	if o.n == 0 {
		o.segment, o.batchUrgent = m, urgent
	}
	o.batchUrgent = o.batchUrgent && urgent
	o.n += m
	o.batchPackets++
	return m < o.segment || o.n+o.segment > maxGSO || o.batchPackets == maxSegments, nil
}

// smallDatagram holds an answer or two, or an ack without many holes.
const smallDatagram = 96

// Flush sends the batch.
func (c *expressConn) Flush() error {
	err := c.sender.flush()
	if err != nil {
		return fmt.Errorf("sending to %s: %w", c.name, err)
	}
	return nil
}

// probe sends one packet of the given size.
func (c *expressConn) probe(kind express.Kind, size int, data []byte) error {
	n, err := c.sealer.Seal(c.sender.buf, kind, data, zeros[:size-express.Overhead-len(data)])
	if err != nil {
		return err
	}
	c.sender.n, c.sender.segment, c.sender.batchPackets, c.sender.batchUrgent = n, n, 1, false
	return c.sender.flush()
}

// endProbing gives the sender to the link.
func (c *expressConn) endProbing() {
	c.upgradeMu.Lock()
	defer c.upgradeMu.Unlock()
	c.probing = false
}

// probeWait is how long an answer to a probe is waited for before the next try; from try to try it doubles,
// maxProbeDoublings times: where 32 nodes connect over ports of 20 Mbit/s, the probes of one try take 300 ms to pass.
const (
	probeWait         = 30 * time.Millisecond
	maxProbeDoublings = 5
)

func (c *expressConn) sendProbe(size int) error {
	c.upgradeMu.Lock()
	defer c.upgradeMu.Unlock()
	return c.probe(express.Probe, size, c.probeNonce[:])
}

// probePacketSize finds the largest of the given sizes, in falling order, that the path to the peer and back carries.
// send sends a probe; over is the connection's.
func (c *expressConn) probePacketSize(ctx, over context.Context, sizes []int, send func(size int) error) (int, error) {
	got := 0
	var unsent error // why nothing left this host in the last try
	for try := range probeTries {
		best := 0
		for _, s := range sizes {
			if s <= got {
				continue
			}
			if err := send(s); err != nil {
				unsent = err
			} else if best == 0 {
				best = s // the largest that leaves this host
			}
		}
		if best > 0 {
			unsent = nil
		}
		// When nothing leaves, an answer to an earlier try, or better luck, is waited for as long.
		if err := c.awaitAnswers(ctx, over, probeWait<<min(try, maxProbeDoublings), &got, max(1, best), sizes); err != nil {
			return 0, err
		}
		if got > 0 && (got >= best || try >= confirmTries) {
			return got, nil
		}
	}
	if unsent != nil {
		return 0, fmt.Errorf("no packet of %v bytes can be sent to %s: %w", sizes, c.name, unsent)
	}
	return 0, fmt.Errorf(
		"no packet of %v bytes came back from %s, which answers other packets of QUIC: something between the hosts "+
			"drops packets by their connection ID", sizes, c.name)
}

// awaitAnswers waits for answers to probes until that of the best size is here, or for a time; got becomes the largest
// that came. What was not tried is no answer.
func (c *expressConn) awaitAnswers(ctx, over context.Context, wait time.Duration, got *int, best int,
	sizes []int) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for *got < best {
		select {
		case s := <-c.probeAnswers:
			if slices.Contains(sizes, s) {
				*got = max(*got, s)
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-over.Done():
			return context.Cause(over)
		}
	}
	return nil
}

// zeros is what probes hold.
var zeros [1 << 16]byte

// probeTries is how often all sizes are tried: losing one of each in 10 tries, on a network that loses half of all, is
// unlikely.
const probeTries = 10

// confirmTries is how often larger sizes are tried again when a smaller one has come through: while many links connect,
// a queue that has room for a small packet drops a large one, and the path would be taken for one of small packets as
// long as the link lives.
const confirmTries = 3
