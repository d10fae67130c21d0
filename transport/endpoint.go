package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// A Member is a node of a view; its index there is its rank.
type Member struct {
	Name       string
	Addr       string // where others dial it
	Substitute string // the node whose process and certificate it is; empty: Name
}

// A View is an immutable, numbered set of nodes in order.
type View struct {
	Number  uint64
	Members []Member
}

// A Placement is a range of bytes that a peer has written, or tried to.
type Placement = link.Placement

// Handler is called with the events of an endpoint's links. Its methods must neither block nor call Close; the data
// they get is valid until they return. Calls for one peer never overlap, except Completed: a link through memory, such
// as a node's link to itself, calls it from within Write, WriteMany and Fence.
type Handler interface {
	link.Handler
	// Malformed reports a datagram that did not parse or broke the protocol.
	Malformed(peer int, err error)
	// LinkDown reports that a link has ended other than by Close. The handler gets no more calls for that peer.
	LinkDown(peer int, err error)
}

// A LinkError says which link failed, and why.
type LinkError struct {
	Peer  string
	Rank  int
	Cause error
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("link to %s (rank %d) is down: %v", e.Peer, e.Rank, e.Cause)
}
func (e *LinkError) Unwrap() error { return e.Cause }

// A FullError says that the queue of the link to a peer has no space for a write that must not wait. The write was not
// queued.
type FullError struct {
	Peer string
	Rank int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the queue of the link to %s (rank %d) is full: write again when that peer has answered "+
		"earlier writes", e.Peer, e.Rank)
}

// Config of an Endpoint.
type Config struct {
	Network Network
	Handler Handler
	Table   *shmem.Table // this node's exports and grants
	View    View
	Rank    int // this node's index in the view
	// Carrier of all links. Zero means CarrierQUICGo. Both ends of a link must agree on it. CarrierLocal and CarrierAuto
	// need a Table of shmem.NewSharedTable.
	Carrier Carrier
	// AutoNetwork is CarrierAuto's carrier for a peer on another host. Zero means CarrierQUICGo.
	AutoNetwork Carrier
	// Spin is how long the receiver of a local link polls before it sleeps. Zero means 50 µs if this host has a processor
	// for each member of the view, and no polling otherwise; negative means none.
	Spin time.Duration
	// DropShare is the share of received datagrams dropped on purpose, to show the repair of losses. Zero means none.
	DropShare float64
	DropSeed  uint64
	// Damage is done on purpose to datagrams sent and received, by chance from DropSeed. Zero means none.
	Damage Damage
	// MayRejoin reports whether another process may replace a peer whose link is over. Nil: none may.
	MayRejoin func(rank int) bool
	// OnRejoin is called when a process that MayRejoin has admitted has a link, before the link reports anything. rank is
	// the rank of that process. OnRejoin must not block. Nil: nothing is called.
	OnRejoin func(rank int)
	// Trace is called with the stages that datagrams pass, by any goroutine and under locks: it must neither block nor
	// call the endpoint. Nil means no trace.
	Trace func(Stage)
	// OnTurnedAway is called for each peer that this node refuses, by the goroutine that accepts it. It may be nil.
	OnTurnedAway func(*turnedAwayError)
	StuckTimeout time.Duration // when a link is given up that carries nothing although its connection lives; zero: 15 s
	// MinTimeout is a lower bound of two time-outs: of a carrier's set-up, which is 10 s, and StuckTimeout.
	MinTimeout time.Duration
	Log        *slog.Logger
}

// An Endpoint is one node's end of all its links in one view.
type Endpoint struct {
	// immutable after New
	cfg  Config
	log  *slog.Logger
	ctx  context.Context // done when the endpoint is closed
	stop context.CancelFunc

	// atomic
	// by rank; set in New for this node, in Connect for others, and again for processes that mayRejoin
	peers        []atomic.Pointer[peer]
	certNames    *certNames
	refusedPeers [numRefuseCodes]atomic.Uint64 // peers turned away

	mu          sync.Mutex // guards the next three
	connecting  bool
	closed      bool
	formerStats []Stats // by rank: sums of the links that later ones have replaced

	wg    sync.WaitGroup
	ended chan struct{} // closed when Close returns
}

// New makes an endpoint. Call Connect next, then Write, Fence and Signal in any order from any goroutine, then Close.
func New(cfg Config) *Endpoint {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Carrier == 0 {
		cfg.Carrier = CarrierQUICGo
	}
	if cfg.AutoNetwork == 0 {
		cfg.AutoNetwork = CarrierQUICGo
	}
	e := &Endpoint{
		cfg:   cfg,
		log:   cfg.Log,
		ended: make(chan struct{}),
		peers: make([]atomic.Pointer[peer], len(cfg.View.Members)),

		certNames:   &certNames{cfg.View.Members, make([]atomic.Pointer[string], len(cfg.View.Members))},
		formerStats: make([]Stats, len(cfg.View.Members)),
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.installPeer(newSelfPeer(&cfg))
	return e
}

func (e *Endpoint) peer(rank int) (*peer, error) {
	if rank < 0 || rank >= len(e.peers) {
		return nil, fmt.Errorf("view %d has no rank %d", e.cfg.View.Number, rank)
	}
	if p := e.peers[rank].Load(); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no link to %s (rank %d) in view %d", e.cfg.View.Members[rank].Name, rank, e.cfg.View.Number)
}

// Write queues a remote write into a window that the peer has granted. It waits while the link's request queue is full.
// The data must not change until Completed reports the outcome for w.Cookie.
func (e *Endpoint) Write(rank int, w link.Write) error { return e.write(rank, w, true) }

// TryWrite is Write without waiting: if the link's queue is full, it queues nothing and returns a *FullError that names
// the peer. Each link has its own queue, so a caller that writes to several peers goes on with the next one. Over a
// network the queue has space again once a write to that peer has its outcome. Over memory it has when the peer has
// read earlier writes, which no event reports.
func (e *Endpoint) TryWrite(rank int, w link.Write) error { return e.write(rank, w, false) }

func (e *Endpoint) write(rank int, w link.Write, wait bool) error {
	if uint64(w.Offset)+uint64(len(w.Data)) > 1<<32 {
		return fmt.Errorf("write of %d bytes at offset %d of a window of rank %d reaches past 4 GiB", len(w.Data), w.Offset,
			rank)
	}
	p, err := e.peer(rank)
	if err != nil {
		return err
	}
	return p.engine.write(w, wait)
}

// Deadline is the time d from now, on the clock of link.Write.
func Deadline(d time.Duration) int64 { return monotonicNow() + int64(d) }

// WriteMany queues many remote writes to the peer. Pieces that fit one datagram travel together, as many as it holds.
// All pieces have one Completed, whose error is the first refusal. WriteMany waits as Write does. Neither the pieces
// nor their data may change until Completed.
func (e *Endpoint) WriteMany(rank int, pieces []link.Piece, cookie uint64) error {
	return e.writeMany(rank, pieces, cookie, true)
}

// TryWriteMany is WriteMany without waiting, for a peer that is reached over a network. For a peer that is reached
// through memory it returns an error, since its queue cannot promise space for many pieces; use Mapped to store there
// without waiting.
func (e *Endpoint) TryWriteMany(rank int, pieces []link.Piece, cookie uint64) error {
	return e.writeMany(rank, pieces, cookie, false)
}

func (e *Endpoint) writeMany(rank int, pieces []link.Piece, cookie uint64, wait bool) error {
	for i := range pieces {
		if p := &pieces[i]; uint64(p.Offset)+uint64(len(p.Data)) > 1<<32 {
			return fmt.Errorf("piece %d of %d bytes at offset %d reaches past 4 GiB of a window of rank %d", i, len(p.Data),
				p.Offset, rank)
		}
	}
	if len(pieces) == 0 {
		return fmt.Errorf("a write of no pieces to rank %d", rank)
	}
	p, err := e.peer(rank)
	if err != nil {
		return err
	}
	return p.engine.writeMany(pieces, cookie, wait)
}

// RelocateWrite moves the data of a WriteMany under way: to(i) returns the new place of piece i, which holds the same
// bytes, and must not change until Completed. When RelocateWrite returns, the caller may reuse the old memory, so one
// peer that does not answer need not keep the memory that other peers were sent from. RelocateWrite calls to under a
// lock of the link. It reports false, without calling to, if the write has not been queued yet, or its outcome is known
// or about to be reported.
func (e *Endpoint) RelocateWrite(rank int, cookie uint64, to func(piece int) []byte) bool {
	p, err := e.peer(rank)
	return err == nil && p.engine.relocateWrite(cookie, to)
}

// Fence asks for a Completed with the given cookie once every write queued to the peer so far has its outcome.
func (e *Endpoint) Fence(rank int, cookie uint64) error {
	p, err := e.peer(rank)
	if err != nil {
		return err
	}
	return p.engine.fence(cookie)
}

// Signal sends a message of up to link.MaxSignal bytes; it arrives exactly once and in order, or the link ends. It
// never waits, so a Handler may call it; the caller must bound the number of signals under way. Signals can overtake
// writes: to order a signal behind a write, send it after a Fence behind that write has completed.
func (e *Endpoint) Signal(rank int, payload []byte) error {
	p, err := e.peer(rank)
	if err != nil {
		return err
	}
	return p.engine.signal(payload)
}

// DropLink ends the link to a rank for the given reason, and does not wait. LinkDown follows, as after a failure.
// Without a link, or when it is over, DropLink does nothing.
func (e *Endpoint) DropLink(rank int, why error) {
	if p, err := e.peer(rank); err == nil && rank != e.cfg.Rank {
		p.fail(why)
	}
}

// Stats sums the counters of all links.
func (e *Endpoint) Stats() Stats {
	s := Stats{
		RefusedVersion:  e.refusedPeers[RefuseVersion].Load(),
		RefusedView:     e.refusedPeers[RefuseView].Load(),
		RefusedStranger: e.refusedPeers[RefuseStranger].Load(),
		RefusedHello:    e.refusedPeers[RefuseHello].Load(),
		RefusedMemory:   e.refusedPeers[RefuseMemory].Load(),
	}
	s.PeersRefused = s.RefusedVersion + s.RefusedView + s.RefusedStranger + s.RefusedHello + s.RefusedMemory
	for rank := range e.peers {
		e.addLinkStats(rank, &s)
	}
	return s
}

// addLinkStats adds the counters of all links that a rank has had.
func (e *Endpoint) addLinkStats(rank int, s *Stats) {
	e.mu.Lock()
	former, p := e.formerStats[rank], e.peers[rank].Load()
	e.mu.Unlock()
	s.add(&former)
	if p != nil {
		p.addStats(s)
	}
}

// LinkStats returns the counters of the links to a rank, also this node's own; zero if there is none.
func (e *Endpoint) LinkStats(rank int) (s link.Stats) {
	if rank >= 0 && rank < len(e.peers) {
		var all Stats
		e.addLinkStats(rank, &all)
		s = all.Stats
	}
	return s
}

// Stats of an endpoint.
type Stats struct {
	link.Stats
	WritesUnanswered uint64         `count:"tx_lost" help:"writes without an answer when their link went down"`
	Links            linksByCarrier `count:"links_" help:"links by the carrier in effect, with those that are over"`
	PeersRefused     uint64         `help:"connections turned away, the sum of the five refused below"`
	RefusedVersion   uint64         `help:"connections of another version of the link protocol"`
	RefusedView      uint64         `help:"connections in another view"`
	RefusedStranger  uint64         `help:"connections of a node not in the view, not to link here, or linked already"`
	RefusedHello     uint64         `help:"connections with a hello that makes no sense"`
	RefusedMemory    uint64         `help:"processes whose memory cannot be reached: another host, container or user"`
	DatagramsDropped uint64         `help:"datagrams thrown away on purpose"`
	DamagedHeaders   uint64         `help:"packets whose header was damaged on purpose"`
	DamagedBodies    uint64         `help:"packets whose sealed bytes were damaged on purpose"`
	DamagedEpochs    uint64         `help:"datagrams sent on purpose with the number of another view"`
	DamagedTables    uint64         `help:"datagrams whose window was looked up on purpose in a stale row of the table, and refused"`
}

// add adds the counters of a link.
func (s *Stats) add(o *Stats) {
	s.Stats.Add(&o.Stats)
	s.WritesUnanswered += o.WritesUnanswered
	s.DatagramsDropped += o.DatagramsDropped
	s.DamagedHeaders += o.DamagedHeaders
	s.DamagedBodies += o.DamagedBodies
	s.DamagedEpochs += o.DamagedEpochs
	s.DamagedTables += o.DamagedTables
	for c := range o.Links {
		s.Links[c] += o.Links[c]
	}
}

type linksByCarrier [numCarriers]uint64

// Kinds names the carriers of links, for the counters' names.
func (linksByCarrier) Kinds() []string {
	names := make([]string, numCarriers)
	for c := Carrier(1); c < CarrierAuto; c++ {
		names[c] = strings.ReplaceAll(c.String(), "-", "_")
	}
	return names
}

// Close ends all links and waits for their goroutines. The network stays open. A second caller waits as well: when any
// call has returned, no goroutine touches the memory that was granted or written from.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.stop()
	e.mu.Unlock()
	if !first {
		<-e.ended
		return nil
	}
	defer close(e.ended)
	for _, end := range [...]func(*peer){(*peer).closeLink, (*peer).wait} { // ends all links before it waits for any
		for i := range e.peers {
			if p := e.peers[i].Load(); p != nil {
				end(p)
			}
		}
	}
	e.wg.Wait()
	return nil
}

// The shell of one link: a conn, which knows the peer's name and when the connection ends, and an engine, which queues
// requests, sends and receives. The engines are datagrams.go (a link.Core over a network) and memory.go (records in
// memory that both ends map, and a node's link to itself).

// clockStart is the zero of the clock of all links.
var clockStart = time.Now()

func monotonicNow() int64 { return int64(time.Since(clockStart)) + 1 }

// ErrClosed is returned by calls on an endpoint or link that is closed.
var ErrClosed = errors.New("transport is closed")

// peer is this node's end of a link; a node has one to itself, too.
type peer struct {
	// immutable after newPeer
	rank    int
	carrier Carrier // 0: the link to this node itself
	name    string
	conn    Conn // nil for the link to itself
	handler Handler
	engine  engine
	damage  *Damager // nil: no damage
	fullErr FullError
	down    chan struct{} // closed when the link is over

	mu       sync.Mutex // guards err, and the core of an engine that has one
	writable *sync.Cond // a write may find space in the queue, or the link is over
	err      error      // why the link is over

	wg sync.WaitGroup
}

// engine sends and receives for a link.
type engine interface {
	// write and writeMany return &peer.fullErr if the queue is full and wait is false.
	write(w link.Write, wait bool) error
	writeMany(pieces []link.Piece, cookie uint64, wait bool) error
	// relocateWrite reports false if no such write is under way, or the engine has already copied its bytes.
	relocateWrite(cookie uint64, to func(piece int) []byte) bool
	fence(cookie uint64) error
	// signal never waits, so a Handler may call it.
	signal(payload []byte) error
	// stats returns the link's counters; the caller holds mu.
	stats() link.Stats
	// start starts the engine. It counts its goroutines in the peer's wg.
	start()
	// stop is called after the end of the link: when it returns, the engine calls no handler and touches no memory.
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

// watchConn waits for the end of the connection, and then ends the link. It calls LinkDown, unless Close ended the
// link; no other call of the handler for this peer runs at the same time or later.
func (p *peer) watchConn() {
	_, err := p.conn.Recv(nil)
	p.fail(err)
	p.engine.stop()
	var down *LinkError
	if errors.As(p.reason(), &down) {
		p.handler.LinkDown(p.rank, down)
	}
}

// isOver reports whether the link has ended; the goroutine that ended it has noted the reason. The caller holds mu.
func (p *peer) isOver() bool { return p.err != nil }

// reason is why the link has ended; nil as long as it lives.
func (p *peer) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// shutDown notes why the link ends, unless it has ended already, and closes its connection. watchConn then does the
// rest.
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

// fail ends the link for the given reason, and does not wait.
func (p *peer) fail(err error) {
	p.shutDown(&LinkError{Peer: p.name, Rank: p.rank, Cause: err}, err.Error())
}

// closeLink ends the link on purpose, and does not wait.
func (p *peer) closeLink() { p.shutDown(ErrClosed, "done") }

// wait waits for the goroutines of a link that has ended. A Handler must not call it.
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
