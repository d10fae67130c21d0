package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/memory"
)

const (
	// maxBatch is how many descriptors are taken before the client is told of their answers.
	maxBatch = 256
	// maxMerged is how many writes travel together: half of the ring, so that the client can fill the other half
	// meanwhile.
	maxMerged = ringDescriptors / 2
)

// segment is a client's import, in each ordering context.
type segment struct{ imports [numContexts]*memory.Import }

func (g *segment) Allows(off int64, n int, want memory.Allow) (memory.Attributes, memory.Cause) {
	return g.imports[0].Allows(off, n, want)
}

func (g *segment) close() { g.imports[0].Close() }

// acceptDescriptors takes n descriptors.
func (s *session) acceptDescriptors(n uint64) {
	var refused Counts
	for ; n > 0; n-- {
		at := len(s.batch)
		if at == cap(s.batch) {
			s.flush()
			at = 0
		}
		r := &s.batch[:at+1][at]
		d := s.descriptor(s.core.consumedDescriptors)
		if why := s.core.consume(&d, s.data, r); why != 0 {
			a := refusal(why)
			refused.count(a, 1)
			s.complete(r.position, a)
			continue
		}
		if r.op == opWait {
			s.core.markPending(r)
			s.wait(*r)
			continue
		}
		to := s.workerFor(r)
		if to != s.batchWorker && at > 0 {
			next := *r
			s.flush()
			s.batch = append(s.batch, next)
		} else {
			s.batch = s.batch[:at+1]
		}
		s.batchWorker = to
	}
	s.flush()
	if refused.Descriptors > 0 {
		s.addCounts(&refused)
	}
	s.completedBell.Wake()
}

// workerFor returns the worker for a request, or nil if this goroutine can carry it out without waiting: no earlier
// request of its context is under way, or in the present batch for the context's worker.
func (s *session) workerFor(r *request) *contextWorker {
	l := s.workers[r.context]
	idle := l == nil || l.pending.Load() == 0 && (l != s.batchWorker || len(s.batch) == 0)
	quick := r.op == opSize || r.op == opLeave
	if idle && r.op >= opWrite && r.op <= opCompare && r.flags&flagNotify == 0 {
		im := r.target.(*segment).imports[r.context]
		quick = im.Mapped() && s.contextIdle(r.context, im)
	}
	if idle && quick {
		return nil
	}
	if l == nil {
		l = &contextWorker{executor: executor{session: s}, wake: make(chan struct{}, 1)}
		s.workers[r.context] = l
		s.wg.Go(l.serve)
	}
	return l
}

// contextIdle reports whether a context has no transaction under way in the Space. A transaction without an answer in
// time, of this client or an earlier one, keeps its place in the order, and ordered ones behind it wait. Transactions
// of this goroutine end before it goes on.
func (s *session) contextIdle(context uint8, im *memory.Import) bool {
	if !s.contextsIdle[context] {
		s.contextsIdle[context] = im.Idle()
	}
	return s.contextsIdle[context]
}

// flush carries out the present batch, or passes it to its worker.
func (s *session) flush() {
	switch {
	case len(s.batch) == 0:
		return
	case s.batchWorker == nil:
		s.inlineExecutor.executeAll(s.batch)
	default:
		s.contextsIdle[s.batch[0].context] = false
		for i := range s.batch {
			s.core.markPending(&s.batch[i])
		}
		s.batchWorker.push(s.batch)
	}
	s.batch = s.batch[:0]
}

func (s *session) addCounts(c *Counts) {
	d := s.gateway
	d.mu.Lock()
	s.counts.add(c)
	d.stats.add(c)
	d.mu.Unlock()
}

// answer completes a request.
func (s *session) answer(r *request, a answer) {
	s.core.finish(r)
	s.complete(r.position, a)
}

// wait waits for a notice in a goroutine of its own.
func (s *session) wait(r request) {
	s.wg.Go(func() {
		ctx, cancel := s.withTimeout(r.timeoutMillis)
		defer cancel()
		value, err := r.target.(*segment).imports[0].Wait(ctx, r.remote, r.a)
		a := answerOf(err)
		a.hasValue, a.value = err == nil, value
		var c Counts
		c.count(a, 1)
		s.addCounts(&c)
		s.answer(&r, a)
		s.completedBell.Wake()
	})
}

// withTimeout makes a context that ends with the session, or after ms milliseconds; 0: no time-out.
func (s *session) withTimeout(ms uint32) (context.Context, context.CancelFunc) {
	if ms == 0 {
		return s.ctx, func() {}
	}
	return context.WithTimeoutCause(s.ctx, time.Duration(ms)*time.Millisecond, memory.ErrTimeout)
}

// contextWorker carries out the requests of an ordering context, in order.
type contextWorker struct {
	executor
	wake    chan struct{}
	pending atomic.Int64 // requests that have no answer yet

	mu         sync.Mutex
	queue      []request // guarded by mu; no longer than the ring of descriptors
	spareQueue []request
}

// push queues requests.
func (l *contextWorker) push(rs []request) {
	l.pending.Add(int64(len(rs)))
	l.mu.Lock()
	l.queue = append(l.queue, rs...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *contextWorker) serve() {
	for done := false; !done; {
		select {
		case <-l.wake:
		case <-l.session.ctx.Done():
			done = true // the closed context has queued requests refused at once
		}
		l.drainQueue()
	}
}

// drainQueue carries out the queued requests.
func (l *contextWorker) drainQueue() {
	for {
		l.mu.Lock()
		rs := l.queue
		l.queue, l.spareQueue = l.spareQueue[:0], rs
		l.mu.Unlock()
		if len(rs) == 0 {
			return
		}
		for len(rs) > 0 {
			n := mergeableCount(rs)
			l.executeAll(rs[:n])
			l.pending.Add(-int64(n))
			l.session.completedBell.Wake()
			rs = rs[n:]
		}
	}
}

// executor carries out requests, for one goroutine.
type executor struct {
	session *session
	pieces  []memory.Piece
}

// mergeableCount is how many requests, from the first on, can travel as one: plain writes of one context to one
// segment, to pages without the attribute Ordered.
func mergeableCount(rs []request) int {
	first := &rs[0]
	if !first.canMerge() {
		return 1
	}
	n := 1
	for n < len(rs) && n < maxMerged {
		r := &rs[n]
		if !r.canMerge() || r.context != first.context || r.target != first.target || r.timeoutMillis != first.timeoutMillis {
			break
		}
		n++
	}
	return n
}

func (r *request) canMerge() bool {
	return r.op == opWrite && r.flags == 0 && r.attributes&memory.Ordered == 0
}

// executeAll carries out requests and answers them.
func (u *executor) executeAll(rs []request) {
	var c Counts
	for len(rs) > 0 {
		n := mergeableCount(rs)
		a := u.execute(rs[:n])
		c.count(a, n)
		for i := range rs[:n] {
			u.session.answer(&rs[i], a)
		}
		rs = rs[n:]
	}
	u.session.addCounts(&c)
}

// execute carries out one request, or plain writes that travel as one.
func (u *executor) execute(rs []request) answer {
	s, r := u.session, &rs[0]
	ctx, cancel := s.withTimeout(r.timeoutMillis)
	defer cancel()
	if r.op == opImport {
		return u.importSegment(ctx, r)
	}
	g := r.target.(*segment)
	im := g.imports[r.context]
	var value uint64
	var err error
	switch r.op {
	case opWrite:
		return u.write(ctx, im, rs)
	case opRead:
		return u.read(ctx, im, r)
	case opLeave:
		g.close()
	case opSize:
		value = uint64(im.Size())
	case opAdd:
		value, err = im.Add(ctx, r.remote, r.a)
	case opSwap:
		value, err = im.Swap(ctx, r.remote, r.a)
	case opCompare:
		value, err = im.CompareAndSwap(ctx, r.remote, r.a, r.b)
	case opNotify:
		value, err = im.Notify(ctx, r.remote)
	case opFence:
		err = im.Fence(ctx)
	}
	a := answerOf(err)
	a.hasValue, a.value = err == nil && rules[r.op].hasValue, value
	return a
}

func (u *executor) importSegment(ctx context.Context, r *request) answer {
	s := u.session
	name := string(s.data[r.local:][:r.length]) // a copy
	im, err := s.gateway.cfg.Space.Import(ctx, name)
	if err != nil {
		s.core.freeRow(r.handle)
		return answerOf(err)
	}
	g := &segment{}
	for i := range g.imports {
		g.imports[i] = im.InContext(i)
	}
	s.core.setTarget(r.handle, g)
	return answer{outcome: outcomeDone, hasValue: true, value: uint64(r.handle)}
}

// write writes the pieces of plain writes, or of a list.
func (u *executor) write(ctx context.Context, im *memory.Import, rs []request) answer {
	u.pieces = u.pieces[:0]
	r := &rs[0]
	if r.flags&flagList != 0 {
		for _, p := range r.list {
			u.appendPiece(p)
		}
	} else {
		for i := range rs {
			u.appendPiece(rs[i].piece)
		}
	}
	a := answerOf(im.WriteMany(ctx, u.pieces))
	if r.flags&flagNotify != 0 && a.outcome == outcomeDone {
		if _, err := im.Notify(ctx, r.remote); err != nil {
			if a = answerOf(err); a.outcome == outcomeRefused {
				a.outcome = outcomePartial
			}
		}
	}
	return a
}

// appendPiece adds a piece. It joins a piece that continues the one before, in the data area and in the segment, but no
// words, which are stored atomically.
func (u *executor) appendPiece(p piece) {
	data := u.session.data[p.local:][:p.length]
	if n := len(u.pieces); n > 0 {
		last := &u.pieces[n-1]
		if end := len(last.Data); last.Offset+int64(end) == p.remote && p.length != 8 && end != 8 &&
			cap(last.Data)-cap(data) == end {
			last.Data = last.Data[:end+int(p.length)]
			return
		}
	}
	u.pieces = append(u.pieces, memory.Piece{Offset: p.remote, Data: data})
}

func (u *executor) read(ctx context.Context, im *memory.Import, r *request) answer {
	pieces := r.list
	if r.flags&flagList == 0 {
		return answerOf(im.Read(ctx, r.remote, u.session.data[r.local:][:r.length]))
	}
	for i, p := range pieces {
		if a := answerOf(im.Read(ctx, p.remote, u.session.data[p.local:][:p.length])); a.outcome != outcomeDone {
			if i > 0 && a.outcome == outcomeRefused {
				a.outcome = outcomePartial
			}
			return a
		}
	}
	return answer{outcome: outcomeDone}
}

// answerOf returns the answer for an error of package memory.
func answerOf(err error) answer {
	if err == nil {
		return answer{outcome: outcomeDone}
	}
	a := answer{outcome: outcomeUnknown, cause: otherCause}
	var e *memory.Error
	if !errors.As(err, &e) {
		return a
	}
	switch {
	case e.Outcome == memory.Refused && e.Partial:
		a.outcome = outcomePartial
	case e.Outcome == memory.Refused:
		a.outcome = outcomeRefused
	}
	if cause := memory.Cause(0); errors.As(err, &cause) && Cause(cause) < badOperation {
		a.cause = Cause(cause)
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		a.cause = Cause(memory.ErrClosed)
	}
	return a
}
