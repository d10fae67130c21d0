package transport

// One link's shell. Pipeline:
//
//	writer      1 Write, Signal   (parallel, any caller)  queued in the core under mu; the pump is woken
//	pump        2 Next × burst    (sequential)            datagrams built under mu into the pump's own buffer
//	            3 conn.Send       (sequential)            outside mu; the carrier copies
//	receiver    4 conn.Recv       (sequential)            a batch of datagrams, owned until the next Recv
//	            5 core.Receive    (sequential)            placed under mu, straight into the exported segment
//	            6 NextEcho, Send  (sequential)            built under mu, sent outside it: an echo does not wait for the pump
//	            7 Handler         (sequential)            events, outside mu
//
// Nothing here allocates per datagram.

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"ringlet/transport/link"
)

const (
	sendBurst = 16 // datagrams built per turn under the lock
	recvBurst = 16 // datagrams taken per turn
)

// start is the zero of the links' clock.
var start = time.Now()

func monotonic() int64 { return int64(time.Since(start)) + 1 }

// ErrClosed is returned for what is asked of an endpoint or link that is closed.
var ErrClosed = errors.New("transport is closed")

type peer struct {
	// immutable after newPeer and install
	rank    int
	carrier Carrier
	name    string
	conn    Conn
	handler Handler
	wake    chan struct{} // the pump has something to look at
	down    chan struct{} // closed when the link is over

	spare []link.Event // owned by who holds telling: exchanged with the core's

	// of a direct link, see direct.go
	direct  DirectConn // nil for others
	inline  bool
	sending sync.Mutex // held by the driver
	frame   []byte     // owned by the driver, under mu
	now     int64      // of the read in hand
	bad     error      // of the read in hand

	telling sync.Mutex // held while the handler is told
	until   int64      // guarded by mu: when the pump will wake by itself, ns; 0 while it is awake or about to be

	mu   sync.Mutex // guards core, err and the flags below
	core *link.Core
	room *sync.Cond // there may be room again for a write or a signal
	err  error      // why the link is over

	wg sync.WaitGroup
}

func newPeer(rank int, name string, conn Conn, core *link.Core, h Handler) *peer {
	p := &peer{
		rank: rank, name: name, conn: conn, handler: h, core: core,
		wake: make(chan struct{}, 1), down: make(chan struct{}),
	}
	p.room = sync.NewCond(&p.mu)
	if d, ok := conn.(DirectConn); ok {
		p.direct, p.inline, p.frame = d, sharesProcessors(), make([]byte, conn.MaxDatagram())
	}
	return p
}

func (p *peer) run() {
	p.wg.Add(3)
	go p.watch()
	if p.direct != nil {
		p.direct.Start(p)
		go p.tend()
		go p.attend()
		return
	}
	go p.pump()
	go p.receive()
}

// write queues a remote write, waiting for room in the request queue.
func (p *peer) write(w link.Write) error {
	return p.queue(func() bool { return p.core.Write(w) })
}

func (p *peer) writeMany(pieces []link.Piece, cookie uint64) error {
	return p.queue(func() bool { return p.core.WriteMany(pieces, cookie) })
}

func (p *peer) fence(cookie uint64) error {
	return p.queue(func() bool { return p.core.Fence(cookie) })
}

// signal never waits, so a Handler may call it.
func (p *peer) signal(b []byte) error {
	p.mu.Lock()
	err := p.err
	if err == nil && !p.core.Signal(b) {
		err = fmt.Errorf("signal to %s is %d bytes long, more than %d", p.name, len(b), link.MaxSignal)
	}
	p.mu.Unlock()
	if p.direct != nil {
		p.drive()
		return err
	}
	p.nudge()
	return err
}

func (p *peer) queue(try func() bool) error {
	p.mu.Lock()
	for p.err == nil && !try() {
		p.room.Wait()
	}
	err := p.err
	p.mu.Unlock()
	if p.direct != nil {
		p.drive()
		return err
	}
	p.nudge()
	return err
}

// rest notes that the pump sleeps from now on, and returns until when: the deadline may move back meanwhile, and is
// then computed anew. mu is held.
func (p *peer) rest() (deadline int64) {
	deadline = p.core.Deadline()
	if p.until = deadline; deadline == 0 {
		p.until = math.MaxInt64
	}
	return deadline
}

// wakeSlack is how much later than its deadline the pump may wake: a wake-up costs more than so much patience.
const wakeSlack = int64(100 * time.Microsecond)

// wakePump reports whether the pump must be woken, since it sleeps beyond the next deadline. mu is held.
func (p *peer) wakePump() bool {
	d := p.core.Deadline()
	if d == 0 || d+wakeSlack >= p.until {
		return false
	}
	p.until = 0
	return true
}

// nudge makes the pump look.
func (p *peer) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// pump sends what the core has to send, and sleeps until there is more or a repair falls due.
func (p *peer) pump() {
	defer p.wg.Done()
	size := p.conn.MaxDatagram()
	buf := make([]byte, sendBurst*size)
	var lens [sendBurst]int
	timer := newSleeper()
	defer timer.stop()
	for {
		n, untold, deadline := p.build(buf, size, &lens)
		if untold {
			p.tellUntold()
		}
		for i := range n {
			if err := p.conn.Send(buf[i*size : i*size+lens[i]]); err != nil {
				p.fail(err)
				return
			}
		}
		if n > 0 {
			continue
		}
		if !timer.sleep(deadline, p.wake, p.down) {
			return
		}
	}
}

// sleeper waits for whatever comes first.
type sleeper struct{ timer *time.Timer }

func newSleeper() sleeper { return sleeper{time.NewTimer(time.Hour)} }

func (s sleeper) stop() { s.timer.Stop() }

// sleep waits until the deadline on the links' clock, if it is not 0, or until it is woken. It reports false when the link is down.
func (s sleeper) sleep(deadline int64, wake, down <-chan struct{}) bool {
	if deadline == 0 {
		s.timer.Reset(time.Hour)
	} else {
		s.timer.Reset(time.Duration(deadline - monotonic()))
	}
	select {
	case <-wake:
	case <-s.timer.C:
	case <-down:
		return false
	}
	return true
}

// build asks the core for up to sendBurst datagrams.
func (p *peer) build(buf []byte, size int, lens *[sendBurst]int) (n int, untold bool, deadline int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over() {
		return 0, false, 0 // what was to be sent may be the writer's again
	}
	now := monotonic()
	p.core.Tick(now)
	for n < sendBurst {
		lens[n] = p.core.Next(now, buf[n*size:(n+1)*size])
		if lens[n] == 0 {
			break
		}
		n++
	}
	return n, p.core.Untold(), p.rest()
}

// tellUntold tells the handler what has happened outside of the receiver.
func (p *peer) tellUntold() {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	if p.over() || !p.core.Untold() {
		p.mu.Unlock()
		return
	}
	events := p.core.Events(p.spare)
	p.room.Broadcast()
	p.mu.Unlock()
	p.tell(events, nil)
}

// receive takes datagrams off the carrier, lets the core place them and tells the handler what happened.
func (p *peer) receive() {
	defer p.wg.Done()
	var batch [recvBurst][]byte
	echo := make([]byte, p.conn.MaxDatagram())
	for {
		n, err := p.conn.Recv(batch[:])
		p.telling.Lock()
		if err != nil {
			p.fail(err)
			p.tellDown()
			p.telling.Unlock()
			return
		}
		events, bad := p.take(batch[:n])
		p.mu.Lock()
		en := p.core.NextEcho(echo)
		p.mu.Unlock()
		if en > 0 {
			_ = p.conn.Send(echo[:en]) // a broken connection is found by the next Recv
		}
		p.tell(events, bad)
		p.telling.Unlock()
	}
}

// take runs a batch through the core under the lock.
func (p *peer) take(batch [][]byte) (events []link.Event, bad error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := monotonic()
	for _, d := range batch {
		if err := p.core.Receive(now, d); err != nil {
			bad = err
		}
	}
	p.core.EndBatch()
	if p.core.Due() || p.wakePump() {
		p.nudge()
	}
	p.room.Broadcast()
	return p.core.Events(p.spare), bad
}

func (p *peer) dispatch(events []link.Event) {
	for i := range events {
		ev := &events[i]
		switch ev.Kind {
		case link.Placed:
			p.handler.Placed(p.rank, Placement{Ref: ev.Ref, Offset: ev.Offset, Length: ev.Length, Imm: ev.Imm})
		case link.PlacedMany:
			p.handler.PlacedMany(p.rank, ev.Many)
		case link.Signalled:
			p.handler.Signal(p.rank, ev.Data)
		case link.Completed:
			var err error
			if ev.Reason != 0 {
				err = &link.RefusedError{Peer: p.name, Reason: ev.Reason}
			}
			p.handler.Completed(p.rank, ev.Cookie, err)
		case link.Fenced:
			p.handler.Completed(p.rank, ev.Cookie, nil)
		case link.Refused:
			p.handler.Refused(p.rank, Placement{Ref: ev.Ref, Offset: ev.Offset, Length: ev.Length, Imm: ev.Imm},
				&link.RefusedError{Peer: "this node", Reason: ev.Reason})
		}
	}
}

// fail ends the link for the given reason. The receiver then finds the connection closed and tells the handler.
func (p *peer) fail(err error) {
	p.mu.Lock()
	if p.err == nil {
		p.err = &LinkError{Peer: p.name, Rank: p.rank, Cause: err}
		close(p.down)
		p.room.Broadcast()
	}
	p.mu.Unlock()
	_ = p.conn.Close("link failed")
}

// tellDown tells the handler why the link is over, unless it was closed on purpose. It is the receiver's last deed,
// with telling held and the link over, so nothing of this peer is told at the same time or after it.
func (p *peer) tellDown() {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	var down *LinkError
	if errors.As(err, &down) {
		p.handler.LinkDown(p.rank, down)
	}
}

// drop ends the link without waiting for anybody.
func (p *peer) drop(why error) { p.fail(why) }

// close ends the link on purpose and waits for its goroutines. It must not be called from a Handler.
func (p *peer) close() {
	p.mu.Lock()
	if p.err == nil {
		p.err = ErrClosed
		close(p.down)
		p.room.Broadcast()
	}
	p.mu.Unlock()
	_ = p.conn.Close("done")
	p.wg.Wait()
}

func (p *peer) addStats(s *Stats) {
	p.mu.Lock()
	one := p.core.Stats()
	if p.over() {
		s.TxLost += one.TxUsed
		one.TxUsed = 0
	}
	p.mu.Unlock()
	s.Stats.Add(&one)
	s.Links[p.carrier]++
	if l, ok := p.conn.(interface{ lost() uint64 }); ok {
		s.DatagramsDropped += l.lost()
	}
}
