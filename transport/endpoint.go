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

// A Member is a node of a view, at its rank.
type Member struct {
	Name string
	Addr string // where it is dialled
}

// A View is an immutable, numbered set of nodes in order.
type View struct {
	Number  uint64
	Members []Member
}

// A Placement is a run of bytes that a peer has written, or tried to.
type Placement = link.Placement

// Handler is told what happens on an endpoint's links. Its methods must neither block nor call Close; data they are
// given is theirs until they return. Calls for one peer never overlap, but for Completed: a carrier that places at
// once, and the link of a node to itself, call it from within Write, WriteMany and Fence.
type Handler interface {
	link.Handler
	// Malformed tells that a datagram did not parse or broke the protocol.
	Malformed(peer int, err error)
	// LinkDown tells that a link is over, other than by Close. Nothing more comes from that peer.
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

// A FullError says that the queue of the link to a peer has no room for what must not wait. Nothing was queued.
type FullError struct {
	Peer string
	Rank int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the queue of the link to %s (rank %d) is full: it takes more once that peer takes what it has",
		e.Peer, e.Rank)
}

// Config of an Endpoint.
type Config struct {
	Network Network
	Handler Handler
	Table   *shmem.Table // what this node exports, to whom
	View    View
	Rank    int // this node's place in the view
	// Carrier of all links. Zero means CarrierQUICGo. Both ends of a link must agree. CarrierLocal and CarrierAuto want a
	// Table of shmem.NewSharedTable.
	Carrier Carrier
	// AutoNetwork is what CarrierAuto takes for a peer on another host. Zero means CarrierQUICGo.
	AutoNetwork Carrier
	// Spin is how long the receiver of a local link looks for something before it sleeps. Zero means 50 µs where this host
	// has a processor for each member of the view, and none otherwise; negative means none.
	Spin time.Duration
	// DropShare is the share of received datagrams thrown away on purpose, to show repair at work. Zero means none.
	DropShare float64
	DropSeed  uint64
	// Damage is what goes wrong on purpose with what is sent and what comes, by the same seed. Zero means nothing.
	Damage Damage
	// MayRejoin says whether another process may take the place of a peer whose link is over. Nil: none may.
	MayRejoin func(rank int) bool
	// OnRejoin is told of the link to such a process, before anything comes over it. It must not block. It may be nil.
	OnRejoin func(rank int)
	// Trace is told of the stages that datagrams pass, by any goroutine and under locks: it must neither block nor call
	// the endpoint. Zero means none, and costs a look at a nil.
	Trace func(Stage)
	// OnTurnedAway is told of each peer that this node refuses to link to, by the goroutine that accepts. It may be nil.
	OnTurnedAway func(*turnedAwayError)
	// MinTimeout is how long the setting up of a carrier may take, and a link be stuck, at least. Zero: 10 s and 15 s.
	MinTimeout time.Duration
	Log        *slog.Logger
}

// An Endpoint is one node's end of all its links in one view.
type Endpoint struct {
	// immutable after New
	cfg  Config
	log  *slog.Logger
	ctx  context.Context // over when the endpoint is closed
	stop context.CancelFunc

	// atomic
	// by rank; set in New for this node and in Connect for others, then by mayRejoin
	peers        []atomic.Pointer[peer]
	refusedPeers [numRefuseCodes]atomic.Uint64 // peers turned away

	mu          sync.Mutex // guards what follows
	connecting  bool
	closed      bool
	formerStats []Stats // by rank: of links to processes whose place others have taken

	wg    sync.WaitGroup
	ended chan struct{} // closed at the end of Close
}

// New makes an endpoint. Next come Connect, then Write, Fence and Signal in any order from any goroutine, then Close.
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
// The data must not change until Completed tells the outcome under w.Cookie.
func (e *Endpoint) Write(rank int, w link.Write) error { return e.write(rank, w, true) }

// TryWrite is Write, but it never waits: where the queue of the link has no room it queues nothing, and returns a
// *FullError that names the peer. Each link has a queue of its own, so who writes to several peers in turn goes on with
// the next. There is room again once a write to that peer has its outcome; over memory, where a write has it at once,
// when the peer has read on, which nothing tells.
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

// Deadline is the time after d from now, as link.Write has it.
func Deadline(d time.Duration) int64 { return monotonicNow() + int64(d) }

// WriteMany queues many remote writes to the peer. Those that fit a datagram travel together, as many as it holds. They
// have one Completed in common, whose error is the first refusal. It waits like Write. Neither the pieces nor their
// data may change until then.
func (e *Endpoint) WriteMany(rank int, pieces []link.Piece, cookie uint64) error {
	return e.writeMany(rank, pieces, cookie, true)
}

// TryWriteMany is to WriteMany what TryWrite is to Write, for a peer that is reached over a network. It refuses one
// that is reached through memory: nothing there keeps room for many, and Mapped is the way to store without waiting.
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

// RelocateWrite has the pieces of a WriteMany that is under way lie elsewhere from now on, where to says for each: the
// same bytes, which must not change until Completed. What they lay in before is the caller's again when RelocateWrite
// returns. So a peer that does not answer need not keep the memory of what is sent to others. It calls to under a lock
// of the link, and not at all where it reports false: the write has not been queued yet, or its outcome is known or
// about to be told.
func (e *Endpoint) RelocateWrite(rank int, cookie uint64, to func(piece int) []byte) bool {
	p, err := e.peer(rank)
	return err == nil && p.engine.relocateWrite(cookie, to)
}

// Fence asks for a Completed under the given cookie once every write to the peer queued so far has its outcome.
func (e *Endpoint) Fence(rank int, cookie uint64) error {
	p, err := e.peer(rank)
	if err != nil {
		return err
	}
	return p.engine.fence(cookie)
}

// Signal sends a message of up to link.MaxSignal bytes; it arrives exactly once, in order, or the link is down. It
// never waits, so a Handler may call it; how many may pile up is for the caller to bound. Signals and writes travel
// apart: one that must not overtake a write is sent once a Fence behind that write has completed.
func (e *Endpoint) Signal(rank int, payload []byte) error {
	p, err := e.peer(rank)
	if err != nil {
		return err
	}
	return p.engine.signal(payload)
}

// DropLink ends the link to a rank for the given reason, and does not wait. LinkDown follows, as when the link had
// failed by itself. A link that there is not, or is over, is left as it is.
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

// addLinkStats adds those of all links to a rank.
func (e *Endpoint) addLinkStats(rank int, s *Stats) {
	e.mu.Lock()
	former, p := e.formerStats[rank], e.peers[rank].Load()
	e.mu.Unlock()
	s.add(&former)
	if p != nil {
		p.addStats(s)
	}
}

// LinkStats are the counters of the link to a rank, to this node itself included; zero where there is none.
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
	DatagramsDropped uint64         `help:"datagrams thrown away on purpose as they arrived"`
	DamagedHeaders   uint64         `help:"packets whose header was damaged on purpose as they arrived"`
	DamagedBodies    uint64         `help:"packets whose sealed bytes were damaged on purpose as they arrived"`
	DamagedEpochs    uint64         `help:"datagrams sent on purpose with the number of another view"`
	DamagedTables    uint64         `help:"datagrams whose window was looked up on purpose in a stale row of the table, and refused"`
}

// add adds what is counted by link.
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

// Kinds names the carriers that a link may be of.
func (linksByCarrier) Kinds() []string {
	names := make([]string, numCarriers)
	for c := Carrier(1); c < CarrierAuto; c++ {
		names[c] = strings.ReplaceAll(c.String(), "-", "_")
	}
	return names
}

// Close ends all links and waits for their goroutines. The network stays open. Whoever calls it while it is under way
// waits too: memory may be taken back after it, and not before.
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
	for _, end := range [...]func(*peer){(*peer).closeLink, (*peer).wait} { // one that takes its time holds up no other
		for i := range e.peers {
			if p := e.peers[i].Load(); p != nil {
				end(p)
			}
		}
	}
	e.wg.Wait()
	return nil
}

// One link's shell, whatever carries it: a conn that says who the peer is and when it is over, and an engine that puts
// requests, flushes what is due, and receives. The engines are datagrams.go (a link.Core over a network) and memory.go
// (records in memory that both ends map, and a node's link to itself).

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
