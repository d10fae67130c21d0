package transport

// One link's shell, whatever carries it: a conn that says who the peer is and when it is over, and an engine that puts
// requests, flushes what is due, and receives. The engines are datagrams.go (a link.Core over a network) and memory.go
// (records in memory that both ends map, and a node's link to itself).

import (
	"errors"
	"sync"
	"time"

	"ringlet/transport/link"
)

// clockStart is the zero of the links' clock.
var clockStart = time.Now()

func monotonicNow() int64 { return int64(time.Since(clockStart)) + 1 }

// ErrClosed is returned for what is asked of an endpoint or link that is closed.
var ErrClosed = errors.New("transport is closed")

// peer is this node's end of a link, to itself included.
type peer struct {
	// immutable after newPeer
	rank    int
	carrier Carrier // 0: none, the link is to this node itself
	name    string
	conn    Conn // nil for the link to itself
	handler Handler
	engine  engine
	damage  *Damager // nil: nothing is damaged on purpose
	fullErr FullError
	down    chan struct{} // closed when the link is over

	mu       sync.Mutex // guards err, and the core of an engine that has one
	writable *sync.Cond // there may be room again for a write, or the link is over
	err      error      // why the link is over

	wg sync.WaitGroup
}

// engine is what carries a link.
type engine interface {
	// write and writeMany report &peer.fullErr where there is no room and they must not wait.
	write(w link.Write, wait bool) error
	writeMany(pieces []link.Piece, cookie uint64, wait bool) error
	// relocateWrite reports false where no such write is under way, or its bytes are not needed once it is queued.
	relocateWrite(cookie uint64, to func(piece int) []byte) bool
	fence(cookie uint64) error
	// signal never waits, so a Handler may call it.
	signal(payload []byte) error
	// stats are those of the link; mu is held.
	stats() link.Stats
	// start begins to carry. What goes on by itself counts into the peer's wg.
	start()
	// stop is called once the link is over: after it nothing is told, and no memory is touched.
	stop()
}

func newPeer(rank int, carrier Carrier, name string, conn Conn, h Handler) *peer {
	p := &peer{
		rank:    rank,
		carrier: carrier,
		name:    name,
		conn:    conn,
		handler: h,
		fullErr: FullError{name, rank},
		down:    make(chan struct{}),
	}
	p.writable = sync.NewCond(&p.mu)
	return p
}

func (p *peer) run() {
	p.engine.start()
	if p.conn != nil {
		p.wg.Go(p.watchConn)
	}
}

// watchConn waits for the end of the connection, and then ends the link. It tells the handler why, unless the link was
// closed on purpose; nothing of this peer is told at the same time or after it.
func (p *peer) watchConn() {
	_, err := p.conn.Recv(nil)
	p.fail(err)
	p.engine.stop()
	var down *LinkError
	if errors.As(p.reason(), &down) {
		p.handler.LinkDown(p.rank, down)
	}
}

// isOver reports whether the link has ended, which whoever ended it has told. The caller holds mu.
func (p *peer) isOver() bool { return p.err != nil }

// reason is why the link is over; nil while it is not.
func (p *peer) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// shutDown notes why the link is over, unless that is known, and ends its connection. The end of that brings the rest
// about.
func (p *peer) shutDown(err error, closeReason string) {
	p.mu.Lock()
	if p.err == nil {
		p.err = err
		close(p.down)
		p.writable.Broadcast()
	}
	p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close(closeReason)
	}
}

// fail ends the link for the given reason, and waits for nobody.
func (p *peer) fail(err error) {
	p.shutDown(&LinkError{Peer: p.name, Rank: p.rank, Cause: err}, err.Error())
}

// closeLink ends the link on purpose, and waits for nobody.
func (p *peer) closeLink() { p.shutDown(ErrClosed, "done") }

// wait waits for the goroutines of a link that has ended. It must not be called from a Handler.
func (p *peer) wait() {
	if p.conn == nil {
		p.engine.stop()
	}
	p.wg.Wait()
}

func (p *peer) addStats(s *Stats) {
	p.mu.Lock()
	one := p.engine.stats()
	if p.isOver() {
		s.WritesUnanswered += one.TransactionsUsed
		one.TransactionsUsed = 0
	}
	p.mu.Unlock()
	s.Stats.Add(&one)
	if p.carrier != 0 {
		s.Links[p.carrier]++
	}
	p.damage.addStats(s)
	if l, ok := p.conn.(*lossyConn); ok {
		s.DatagramsDropped += l.dropped.Load()
	}
}
