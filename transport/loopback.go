package transport

import (
	"sync"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// loopback is a node's link to itself: no datagrams, the same checks. Requests are served in order by a goroutine of its own,
// because a handler may make further requests.
type loopback struct {
	// immutable
	peer    shmem.Peer
	rank    int
	table   *shmem.Table
	handler Handler

	mu     sync.Mutex // guards what follows
	ready  *sync.Cond
	queue  []request
	closed bool
	stats  link.Stats

	wg sync.WaitGroup
}

type request struct {
	kind   link.Kind // Completed: a write, Fenced: a fence, Signalled: a signal
	write  link.Write
	signal []byte
}

func newLoopback(peer shmem.Peer, rank int, table *shmem.Table, h Handler) *loopback {
	l := &loopback{peer: peer, rank: rank, table: table, handler: h}
	l.ready = sync.NewCond(&l.mu)
	l.wg.Go(l.serve)
	return l
}

func (l *loopback) write(w link.Write) error { return l.push(request{kind: link.Completed, write: w}) }

func (l *loopback) fence(cookie uint64) error {
	return l.push(request{kind: link.Fenced, write: link.Write{Cookie: cookie}})
}

func (l *loopback) signal(p []byte) error {
	return l.push(request{kind: link.Signalled, signal: append([]byte(nil), p...)})
}

func (l *loopback) push(r request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.queue = append(l.queue, r)
	l.ready.Signal()
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
		l.mu.Unlock()
		for i := range batch {
			l.do(&batch[i])
		}
		clear(batch)
	}
}

func (l *loopback) do(r *request) {
	switch r.kind {
	case link.Fenced:
		l.handler.Completed(l.rank, r.write.Cookie, nil)
	case link.Signalled:
		l.handler.Signal(l.rank, r.signal)
	default:
		l.place(&r.write)
	}
}

func (l *loopback) place(w *link.Write) {
	access := shmem.AccessNwrite
	if w.Dmove {
		access = shmem.AccessDmove
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
