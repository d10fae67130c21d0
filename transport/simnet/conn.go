package simnet

import (
	"container/heap"
	"errors"
	"fmt"
	"sync"
	"time"

	"ringlet/transport"
)

// queueLen is how many datagrams a pipe holds; it drops further ones. quic-go holds 128 received ones, and 32 and more
// are on the wire. Late datagrams need more, as on a wire.
const queueLen = 512

// pipe is one direction of a connection: a wire and the queue behind it. The sender computes when a datagram arrives;
// the receiver waits until then, so the pipe needs no goroutine.
type pipe struct {
	fabric *Fabric
	wake   chan struct{} // wakes the receiver after a change

	mu           sync.Mutex // guards the rest
	wire         *wire
	queue        flights
	lastOrder    uint64
	delays       []time.Duration
	freeBufs     [][]byte // buffers of received or dropped datagrams
	endErr       error    // the error for the receiver at endAt
	endAt        time.Duration
	pendingClose error // the peer's close, held up by a partition
	idleAt       time.Duration
}

func newPipe(f *Fabric, seed uint64) *pipe {
	return &pipe{fabric: f, wake: make(chan struct{}, 1), wire: newWire(f.faults, seed)}
}

func (p *pipe) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// send puts a datagram on the wire.
func (p *pipe) send(d []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.fabric.now()
	p.delays = p.wire.drawDelays(p.delays[:0])
	for _, delay := range p.delays {
		if len(p.queue) >= queueLen {
			break
		}
		p.lastOrder++
		heap.Push(&p.queue, flight{at: int64(now + delay), order: p.lastOrder, data: append(p.buffer(), d...)})
	}
	p.notify()
}

func (p *pipe) buffer() []byte {
	if n := len(p.freeBufs); n > 0 {
		b := p.freeBufs[n-1]
		p.freeBufs = p.freeBufs[:n-1]
		return b[:0]
	}
	return make([]byte, 0, defaultDatagram)
}

// receive moves datagrams that are due into batch, and takes back the buffers of an earlier call. If none is due, it
// returns how long to wait; never means until the next change.
func (p *pipe) receive(batch, back [][]byte) (n int, wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeBufs = append(p.freeBufs, back...)
	now := p.fabric.now()
	if errors.Is(p.endErr, transport.ErrClosed) {
		return 0, 0, p.endErr
	}
	for n < len(batch) && len(p.queue) > 0 && p.queue[0].at <= int64(now) {
		batch[n] = heap.Pop(&p.queue).(flight).data
		n++
	}
	if n > 0 {
		return n, 0, nil
	}
	if err := p.endReason(now); err != nil {
		return 0, 0, err
	}
	return 0, p.next() - now, nil
}

const never = time.Duration(1<<63 - 1)

// next is when the next datagram or the end of the connection is due.
func (p *pipe) next() time.Duration {
	t := never
	if len(p.queue) > 0 {
		t = min(t, time.Duration(p.queue[0].at))
	}
	if p.endErr != nil {
		t = min(t, p.endAt)
	}
	if p.idleAt != 0 {
		t = min(t, p.idleAt)
	}
	return t
}

// endReason is why the receiver gets no more datagrams; nil if it may get some.
func (p *pipe) endReason(now time.Duration) error {
	switch {
	case p.endErr != nil && now >= p.endAt:
		return p.endErr
	case p.idleAt != 0 && now >= p.idleAt:
		return errIdle
	}
	return nil
}

func (p *pipe) endReasonNow() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endReason(p.fabric.now())
}

// endAfter gives the receiver err after the given time, unless an earlier end is set.
func (p *pipe) endAfter(after time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.fabric.now() + after
	if p.endErr == nil || at < p.endAt {
		p.endErr, p.endAt = err, at
	}
	p.notify()
}

// closeByPeer delivers the peer's close, once there is no partition.
func (p *pipe) closeByPeer(err error) {
	p.mu.Lock()
	cut := p.wire.isCut
	if cut {
		p.pendingClose = err
	}
	p.mu.Unlock()
	if !cut {
		p.endAfter(p.fabric.faults.Delay, err)
	}
}

func (p *pipe) setCut(cut bool) {
	p.mu.Lock()
	pending := p.pendingClose
	if now := p.fabric.now(); cut && !p.wire.isCut {
		p.idleAt = now + idleTimeout
	} else if !cut && p.idleAt > now {
		p.idleAt = 0
	}
	p.wire.isCut = cut
	p.mu.Unlock()
	if !cut && pending != nil {
		p.endAfter(p.fabric.faults.Delay, pending)
	}
	p.notify()
}

// conn is one end of a connection.
type conn struct {
	// immutable
	fabric     *Fabric
	self, peer string
	in, out    *pipe

	lastBatch [][]byte // owned by the receiver: what the last Recv returned
}

func (c *conn) Peer() string     { return c.peer }
func (c *conn) MaxDatagram() int { return defaultDatagram }

// Sizes returns the size of datagrams that also a narrow path carries.
func (c *conn) Sizes() transport.Sizes { return transport.Sizes{BaseDatagram: baseDatagram} }

// Send never waits.
func (c *conn) Send(d []byte) error {
	if err := c.in.endReasonNow(); err != nil {
		return err
	}
	if len(d) > defaultDatagram {
		return fmt.Errorf("datagram of %d bytes to %s is longer than %d", len(d), c.peer, defaultDatagram)
	}
	c.out.send(d)
	return nil
}

func (c *conn) Recv(batch [][]byte) (int, error) {
	for {
		n, wait, err := c.in.receive(batch, c.lastBatch)
		c.lastBatch = append(c.lastBatch[:0], batch[:n]...)
		if n > 0 || err != nil {
			return n, err
		}
		c.wait(wait)
	}
}

// wait returns after a change, or after d.
func (c *conn) wait(d time.Duration) {
	if d >= never/2 {
		<-c.in.wake
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.in.wake:
	case <-timer.C:
	}
}

// Close closes this end at once, and the peer's end after the delay of the wire.
func (c *conn) Close(reason string) error {
	if c.fabric.remove(c) {
		c.in.endAfter(0, transport.ErrClosed)
		c.out.closeByPeer(&ClosedError{Peer: c.self, Reason: reason})
	}
	return nil
}
