package memory

// The shell: it binds the cores to the links. Pipeline of a transaction over a network:
//
//	caller    1 begin     (sequential, under mu)  the requester accepts it; its context's order decides when it starts
//	          2 perform   (parallel)              bytes into staging buffers and link writes, or a request by signal
//	          3 await     (parallel)              until the outcome is reported, or the caller's context is done
//	receiver  4 answer    (sequential per peer)   Completed and Signal end transactions, under mu
//	          5 request   (sequential per peer)   peers' requests: words and short loads at once, long reads by a
//	                                              goroutine of that peer, so that no request waits behind them
//	pump      6 time      (sequential)            write buffers that must leave, transactions that have timed out
//
// The shell uses a caller's buffer in step 2 alone, so the caller may reuse it when its call returns.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"ringlet/shmem"
	"ringlet/transport"
)

const defaultTimeout = 10 * time.Second

// Config of a Space.
type Config struct {
	// Transport is the endpoint's configuration: Network, Table, View, Rank, Carrier and others. Handler, OnRejoin and
	// MayRejoin must be nil: the Space sets them. A Table that is not shared cannot be mapped by other processes.
	Transport transport.Config
	// Timeout ends transactions whose context has no earlier deadline. Zero means 10 s.
	Timeout time.Duration
	// AllowRejoin allows a process to come back under the name of one that is gone.
	AllowRejoin bool
}

// Space is one process's access to the memory of a view.
type Space struct {
	// immutable after New
	cfg      Config
	table    *shmem.Table
	ep       *transport.Endpoint
	start    time.Time
	members  []transport.Member
	tokens   []chan struct{} // by peer; the last ones are for fences
	pumpWake chan struct{}   // wakes the pump
	done     chan struct{}   // closed by Close

	calls sync.Pool      // of *call
	wg    sync.WaitGroup // of the pump, and of goroutines that serve peers' reads

	mu           sync.Mutex // guards the rest
	closed       bool
	responder    *responder
	requester    *requester
	combiner     combiner
	postsReady   []uint64      // posted transactions that may be sent
	postedWrites []postedWrite // by slot
	flights      []flight      // by slot
	openWrites   [numWriteBuffers]postedWrite
	peers        []*peer // by rank
	scratch      []byte  // buffer for messages
	stats        Stats

	activeRevokes map[chan struct{}]bool // revocations under way; each channel is closed at the end
}

// Stats counts what a Space did for itself and for peers.
type Stats struct {
	TransactionsDone    uint64 `count:"done" help:"transactions that were done"`
	TransactionsRefused uint64 `count:"refused" help:"transactions of which nothing was done, or a part of a write"`
	TransactionsUnknown uint64 `count:"unknown" help:"transactions that were sent and have no known outcome"`
	TransactionsDirect  uint64 `count:"direct" help:"transactions that were loads and stores into mapped memory"`
	LateOutcomes        uint64 `count:"late" help:"outcomes that came after the time-out"`
	UnexpectedAnswers   uint64 `count:"stray" help:"answers to no request of this node"`
	MalformedMessages   uint64 `count:"malformed" help:"messages that could not be read"`
	WritesCombined      uint64 `count:"combined" help:"writes that joined an open write buffer"`
	MostOutstanding     uint64 `help:"most transactions under way to one peer at a time"`
	EndMessages         uint64 `count:"endings" help:"messages of peers that end an import or an export"`
	Requests            uint64 `help:"requests of peers"`
	RequestsRefused     uint64 `help:"requests of peers that were refused"`
	RequestsRepeated    uint64 `help:"requests that came a second time; no effect"`
	WordsChanged        uint64 `help:"words that were changed for peers in one step"`
	Notices             uint64 `help:"notices of peers"`
	WritesRefused       uint64 `help:"writes of peers that the export table refused"`
}

// New makes a Space. Call Connect or Reconnect next.
func New(cfg Config) (*Space, error) {
	t := cfg.Transport
	if t.Handler != nil || t.OnRejoin != nil || t.MayRejoin != nil || t.Table == nil {
		return nil, fmt.Errorf("a space of rank %d needs a table, and must have no Handler, OnRejoin or MayRejoin", t.Rank)
	}
	if n := len(t.View.Members); n > maxMembers {
		return nil, fmt.Errorf("a view of %d members is too large for a space, which can have %d", n, maxMembers)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	s := &Space{
		cfg:           cfg,
		table:         t.Table,
		start:         time.Now(),
		members:       t.View.Members,
		pumpWake:      make(chan struct{}, 1),
		done:          make(chan struct{}),
		activeRevokes: map[chan struct{}]bool{},
	}
	n := len(s.members)
	s.responder = newResponder(s.table, n, rand.Uint64()>>16, &s.stats)
	s.requester = newRequester(n, &s.stats)
	s.flights, s.postedWrites = make([]flight, len(s.requester.transactions)), make([]postedWrite,
		len(s.requester.transactions))
	for range n + 1 {
		s.tokens = append(s.tokens, newTokens(maxTransactionsPerPeer))
	}
	for rank := range n {
		s.peers = append(s.peers, newPeer(s, rank, 0))
	}
	t.Handler = (*handler)(s)
	if cfg.AllowRejoin {
		t.MayRejoin = func(int) bool { return true }
	}
	s.ep = transport.New(t)
	s.wg.Go(s.pump)
	return s, nil
}

// Connect links this process to the given ranks, which do the same; see transport.Endpoint.Connect.
func (s *Space) Connect(ctx context.Context, ranks []int) error { return s.ep.Connect(ctx, ranks) }

// Reconnect is Connect for a process that comes and goes, to owners with Config.AllowRejoin: it dials all ranks.
func (s *Space) Reconnect(ctx context.Context, ranks []int) error { return s.ep.Reconnect(ctx, ranks) }

// Stats returns the counters.
func (s *Space) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// LinkStats returns the counters of the links.
func (s *Space) LinkStats() transport.Stats { return s.ep.Stats() }

// Close ends all links. Transactions under way end as after a lost link. Close closes each export after it has revoked
// the windows; an error names bytes that a peer may still be inside of.
func (s *Space) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.done
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	_ = s.ep.Close()
	s.mu.Lock()
	for rank, p := range s.peers {
		s.requester.peerDown(rank, ErrClosed)
		for _, im := range p.imports {
			im.invalidate(ErrClosed)
		}
		close(p.done)
	}
	s.runActions()
	var exports []*exported
	for _, e := range s.responder.exports {
		exports = append(exports, e)
	}
	s.mu.Unlock()
	close(s.done)
	s.wg.Wait()
	var first error
	for _, e := range exports {
		if err := s.withdraw(e); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (s *Space) now() int64 { return int64(time.Since(s.start)) + 1 }

// wakePump wakes the pump.
func (s *Space) wakePump() {
	select {
	case s.pumpWake <- struct{}{}:
	default:
	}
}

// runActions does what the cores have requested. The caller holds mu.
func (s *Space) runActions() {
	u := s.requester
	for i := 0; i < len(u.actions); i++ {
		a := u.actions[i]
		f := &s.flights[a.slot]
		switch {
		case a.verb == actStart && f.posted != nil:
			s.postsReady = append(s.postsReady, a.id)
			s.wakePump()
		case a.verb == actStart:
			f.call.started, f.call.id = true, a.id
			f.call.notify()
		case f.call != nil:
			c := f.call
			f.call = nil
			c.reported, c.outcome, c.cause, c.partial = true, a.outcome, a.why, f.somePlaced
			c.notify()
		}
		if a.verb == actReport && a.slotFreed {
			if f.posted != nil {
				f.posted.pool.release(f.posted.bufferIndex)
			}
			s.tokens[f.peer] <- struct{}{}
			*f = flight{}
		}
	}
	u.actions = u.actions[:0]
	for i := range s.responder.outgoing {
		o := &s.responder.outgoing[i]
		_ = s.send(o.peer, &o.message)
		o.body = nil
	}
	s.responder.outgoing = s.responder.outgoing[:0]
	for _, r := range s.responder.outgoingReads {
		s.peers[r.peer].queueRead(r.readJob)
	}
	s.responder.outgoingReads = s.responder.outgoingReads[:0]
}

// send sends a message, without waiting. An error means that the link is over, which LinkDown reports. The caller holds
// mu.
func (s *Space) send(rank int, m *message) error {
	s.scratch = m.append(s.scratch[:0])
	return s.ep.Signal(rank, s.scratch)
}

// pump is the clock of write buffers and time-outs.
func (s *Space) pump() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now := s.now()
		s.requester.expire(now)
		s.runActions() // before other transactions get the slots that are free now
		for b, ok := s.combiner.dueBuffer(now); ok; b, ok = s.combiner.dueBuffer(now) {
			s.sendBuffer(b)
		}
		s.runActions()
		next := s.requester.earliestDeadline
		if at := s.combiner.deadline(); at != 0 && (next == 0 || at < next) {
			next = at
		}
		s.mu.Unlock()
		s.sendPosted()
		wait := time.Hour
		if next != 0 {
			wait = time.Duration(max(0, next-s.now()))
		}
		timer.Reset(wait)
		select {
		case <-s.pumpWake:
		case <-timer.C:
		case <-s.done:
			return
		}
	}
}
