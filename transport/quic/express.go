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

// expressConn is a connection whose datagrams by-pass quic-go: package express encrypts them in packets of QUIC with
// keys from the TLS session, and they use the same socket with connection IDs of their own. quic-go's connection proves
// the peer's name, and its end is the end of the link.
type expressConn struct {
	// immutable once the upgrade is over
	*conn
	recvSessionID uint64 // the connection ID of arriving packets
	packetSize    int    // bytes of a full packet
	credit        int
	receiver      atomic.Pointer[transport.Receiver]
	damage        *transport.Damager // nil: no damage

	// owned by the goroutine that decrypts the session's packets: the socket's reader, or serve
	opener  atomic.Pointer[express.Opener] // set once, by the upgrade
	idleDue bool
	inbox   inbox

	// owned by the goroutine that sends for the link
	sealer *express.Sealer
	sender *sender

	// for the upgrade
	probeNonce   [express.ProbeData]byte // the data of probes, which answers must repeat
	probeAnswers chan int                // probe sizes that the peer has answered
	upgradeMu    sync.Mutex
	probing      bool // guarded by upgradeMu: the upgrade owns the sender
}

func (c *expressConn) MaxDatagram() int { return c.packetSize - express.Overhead }

// creditBytes is how much a link may have in flight: a few reads' worth, which fits the processor's cache.
const creditBytes = 1 << 20

// Sizes returns the sizes that suit the size of packets.
func (c *expressConn) Sizes() transport.Sizes {
	return transport.Sizes{BaseDatagram: minPacketSize - express.Overhead, Credit: c.credit,
		SeqWindow: link.SeqWindowFor(c.credit)}
}

// creditFor is the credit for packets of the given size, bytes. All packets that a link can have in flight, fragments
// and repetitions included, are far fewer than the replay window.
func creditFor(size int) int { return min(2000, max(16, creditBytes/size)) }

// Send always fails: the link sends by Append and Flush.
func (c *expressConn) Send([]byte) error {
	return errors.New("a connection of the carrier quic sends by Append and Flush")
}

// Recv waits until the connection is over and returns the reason.
func (c *expressConn) Recv([][]byte) (int, error) {
	<-c.qc.Context().Done()
	return 0, translateError(context.Cause(c.qc.Context()))
}

func (c *expressConn) Start(r transport.Receiver) { c.receiver.Store(&r) }

func (c *expressConn) Close(reason string) error {
	c.net.sessions.byNumber[c.recvSessionID%maxSessions].CompareAndSwap(c, nil)
	return c.conn.Close(reason)
}

// receive decrypts the packets of one read.
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

// notifyIdle tells the link that no more packets have arrived.
func (c *expressConn) notifyIdle() {
	if to := c.receiver.Load(); to != nil {
		(*to).Idle()
	}
}

// receivePacket handles one packet of this session.
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
		increment(&count.Probes) // a late probe or answer has no effect
	default:
		r.authentic = true
		to.Receive(d)
	}
}

// countRefused counts a packet that was dropped.
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

// receiveBeforeStart handles packets that arrive before the link is up: probes and their answers.
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
		// If the answer cannot be sent, the peer probes again.
		_ = c.probe(express.ProbeAnswer, len(p), data[:express.ProbeData])
		return
	}
	select {
	case c.probeAnswers <- len(p):
	default: // the upgrade has answers enough
	}
}

// Append encrypts a datagram into the batch.
func (c *expressConn) Append(buf []byte, n int, body []byte) (bool, error) {
	o := c.sender
	head := buf[:n]
	urgent := link.IsUrgent(head)
	if body == nil {
		// Small datagrams get one size, so that they leave and arrive together.
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

// smallDatagram holds one or two answers, or an ack with few gaps, bytes.
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

// endProbing hands the sender to the link.
func (c *expressConn) endProbing() {
	c.upgradeMu.Lock()
	defer c.upgradeMu.Unlock()
	c.probing = false
}

// probeWait is how long a try waits for answers to its probes; the wait doubles with each try, maxProbeDoublings times:
// where 32 nodes connect over ports of 20 Mbit/s, the probes of one try take 300 ms to pass.
const (
	probeWait         = 30 * time.Millisecond
	maxProbeDoublings = 5
)

func (c *expressConn) sendProbe(size int) error {
	c.upgradeMu.Lock()
	defer c.upgradeMu.Unlock()
	return c.probe(express.Probe, size, c.probeNonce[:])
}

// probePacketSize finds the largest of the given sizes, in falling order, that the path carries to the peer and back.
// send sends a probe; over is done when the connection is.
func (c *expressConn) probePacketSize(ctx, over context.Context, sizes []int, send func(size int) error) (int, error) {
	got := 0
	var unsent error // error of the last try, if this host could send no probe
	for try := range probeTries {
		best := 0
		for _, s := range sizes {
			if s <= got {
				continue
			}
			if err := send(s); err != nil {
				unsent = err
			} else if best == 0 {
				best = s // the largest size that this host can send
			}
		}
		if best > 0 {
			unsent = nil
		}
		// If this host could send nothing, it waits as long: an earlier try may be answered, or the next one leave.
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

// awaitAnswers waits until the probe of the best size is answered, or the time is over; got becomes the largest size
// answered. It ignores sizes that were not probed.
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

// zeros pads probes.
var zeros [1 << 16]byte

// probeTries is how often all sizes are probed: on a network that loses half of all packets, 10 tries without an answer
// are unlikely.
const probeTries = 10

// confirmTries is how often larger sizes are probed again after only a smaller one was answered. While many links
// connect, a full queue may accept a small packet and drop a large one; without these tries the link would use small
// packets as long as it lives.
const confirmTries = 3
