package transport

// The engine of a link through memory: the carrier local, and a node's link to itself. A link of the carrier local has
// a connection too: it carries the hellos, proves the peer's name, and then carries nothing; when the peer's process
// ends, so does the connection. The acceptor first tries to map the memory that the dialler's hello offers; if that
// works, its answer names the carrier local and offers its own memory.

import (
	"errors"
	"runtime"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
	"ringlet/transport/local"
)

// memoryEngine is this process's end of a link of the carrier local. Before installLocal it has no connection.
type memoryEngine struct {
	*peer
	table *shmem.Table
	link  *local.Link
}

// discard frees the memory of a link that was never installed; a nil engine has none.
func (m *memoryEngine) discard() {
	if m != nil {
		_ = m.link.Close()
	}
}

// thisNode is a node's name as its own peer.
const thisNode = "this node"

// newSelfPeer makes the link of this node to itself.
func newSelfPeer(cfg *Config) *peer {
	m := &memoryEngine{peer: newPeer(cfg.Rank, 0, thisNode, nil, cfg.Handler), table: cfg.Table}
	m.engine = m
	self := shmem.Peer(cfg.Rank)
	m.link = local.NewSelf(local.Config{
		Table:    cfg.Table,
		Self:     self,
		Peer:     self,
		PeerName: thisNode,
		Handler:  cfg.Handler,
		OnDown:   m.onDown,
		Now:      monotonicNow,
	})
	return m.peer
}

// localSpin is longer than the pauses of a busy peer between writes, and too short to keep the processor from other
// work. The wake-up that it saves takes 5 to 15 µs (2-core VM, 2026-11-21).
const localSpin = 50 * time.Microsecond

func (e *Endpoint) newMemoryEngine(rank int) (*memoryEngine, error) {
	spin := e.cfg.Spin
	if spin == 0 && len(e.cfg.View.Members) <= runtime.NumCPU() {
		spin = localSpin
	}
	name := e.cfg.View.Members[rank].Name
	m := &memoryEngine{peer: newPeer(rank, CarrierLocal, name, nil, e.cfg.Handler), table: e.cfg.Table}
	m.engine = m
	var err error
	m.link, err = local.New(local.Config{
		Table:    e.cfg.Table,
		Self:     shmem.Peer(e.cfg.Rank),
		Peer:     shmem.Peer(rank),
		PeerName: name,
		Handler:  e.cfg.Handler,
		OnDown:   m.onDown,
		Spin:     spin,
		Now:      monotonicNow,
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// newDialHello returns the dialler's hello and, where it allows the carrier local, the memory that the hello offers.
func (e *Endpoint) newDialHello(rank int) (hello, *memoryEngine, error) {
	h := e.newHello(anyDatagramSize)
	h.dialler, h.listener = e.certNames.placeOf(e.cfg.Rank), e.certNames.placeOf(rank)
	if !h.carriers.contains(CarrierLocal) {
		return h, nil, nil
	}
	m, err := e.newMemoryEngine(rank)
	switch {
	case err == nil:
		h.extension = m.link.Offer()
		return h, m, nil
	case h.carriers == newCarrierSet(CarrierLocal):
		return h, nil, err
	}
	e.log.Warn("cannot offer memory of this node, so the network carries the link",
		"peer", e.cfg.View.Members[rank].Name, "err", err)
	h.carriers &^= newCarrierSet(CarrierLocal)
	return h, nil, nil
}

// joinMemory makes this node's end of a link and maps the memory that the peer offers.
func (e *Endpoint) joinMemory(rank int, offer []byte) (*memoryEngine, error) {
	m, err := e.newMemoryEngine(rank)
	if err != nil {
		return nil, err
	}
	if err := m.link.Join(offer); err != nil {
		m.discard()
		return nil, err
	}
	return m, nil
}

// finishJoin maps the acceptor's memory on the dialler's side; the acceptor has already mapped ours.
func (e *Endpoint) finishJoin(conn Conn, offer []byte, m *memoryEngine) error {
	err := errors.New("the answer names the carrier local, which was not offered")
	if m != nil {
		err = m.link.Join(offer)
	}
	if err != nil {
		m.discard()
		_ = conn.Close(err.Error())
		return err
	}
	return e.installLocal(conn, m)
}

func (e *Endpoint) installLocal(conn Conn, m *memoryEngine) error {
	m.conn = newPlainConn(conn) // it delivers no datagrams; its end is the end of the link
	if !e.installPeer(m.peer) {
		m.discard()
		_ = conn.Close("not wanted")
		return ErrClosed
	}
	return nil
}

func (m *memoryEngine) start() { m.link.Start() }

// stop unmaps the link's memory and evicts the peer, so that no Revoke waits for it.
func (m *memoryEngine) stop() {
	_ = m.link.Close()
	if m.carrier != 0 {
		m.table.Evict(shmem.Peer(m.rank))
	}
}

// wrapError turns an error of package local into one of this package.
func (m *memoryEngine) wrapError(err error) error {
	if errors.Is(err, local.ErrClosed) || errors.Is(err, local.ErrPeerClosed) {
		if r := m.reason(); r != nil {
			return r
		}
		return &LinkError{Peer: m.name, Rank: m.rank, Cause: err}
	}
	return err
}

func (m *memoryEngine) write(w link.Write, wait bool) error {
	if wait {
		return m.wrapError(m.link.Write(w))
	}
	err := m.link.TryWrite(w)
	if err == local.ErrFull { //nolint:errorlint // the caller compares it by identity
		return &m.fullErr
	}
	return m.wrapError(err)
}
func (m *memoryEngine) writeMany(pieces []link.Piece, cookie uint64, wait bool) error {
	if !wait {
		return errMapped
	}
	return m.wrapError(m.link.WriteMany(pieces, cookie))
}

var errMapped = errors.New("this peer is reached through memory: store with Mapped, or WriteMany, which may wait")

// relocateWrite moves nothing: a write through memory is complete when its call returns.
func (m *memoryEngine) relocateWrite(uint64, func(piece int) []byte) bool { return false }

func (m *memoryEngine) fence(cookie uint64) error { return m.wrapError(m.link.Fence(cookie)) }
func (m *memoryEngine) signal(b []byte) error     { return m.wrapError(m.link.Signal(b)) }

// Mapped is the memory of a peer on this host, or of this node, mapped in this process.
type Mapped interface {
	// Acquire returns n bytes of a granted window. If it returns neither a violation nor an error, the caller must soon
	// call Release: the owner's Revoke waits for it. After an error the link is unusable.
	Acquire(r shmem.Ref, off, n uint32, a shmem.Access) ([]byte, shmem.Violation, error)
	Release(r shmem.Ref)
}

// Mapped returns the memory of a peer for loads and stores; nil where there is no link, or the link goes over a
// network. It belongs to the present link: after another process has replaced the peer, call Mapped again.
func (e *Endpoint) Mapped(rank int) Mapped {
	if p, err := e.peer(rank); err == nil {
		if m, ok := p.engine.(*memoryEngine); ok {
			return m.link
		}
	}
	return nil
}

func (m *memoryEngine) stats() link.Stats {
	s := m.link.Stats()
	if m.carrier == 0 { // a node's writes to itself do not count as sent
		s.ChunksSent, s.BytesSent, s.ChunksPlaced, s.ChunksRefused = 0, 0, 0, 0
	}
	return s
}

// onDown ends the link after an error of the peer. If the peer has only closed, the end of its connection tells the
// reason.
func (m *memoryEngine) onDown(err error) {
	if !errors.Is(err, local.ErrPeerClosed) {
		m.fail(err)
	}
}
