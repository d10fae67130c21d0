package simnet

import (
	"container/heap"
	"errors"
	"fmt"
	"sync"
	"time"

	"ringlet/transport"
)

// queueLen is how many datagrams a pipe holds; what comes on top is dropped. quic-go holds 128 received
// ones, and 32 and more are under way. The room for late ones is on top, as a wire has it.
const queueLen = 512

// pipe is one direction of a connection: a wire and the queue behind it. The sender works out when a datagram arrives;
// the receiver waits until then, so no goroutine carries it.
type pipe struct {
	fabric *Fabric
	wake   chan struct{} // something has changed that the receiver waits for

	mu           sync.Mutex // guards what follows
	wire         *wire
	queue        flights
	lastOrder    uint64
	delays       []time.Duration
	freeBufs     [][]byte // buffers of datagrams that are over
	endErr       error    // what the receiver finds at endAt
	endAt        time.Duration
	pendingClose error // the peer's closing words, held up by a partition
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

// send sends a datagram on its way.
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

// receive moves what is due into batch and takes back what an earlier call gave. Without any it says how long to wait;
// never is for as long as nothing changes.
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

// next is when something happens next on the pipe.
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

// endReason says why the receiver gets nothing more.
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

// endAfter makes the receiver find err after the given time; the first end stands.
func (p *pipe) endAfter(after time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.fabric.now() + after
	if p.endErr == nil || at < p.endAt {
		p.endErr, p.endAt = err, at
	}
	p.notify()
}

// closeByPeer brings the peer's closing words, once there is a way for them.
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

	lastBatch [][]byte // the receiver's: what the last Recv gave
}

func (c *conn) Peer() string     { return c.peer }
func (c *conn) MaxDatagram() int { return defaultDatagram }

// Sizes has what a path carries that has become narrow.
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

// wait returns when something has changed, or after d.
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

// Close ends this end at once, and the peer's after the way there.
func (c *conn) Close(reason string) error {
	if c.fabric.remove(c) {
		c.in.endAfter(0, transport.ErrClosed)
		c.out.closeByPeer(&ClosedError{Peer: c.self, Reason: reason})
	}
	return nil
}
