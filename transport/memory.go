package transport

// A link of the carrier local. Its datagram connection carries the hellos and then nothing: it proves who the peer is, and finds that
// it is gone. The acceptor looks first whether it can reach the memory that the dialler's hello offers; if so, its answer names
// the carrier local and offers its own.

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
	"ringlet/transport/local"
)

// memory is one end of a local link before it has a connection.
type memory struct {
	link *local.Link
	peer *localPeer
}

// drop gives it back; nil has nothing to give.
func (m *memory) drop() {
	if m != nil {
		_ = m.link.Close()
	}
}

// localSpin is longer than a busy peer's pauses between writes, and short beside what a second process could do in it. The wake-up
// it spares takes 5 to 15 µs (2-core VM, 2026-11-21).
const localSpin = 50 * time.Microsecond

func (e *Endpoint) newMemory(rank int) (*memory, error) {
	spin := e.cfg.Spin
	if spin == 0 && len(e.cfg.View.Members) <= runtime.NumCPU() {
		spin = localSpin
	}
	name := e.cfg.View.Members[rank].Name
	p := &localPeer{rank: rank, name: name, table: e.cfg.Table, handler: e.cfg.Handler}
	l, err := local.New(local.Config{
		Table: e.cfg.Table, Self: shmem.Peer(e.cfg.Rank), Peer: shmem.Peer(rank), PeerName: name, Handler: p, Spin: spin, Now: monotonic,
	})
	if err != nil {
		return nil, err
	}
	p.link = l
	return &memory{link: l, peer: p}, nil
}

// offer is the dialler's hello, with the memory that it offers where its carrier may be local.
func (e *Endpoint) offer(rank int) (hello, *memory, error) {
	h := e.hello(maxHello)
	if !h.carriers.has(CarrierLocal) {
		return h, nil, nil
	}
	m, err := e.newMemory(rank)
	switch {
	case err == nil:
		h.extension = m.link.Offer()
		return h, m, nil
	case h.carriers == setOf(CarrierLocal):
		return h, nil, err
	}
	e.log.Warn("no memory to offer, so the network carries the link", "peer", e.cfg.View.Members[rank].Name, "err", err)
	h.carriers &^= setOf(CarrierLocal)
	return h, nil, nil
}

// join makes this node's end of a link to the memory that a peer offers.
func (e *Endpoint) join(rank int, offer []byte) (*memory, error) {
	m, err := e.newMemory(rank)
	if err != nil {
		return nil, err
	}
	if err := m.link.Join(offer); err != nil {
		m.drop()
		return nil, err
	}
	return m, nil
}

// joined ends the dialler's part: the acceptor has reached our memory, now we reach for its.
func (e *Endpoint) joined(rank int, conn Conn, offer []byte, m *memory) error {
	if m == nil {
		err := errors.New("the answer names the carrier local, which was not offered")
		_ = conn.Close(err.Error())
		return err
	}
	if err := m.link.Join(offer); err != nil {
		m.drop()
		_ = conn.Close(err.Error())
		return err
	}
	return e.installLocal(rank, conn, m)
}

func (e *Endpoint) installLocal(rank int, conn Conn, m *memory) error {
	m.peer.conn = conn
	if !e.enter(rank, m.peer) {
		m.drop()
		_ = conn.Close("not wanted")
		return ErrClosed
	}
	return nil
}

// localPeer is a link of the carrier local. It passes on what the link tells, with the peer's rank.
type localPeer struct {
	// immutable after installLocal
	rank    int
	name    string
	conn    Conn
	table   *shmem.Table
	link    *local.Link
	handler Handler

	mu  sync.Mutex
	err error // why the link is over; guarded by mu

	wg sync.WaitGroup
}

func (p *localPeer) run() {
	p.link.Start()
	p.wg.Go(p.watch)
}

// watch waits for the end of the connection, and then ends the link.
func (p *localPeer) watch() {
	var batch [1][]byte
	var err error
	for err == nil {
		_, err = p.conn.Recv(batch[:]) // a datagram here means nothing
	}
	p.over(&LinkError{Peer: p.name, Rank: p.rank, Cause: err})
	p.end()
	var down *LinkError
	if errors.As(p.reason(), &down) {
		p.handler.LinkDown(p.rank, down)
	}
}

// over sets why the link is over, unless that is known.
func (p *localPeer) over(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// reason is why the link is over; nil while it is not.
func (p *localPeer) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// end takes everything down: nothing is told after it, and no Revoke waits for this peer.
func (p *localPeer) end() {
	_ = p.conn.Close("done")
	_ = p.link.Close()
	p.table.Evict(shmem.Peer(p.rank))
}

// drop ends the link without waiting for anybody: the end of the connection brings the rest about.
func (p *localPeer) drop(why error) {
	p.over(&LinkError{Peer: p.name, Rank: p.rank, Cause: why})
	_ = p.conn.Close(why.Error())
}

func (p *localPeer) close() {
	p.over(ErrClosed)
	p.end()
	p.wg.Wait()
}

// why makes the link's error this package's.
func (p *localPeer) why(err error) error {
	if errors.Is(err, local.ErrClosed) || errors.Is(err, local.ErrPeerLeft) {
		if r := p.reason(); r != nil {
			return r
		}
		return &LinkError{Peer: p.name, Rank: p.rank, Cause: err}
	}
	return err
}

func (p *localPeer) write(w link.Write) error { return p.why(p.link.Write(w)) }
func (p *localPeer) writeMany(pieces []link.Piece, cookie uint64) error {
	return p.why(p.link.WriteMany(pieces, cookie))
}
func (p *localPeer) fence(cookie uint64) error { return p.why(p.link.Fence(cookie)) }
func (p *localPeer) signal(b []byte) error     { return p.why(p.link.Signal(b)) }

func (p *localPeer) addStats(s *Stats) {
	one := p.link.Stats()
	if p.reason() != nil {
		s.TxLost += one.TxUsed
		one.TxUsed = 0
	}
	s.Stats.Add(&one)
	s.Links[CarrierLocal]++
}

// What follows is local.Handler.

func (p *localPeer) Placed(at link.Placement)             { p.handler.Placed(p.rank, at) }
func (p *localPeer) PlacedMany(ps []link.Placement)       { p.handler.PlacedMany(p.rank, ps) }
func (p *localPeer) Signal(b []byte)                      { p.handler.Signal(p.rank, b) }
func (p *localPeer) Completed(cookie uint64, err error)   { p.handler.Completed(p.rank, cookie, err) }
func (p *localPeer) Refused(at link.Placement, err error) { p.handler.Refused(p.rank, at, err) }

// Down ends the link where the peer has gone wrong. Where it has only left, its connection says more in a moment.
func (p *localPeer) Down(err error) {
	if !errors.Is(err, local.ErrPeerLeft) {
		p.over(&LinkError{Peer: p.name, Rank: p.rank, Cause: err})
		_ = p.conn.Close(err.Error())
	}
}
