package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/internal/netyield"
	"ringlet/shmem"
	"ringlet/shmem/ring"
	"ringlet/transport/link"
)

// ErrClosed is returned by calls on a link that is closed or not yet joined.
var ErrClosed = errors.New("the local link is closed")

// ErrPeerClosed is returned by calls on a link whose peer has closed its end.
var ErrPeerClosed = errors.New("the peer has closed its end of the local link")

// ErrFull is returned by TryWrite if the peer's mailbox is full.
var ErrFull = errors.New("the peer's mailbox is full")

// Config of a Link.
type Config struct {
	Table    *shmem.Table // this node's exports and grants; made by shmem.NewSharedTable
	Self     shmem.Peer   // this node's name in the peer's table
	Peer     shmem.Peer   // the peer's name in Table
	PeerName string       // for errors
	// Handler's methods are called by the link's receiver, one after the other, except Completed: Write, WriteMany and
	// Fence call it before they return. No method may call Close.
	Handler link.Handler
	// OnDown is called when the peer has closed its end (ErrPeerClosed) or broken the protocol. It is the receiver's last
	// call.
	OnDown func(err error)
	// Spin is how long the receiver polls its mailbox before it sleeps. Zero suits where no core is free for it.
	Spin time.Duration
	// Ring is the size of this node's mailbox, bytes, whole pages. Zero means defaultRing.
	Ring int
	// Now is the clock of link.Write.Deadline, ns. If it is nil, no dmove expires.
	Now func() int64
}

// A Link is one end of a link between two processes.
type Link struct {
	// immutable after New
	cfg         Config
	refusedErrs [256]link.RefusedError // by reason, so that a refusal allocates nothing
	mailbox     *shmem.Segment         // this node's; nil in a node's link to itself
	nonce       ring.Nonce             // of the mailbox

	// immutable after Join
	peerTable   grants         // the peer's grants to this node
	peerMailbox *shmem.Segment // the peer's; nil in a node's link to itself
	toSelf      bool           // the peer is this node

	inbox inbox // owned by the receiver, except its bells and Close

	// atomic
	activeCalls atomic.Int64 // calls under way, plus closedBias once closed
	closing     atomic.Bool

	lastCallEnded chan struct{} // gets an element when the last call on a closed link has returned
	wg            sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	outbox         *ring.Producer // the peer's mailbox; mu guards its positions
	err            error          // why the link is unusable; nil while it is usable
	spilledSignals [][]byte       // signals that wait for space in the peer's mailbox
	foundFull      bool           // a TryWrite found the mailbox full, and no record was put since
	stats          link.Stats
	peerJoined     bool
	closed         bool

	// atomic, written by the receiver, which counts a record before it calls the handler
	placementsReceived, bytesReceived, refusalsReceived, signalsReceived atomic.Uint64
}

const closedBias = -1 << 62

// grants are the peer's grants to this node: shmem.ImportedTable, or this node's own table.
type grants interface {
	Acquire(r shmem.Ref, off, n uint32, a shmem.Access) ([]byte, shmem.Violation)
	Release(r shmem.Ref)
	Close() error
}

// New makes one end of a link, with a mailbox for the peer's records. Next come Offer and Join.
func New(cfg Config) (*Link, error) {
	if cfg.Ring == 0 {
		cfg.Ring = defaultRing
	}
	if cfg.Ring < minRing || cfg.Ring > maxRing || cfg.Ring%shmem.PageSize != 0 {
		return nil, fmt.Errorf("a mailbox of %d bytes for the local link to %s must be whole pages, %d to %d bytes",
			cfg.Ring, cfg.PeerName, minRing, maxRing)
	}
	if cfg.Table == nil || cfg.Table.Name() == "" {
		return nil, fmt.Errorf("the local link to %s needs a shared export table", cfg.PeerName)
	}
	name := fmt.Sprintf("%s-door-%d-%08x", cfg.Table.Name(), cfg.Peer, rand.Uint32())
	if len(name)+len(cfg.Table.Name()) > maxNamesSize {
		return nil, fmt.Errorf("the name of the export table, %q, is too long to be offered to a peer", cfg.Table.Name())
	}
	seg, in, nonce, err := createMailbox(name, cfg.Table.Dir(), cfg.Ring)
	if err != nil {
		return nil, err
	}
	l := newLink(cfg, in)
	l.mailbox, l.nonce = seg, nonce
	return l, nil
}

func newLink(cfg Config, in *ring.Consumer) *Link {
	l := &Link{cfg: cfg, inbox: inbox{Consumer: in}, lastCallEnded: make(chan struct{}, 1)}
	for r := range l.refusedErrs {
		l.refusedErrs[r] = link.RefusedError{Peer: cfg.PeerName, Reason: link.Reason(r)}
	}
	return l
}

// Offer tells the peer where this node's memory is. It is at most maxOffer bytes long.
func (l *Link) Offer() []byte {
	return offer{
		tableName:   l.cfg.Table.Name(),
		tableID:     l.cfg.Table.ID(),
		mailboxName: l.mailbox.Name(),
		nonce:       l.nonce,
	}.marshal()
}

// Join maps the memory that the peer offers; call Start next. If the memory cannot be mapped, or the offer not be read,
// Join returns an error, and only Close may follow. It is called once.
func (l *Link) Join(theirs []byte) error {
	o, err := parseOffer(theirs)
	if err != nil {
		return err
	}
	table, err := shmem.OpenTable(o.tableName, o.tableID, l.cfg.Self, shmem.WithDir(l.cfg.Table.Dir()))
	if err != nil {
		return unreachableError(l.cfg.PeerName, err)
	}
	seg, out, err := openMailbox(o.mailboxName, l.cfg.Table.Dir(), o.nonce)
	if err != nil {
		_ = table.Close()
		return unreachableError(l.cfg.PeerName, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.peerJoined {
		return errors.Join(ErrClosed, table.Close(), seg.Close())
	}
	l.peerTable, l.peerMailbox, l.outbox, l.peerJoined = table, seg, out, true
	return nil
}

// Start begins to receive and to call the Handler. It is called once, after Join.
func (l *Link) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peerJoined && !l.closed {
		l.wg.Go(l.receive)
	}
}

// beginCall registers a call, so that Close does not unmap memory that the call uses.
func (l *Link) beginCall() error {
	if l.activeCalls.Add(1) < 0 {
		l.endCall()
		return ErrClosed
	}
	return nil
}

func (l *Link) endCall() {
	if l.activeCalls.Add(-1) == closedBias {
		select {
		case l.lastCallEnded <- struct{}{}:
		default:
		}
	}
}

// fail makes the link unusable for the given reason, and releases callers that wait for space.
func (l *Link) fail(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.outbox.SpaceBell.ForceWake()
}

// Close ends the link, tells the peer, releases waiting callers, and unmaps all memory. A Handler must not call it. A
// second Close does nothing.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	joined := l.peerJoined
	l.closing.Store(true)
	l.inbox.Close(false) // before the owner revokes windows, which it does after Close
	if joined && l.err == nil {
		l.err = ErrClosed
		// if the mailbox is full, the peer does not read it, and gets no goodbye
		if _, ok, err := l.outbox.Allocate(0); ok && err == nil && l.outbox.Publish(0, uint8(kindGoodbye)) {
			l.outbox.RecordsBell.ForceWake()
		}
	}
	l.mu.Unlock()
	if !joined {
		return l.mailbox.Close()
	}
	l.inbox.RecordsBell.ForceWake()
	l.outbox.SpaceBell.ForceWake()
	for calls := l.activeCalls.Add(closedBias); calls != closedBias; calls = l.activeCalls.Load() {
		<-l.lastCallEnded
	}
	l.wg.Wait()
	if l.toSelf {
		return nil
	}
	return errors.Join(l.peerTable.Close(), l.peerMailbox.Close(), l.mailbox.Close())
}

// Stats returns a copy of the counters.
func (l *Link) Stats() link.Stats {
	l.mu.Lock()
	s := l.stats
	l.mu.Unlock()
	s.ChunksPlaced, s.BytesPlaced = l.placementsReceived.Load(), l.bytesReceived.Load()
	s.ChunksRefused, s.SignalsReceived = l.refusalsReceived.Load(), l.signalsReceived.Load()
	return s
}

// yield lets other goroutines run, also those that wait for the network.
func yield() { netyield.Yield() }
