package decision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/internal/address"
	"ringlet/internal/connlimit"
	"ringlet/internal/secret"
	"ringlet/shmem"
)

// maxQueueBytes is the size of a subscriber's queue. At 1 MHz it outlasts a subscriber that stalls for 65 ms.
const maxQueueBytes = 65536 * ResultSize

// byteQueue is a queue of encoded decisions for one subscriber; push never waits.
type byteQueue struct {
	wake chan struct{} // capacity 1: the queue is not empty, or is closed

	mu     sync.Mutex // guards what follows
	bytes  []byte     // at most maxQueueBytes
	spare  []byte     // swapped with bytes by drain
	closed bool
}

func newQueue() *byteQueue {
	return &byteQueue{
		wake:  make(chan struct{}, 1),
		bytes: make([]byte, 0, maxQueueBytes),
		spare: make([]byte, 0, maxQueueBytes),
	}
}

// push appends b, and says whether there was room.
func (q *byteQueue) push(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.bytes)+len(b) > maxQueueBytes {
		return false
	}
	q.bytes = append(q.bytes, b...)
	q.notify()
	return true
}

func (q *byteQueue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drain waits for decisions and returns all of them, valid until the next drain; empty: the queue was closed and is
// empty, or ctx ended.
func (q *byteQueue) drain(ctx context.Context) []byte {
	for {
		q.mu.Lock()
		b, closed := q.bytes, q.closed
		q.bytes, q.spare = q.spare[:0], b
		q.mu.Unlock()
		if len(b) > 0 || closed {
			return b
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// queuedBytes returns how many decisions wait in the queue.
func (q *byteQueue) queuedBytes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.bytes) / ResultSize
}

func (q *byteQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.notify()
}

// OutletStats count the decisions for subscribers, over all outlets of a node.
type OutletStats struct {
	Handed            atomic.Uint64 `help:"decisions handed to subscribers, to each"`
	NoSpace           atomic.Uint64 `count:"untaken" help:"decisions that a shared-memory buffer had no room for"`
	SubscribersJoined atomic.Uint64 `count:"subscribers_joined" help:"subscribers that came by TCP"`
	SubscribersCutOff atomic.Uint64 `count:"subscribers_slow" help:"subscribers by TCP cut off as too slow"`
}

// bufferBytes is the size of the shared-memory buffer, as of the queue, so that a reader may stall for twice that
// time.
const bufferBytes = 1 << 20

// entryDecisions is the type of entries in a buffer of decisions: "RDEC".
const entryDecisions = 0x43454452

// BufferOutlet passes decisions on in a shared-memory buffer (docs/format/buffer.md), some consecutive ones per entry.
type BufferOutlet struct {
	w     *shmem.Writer
	q     *byteQueue
	stats *OutletStats
	log   *slog.Logger
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// OpenBuffer creates the buffer of that name.
func OpenBuffer(name string, stats *OutletStats, log *slog.Logger) (*BufferOutlet, error) {
	w, err := shmem.CreateWriter(name, bufferBytes, shmem.Broadcast)
	if err != nil {
		return nil, fmt.Errorf("the buffer for decisions: %w", err)
	}
	r := &BufferOutlet{
		w:     w,
		q:     newQueue(),
		stats: stats,
		log:   log,
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.wg.Go(r.write)
	return r, nil
}

// Publish queues decisions for the readers.
func (r *BufferOutlet) Publish(b []byte) {
	if !r.q.push(b) {
		r.stats.NoSpace.Add(uint64(len(b) / ResultSize))
	}
}

// entryBytes is the most bytes of one entry: the queue may hold more than the buffer takes at once.
const entryBytes = maxBatch * ResultSize

func (r *BufferOutlet) write() {
	for {
		b := r.q.drain(r.ctx)
		if len(b) == 0 {
			return
		}
		for len(b) > 0 {
			n := min(len(b), entryBytes)
			if err := r.commit(b[:n]); err != nil {
				if r.ctx.Err() == nil {
					r.log.Error("the buffer for decisions takes no more", "err", err)
				}
				r.q.close()
				r.stats.NoSpace.Add(uint64((len(b) + len(r.q.drain(r.ctx))) / ResultSize))
				return
			}
			r.stats.Handed.Add(uint64(n / ResultSize))
			b = b[n:]
		}
	}
}

func (r *BufferOutlet) commit(b []byte) error {
	p, err := r.w.Reserve(r.ctx, len(b))
	for errors.Is(err, shmem.ErrReaderDead) {
		if _, err = r.w.DetachDead(); err == nil {
			p, err = r.w.Reserve(r.ctx, len(b))
		}
	}
	if err != nil {
		return err
	}
	copy(p.Data, b)
	return r.w.Commit(p, len(b), entryDecisions)
}

// outletCloseTimeout is how long Close waits for subscribers to take their decisions.
const outletCloseTimeout = time.Second

// Close ends the buffer when its readers have all decisions, or after outletCloseTimeout.
func (r *BufferOutlet) Close() error {
	r.q.close()
	over := time.AfterFunc(outletCloseTimeout, r.stop)
	r.wg.Wait()
	over.Stop()
	r.stop()
	return errors.Join(r.w.End(), r.w.Close())
}

// Server passes decisions on by TCP: each connection gets all that are made while it is open, ResultSize bytes each.
type Server struct {
	lis      net.Listener
	secret   []byte // a subscriber must prove that it has it; nil: it need not
	stats    *OutletStats
	log      *slog.Logger
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup
	logLimit connlimit.LogLimiter

	mu     sync.Mutex // guards what follows
	subs   map[*subscriber]bool
	closed bool
}

type subscriber struct {
	conn net.Conn
	q    *byteQueue
}

// The most TCP connections, and the most from one host.
const (
	maxSubscribers        = 64
	maxSubscribersPerHost = 16
)

// Listen opens the server at an address, HOST:PORT or HOST:PORT?secret=FILE.
func Listen(text string, stats *OutletStats, log *slog.Logger) (*Server, error) {
	at, key, err := secret.SplitAndRead(text)
	if err != nil {
		return nil, fmt.Errorf("the outlet of decisions has no secret: %w", err)
	}
	lis, err := address.ListenTCP(at)
	if err != nil {
		return nil, fmt.Errorf("cannot bind the address for decisions: %w", err)
	}
	if key == nil && !address.IsLocalOnly(lis.Addr()) {
		log.Warn("any host that reaches this address can read decisions: put ?secret=FILE after the address of "+
			"decision-output, or listen on loopback", "address", lis.Addr())
	}
	s := &Server{
		secret: key,
		lis: connlimit.ListenWith(lis, &connlimit.Gate{MaxTotal: maxSubscribers, MaxPerHost: maxSubscribersPerHost},
			log),
		stats:    stats,
		log:      log,
		subs:     map[*subscriber]bool{},
		logLimit: connlimit.LogLimiter{Burst: connlimit.Burst},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

// Addr returns the address at which it listens.
func (s *Server) Addr() net.Addr { return s.lis.Addr() }

func (s *Server) accept() {
	for {
		conn, err := s.lis.Accept()
		if err != nil {
			if !s.isClosed() {
				s.log.Error("no further subscriber to decisions is accepted", "err", err)
			}
			return
		}
		if s.secret == nil {
			s.join(conn)
			continue
		}
		connlimit.SetYielding(conn, true)
		s.wg.Go(func() {
			err := s.authenticate(conn)
			if !connlimit.SetYielding(conn, err != nil) {
				return // its place went to a new connection, and the log says so
			}
			if err != nil && s.ctx.Err() == nil {
				s.logLimited(slog.LevelWarn, "a subscriber without the secret gets no decisions", "remote", conn.RemoteAddr(),
					"err", err)
			}
			if err != nil {
				_ = conn.Close()
				return
			}
			s.join(conn)
		})
	}
}

// logLimited writes to the log, but rarely if the same message comes often.
func (s *Server) logLimited(level slog.Level, what string, args ...any) {
	if suppressed, yes := s.logLimit.Allow(what, time.Now()); yes {
		s.log.Log(s.ctx, level, what, append(args, "unreported", suppressed)...)
	}
}

// join gives a connection all decisions from now on.
func (s *Server) join(conn net.Conn) {
	sub := &subscriber{conn, newQueue()}
	s.mu.Lock()
	s.subs[sub] = true
	if s.closed {
		sub.q.close()
	}
	s.mu.Unlock()
	s.stats.SubscribersJoined.Add(1)
	s.logLimited(slog.LevelInfo, "decisions are subscribed to", "remote", conn.RemoteAddr())
	s.wg.Go(func() { s.serve(sub) })
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// serve writes until the subscriber leaves, is too slow, or the queue is closed.
func (s *Server) serve(sub *subscriber) {
	defer func() {
		s.mu.Lock()
		delete(s.subs, sub)
		s.mu.Unlock()
		_ = sub.conn.Close()
	}()
	defer context.AfterFunc(s.ctx, func() { _ = sub.conn.Close() })()
	for {
		b := sub.q.drain(s.ctx)
		if len(b) == 0 {
			return
		}
		if _, err := sub.conn.Write(b); err != nil {
			if s.ctx.Err() != nil {
				s.cutOffSlow(sub, "a subscriber to decisions is cut off: it did not take the last ones when the run ended")
			}
			return // the subscriber has left, or this server has cut it off and logged that
		}
		s.stats.Handed.Add(uint64(len(b) / ResultSize))
	}
}

// Publish queues decisions for all subscribers. It cuts off one whose queue is full, since it would miss decisions.
func (s *Server) Publish(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.subs {
		if sub.q.push(b) {
			continue
		}
		s.cutOffSlow(sub, "a subscriber to decisions is cut off: it does not read them as fast as they are made")
		delete(s.subs, sub)
		_ = sub.conn.Close()
		sub.q.close()
	}
}

// cutOffSlow counts and logs that a subscriber is cut off.
func (s *Server) cutOffSlow(sub *subscriber, why string) {
	s.stats.SubscribersCutOff.Add(1)
	s.logLimited(slog.LevelWarn, why, "remote", sub.conn.RemoteAddr(), "behind", sub.q.queuedBytes())
}

// Close ends all connections when they have their decisions, or after outletCloseTimeout.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for sub := range s.subs {
		sub.q.close()
	}
	s.mu.Unlock()
	err := s.lis.Close()
	over := time.AfterFunc(outletCloseTimeout, s.stop)
	s.wg.Wait()
	over.Stop()
	s.stop()
	s.logLimit.LogUnreported(s.log)
	return err
}

// An OutletAddress is the address of an outlet: a kind, and a name or HOST:PORT.
type OutletAddress struct{ Kind, Location string }

// Kinds of outlets.
const (
	OutletBuffer = "buffer"
	OutletTCP    = "tcp"
)

// ParseAddresses parses a list of outlets, such as buffer:NAME,tcp:HOST:PORT.
func ParseAddresses(text string) (out []OutletAddress, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		kind, at, ok := strings.Cut(strings.TrimSpace(one), ":")
		a := OutletAddress{kind, at}
		switch {
		case !ok || at == "" || kind != OutletBuffer && kind != OutletTCP:
			return nil, fmt.Errorf("%q is not an outlet of decisions: give buffer:NAME or tcp:HOST:PORT", one)
		case kind == OutletBuffer && strings.ContainsAny(at, "/ "):
			return nil, fmt.Errorf("%q cannot be the name of a buffer: it has a slash or a space", at)
		case kind == OutletTCP:
			where, _, err := secret.SplitAddress(at)
			if err == nil {
				err = address.CheckListen(where)
			}
			if err != nil {
				return nil, fmt.Errorf("the address for decisions %w", err)
			}
		}
		out = append(out, a)
	}
	return out, nil
}
