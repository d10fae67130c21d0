package transport

import (
	"fmt"
	"math"
	"sync"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// loopback is a node's link to itself: no datagrams, the same checks and the same manners. Requests are served in order by a
// goroutine of its own, because a handler may make further requests.
type loopback struct {
	// immutable
	peer    shmem.Peer
	rank    int
	table   *shmem.Table
	handler Handler

	mu     sync.Mutex // guards what follows
	ready  *sync.Cond // there is something to do, or room for a request again
	queue  []request
	queued int // writes and fences in queue
	closed bool
	stats  link.Stats

	placed []Placement // owned by serve: scratch

	wg sync.WaitGroup
}

type request struct {
	kind   link.Kind // Completed: a write, PlacedMany: pieces, Fenced: a fence, Signalled: a signal
	write  link.Write
	pieces []link.Piece
	signal []byte
}

func newLoopback(peer shmem.Peer, rank int, table *shmem.Table, h Handler) *loopback {
	l := &loopback{peer: peer, rank: rank, table: table, handler: h}
	l.ready = sync.NewCond(&l.mu)
	l.wg.Go(l.serve)
	return l
}

// loopbackQueue is how many writes and fences may wait, as many as on a link (seed 004, X1).
const loopbackQueue = 1024

func (l *loopback) write(w link.Write) error {
	return l.push(request{kind: link.Completed, write: w}, loopbackQueue)
}

func (l *loopback) writeMany(pieces []link.Piece, cookie uint64) error {
	return l.push(request{kind: link.PlacedMany, pieces: pieces, write: link.Write{Cookie: cookie}}, loopbackQueue)
}

func (l *loopback) fence(cookie uint64) error {
	return l.push(request{kind: link.Fenced, write: link.Write{Cookie: cookie}}, loopbackQueue)
}

// signal never waits, so a Handler may call it.
func (l *loopback) signal(p []byte) error {
	if len(p) > link.MaxSignal {
		return fmt.Errorf("signal to this node is %d bytes long, more than %d", len(p), link.MaxSignal)
	}
	return l.push(request{kind: link.Signalled, signal: append([]byte(nil), p...)}, math.MaxInt)
}

// push queues a request once fewer than room writes and fences wait.
func (l *loopback) push(r request, room int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.queued >= room && !l.closed {
		l.ready.Wait()
	}
	if l.closed {
		return ErrClosed
	}
	l.queue = append(l.queue, r)
	if r.kind == link.Signalled {
		l.stats.SignalsSent++
	} else {
		l.queued++
	}
	l.ready.Broadcast()
	return nil
}

func (l *loopback) serve() {
	var batch []request
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && !l.closed {
			l.ready.Wait()
		}
		if l.closed {
			l.mu.Unlock()
			return
		}
		batch, l.queue = l.queue, batch[:0]
		l.queued = 0
		l.ready.Broadcast()
		l.mu.Unlock()
		for i := range batch {
			if l.over() {
				return
			}
			l.do(&batch[i])
		}
		clear(batch)
	}
}

// over reports whether the endpoint is closed; what is queued then has no outcome, as on a link.
func (l *loopback) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *loopback) do(r *request) {
	switch r.kind {
	case link.Fenced:
		l.handler.Completed(l.rank, r.write.Cookie, nil)
	case link.Signalled:
		l.count(func(s *link.Stats) { s.SignalsReceived++ })
		l.handler.Signal(l.rank, r.signal)
	case link.PlacedMany:
		l.placeMany(r.pieces, r.write.Cookie)
	default:
		l.place(&r.write)
	}
}

func (l *loopback) place(w *link.Write) {
	access := shmem.AccessNwrite
	if w.Dmove {
		access = shmem.AccessDmove
	}
	if w.Dmove && w.Deadline != 0 && monotonic() > w.Deadline {
		l.count(func(s *link.Stats) { s.WritesExpired++ })
		l.handler.Completed(l.rank, w.Cookie, &link.RefusedError{Peer: "this node", Reason: link.ReasonExpired})
		return
	}
	p := Placement{Ref: w.Ref, Offset: w.Offset, Length: uint32(len(w.Data)), Imm: w.Imm}
	dst, v := l.table.Acquire(l.peer, w.Ref, w.Offset, uint32(len(w.Data)), access)
	if v != 0 {
		err := &link.RefusedError{Peer: "this node", Reason: link.Reason(v)}
		l.count(func(s *link.Stats) { s.WritesRefused++ })
		l.handler.Refused(l.rank, p, err)
		l.handler.Completed(l.rank, w.Cookie, err)
		return
	}
	copy(dst, w.Data)
	l.table.Release(w.Ref)
	l.count(func(s *link.Stats) { s.BytesPlaced += uint64(len(w.Data)); s.WritesCompleted++ })
	l.handler.Placed(l.rank, p)
	l.handler.Completed(l.rank, w.Cookie, nil)
}

// placeMany places what is allowed of the pieces, and refuses the rest by name.
func (l *loopback) placeMany(pieces []link.Piece, cookie uint64) {
	l.placed = l.placed[:0]
	var refused error
	bytes := uint64(0)
	for i := range pieces {
		p := &pieces[i]
		at := Placement{Ref: p.Ref, Length: uint32(len(p.Data)), Imm: p.Imm}
		dst, v := l.table.Acquire(l.peer, p.Ref, 0, at.Length, shmem.AccessNwrite)
		if v != 0 {
			err := &link.RefusedError{Peer: "this node", Reason: link.Reason(v)}
			l.handler.Refused(l.rank, at, err)
			if refused == nil {
				refused = err
			}
			continue
		}
		copy(dst, p.Data)
		l.table.Release(p.Ref)
		bytes += uint64(at.Length)
		l.placed = append(l.placed, at)
	}
	l.mu.Lock()
	l.stats.BytesPlaced += bytes
	if refused == nil {
		l.stats.WritesCompleted++
	} else {
		l.stats.WritesRefused++
	}
	l.mu.Unlock()
	if len(l.placed) > 0 {
		l.handler.PlacedMany(l.rank, l.placed)
	}
	l.handler.Completed(l.rank, cookie, refused)
}

func (l *loopback) count(f func(*link.Stats)) {
	l.mu.Lock()
	f(&l.stats)
	l.mu.Unlock()
}

func (l *loopback) addStats(s *link.Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Add(&l.stats)
}

func (l *loopback) close() {
	l.mu.Lock()
	l.closed = true
	l.ready.Broadcast()
	l.mu.Unlock()
	l.wg.Wait()
}
