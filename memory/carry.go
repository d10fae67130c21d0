package memory

// What carries transactions out: loads and stores where memory is mapped, link writes and requests where it is not.

import (
	"context"
	"encoding/binary"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// op is a transaction as its caller asks for it.
type op struct {
	name    string
	kind    kind // 0: a write, or a fence
	off     int64
	pieces  []Piece // of a write
	dst     []byte  // of a read
	a, b    uint64
	body    []byte
	ordered bool
	aside   bool
	fence   bool
	result  uint64
}

func (o *op) isWord() bool { return o.kind == kindAdd || o.kind == kindSwap || o.kind == kindCompare }

// length is how many bytes it is about.
func (o *op) length() (n int) {
	switch {
	case o.isWord():
		return shmem.WordSize
	case o.kind == kindNotify || o.kind == kindWait:
		return 1
	}
	for i := range o.pieces {
		n += len(o.pieces[i].Data)
	}
	return n + len(o.dst)
}

// call is a caller that waits. What the shell writes into it is guarded by the Space's mu.
type call struct {
	op      op
	one     [1]Piece
	slot    int
	id      uint64
	until   int64 // its deadline
	wake    chan struct{}
	started bool
	told    bool
	outcome Outcome
	why     Cause
	partial bool
	a, b    uint64
	body    []byte
	landing shmem.Ref // of a long read
}

func (s *Space) getCall() *call {
	c, ok := s.calls.Get().(*call)
	if !ok {
		return &call{wake: make(chan struct{}, 1)}
	}
	*c = call{wake: c.wake}
	select {
	case <-c.wake:
	default:
	}
	return c
}

// putCall gives a call back that was told, or never begun: nobody else knows it any more.
func (s *Space) putCall(c *call) {
	c.op, c.one, c.body = op{}, [1]Piece{}, nil
	s.calls.Put(c)
}

func (c *call) stir() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// flight is what a slot has on its way.
type flight struct {
	peer   int
	call   *call // nil once it is told
	posted *kept // a write buffer on its way
	left   int   // link writes without outcome
	sent   int   // link writes
	sealed bool  // no more will be queued
	placed bool  // some are in place
	short  bool  // so short that it is placed whole or not at all
	find   bool
	// of a long read
	landing shmem.Ref
	missing int // bytes
	bad     Cause
}

// shortWrite fits the smallest datagram, in which a write is placed whole or not at all.
const shortWrite = link.MinDatagram - link.BulkHead

func (c Cause) orNil() error {
	if c == reasonNone {
		return nil
	}
	return c
}

func putWord(b []byte, w uint64) { binary.LittleEndian.PutUint64(b, w) }

// mayGo reports whether a transaction may go at once beside the order of its context. What write buffers of the context
// hold leaves before it. One whose like nobody waits for is refused behind a failure of its like.
func (s *Space) mayGo(ordering int, ordered, posted bool) (bool, Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush(ordering)
	c := &s.user.contexts[ordering]
	switch {
	case posted && c.failed.outcome != Done:
		return false, ErrEarlier
	case c.held.head != none || c.exclusive || ordered && !s.user.idle(ordering):
		return false, reasonNone
	}
	s.stats.Direct++
	return true, reasonNone
}

// direct carries a transaction out by loads and stores.
func (im *imported) direct(o *op) (out Outcome, why Cause, partial bool) {
	switch {
	case o.isWord():
		ok := false
		why = im.reach(o.off, shmem.WordSize, shmem.AccessLock, func(mem []byte) {
			o.result, ok = step(mem, o.kind, o.a, o.b)
		})
		if why == reasonNone && !ok {
			why = ErrMisaligned
		}
	case o.kind == kindLoad:
		why, _ = im.each(o.off, o.dst, func(*run) shmem.Access { return shmem.AccessRead }, func(mine, theirs []byte) {
			loadInto(mine, theirs)
		})
	default:
		for _, p := range o.pieces {
			var some bool
			why, some = im.each(p.Offset, p.Data, func(r *run) shmem.Access { return writeAccess(r.attributes) },
				func(mine, theirs []byte) { storeFrom(theirs, mine) })
			partial = partial || some
			if why != reasonNone {
				break
			}
		}
	}
	if why != reasonNone {
		return Refused, why, partial
	}
	return Done, why, false
}

// storeFrom copies; a single word in one step.
func storeFrom(dst, src []byte) {
	if len(dst) == shmem.WordSize {
		if w := shmem.Word(dst); w != nil {
			w.Store(binary.LittleEndian.Uint64(src))
			return
		}
	}
	copy(dst, src)
}

// each pins one row of the table after the other. Some says that not the first one failed.
func (im *imported) each(off int64, mine []byte, a func(*run) shmem.Access,
	do func(mine, theirs []byte)) (why Cause, some bool) {
	for len(mine) > 0 {
		r := im.find(off)
		_, n := r.part(off, len(mine))
		if why := im.reach(off, n, a(r), func(theirs []byte) { do(mine[:n], theirs) }); why != reasonNone {
			return why, some
		}
		mine, off, some = mine[n:], off+int64(n), true
	}
	return reasonNone, false
}

// reach pins bytes of one row while do is at them.
func (im *imported) reach(off int64, n int, a shmem.Access, do func([]byte)) Cause {
	r := im.find(off)
	at, _ := r.part(off, n)
	mem, v, err := im.mapped.Acquire(r.ref, at, uint32(n), a)
	switch {
	case err != nil:
		return ErrLinkDown
	case v != 0:
		return reasonOf(v)
	}
	do(mem)
	im.mapped.Release(r.ref)
	return reasonNone
}

// do takes a transaction through the cores.
func (im *imported) do(ctx context.Context, c *call, ordering int) error {
	if err := im.begin(ctx, c, ordering); err != nil {
		return err
	}
	if !im.space.await(ctx, c, false) {
		im.carry(ctx, c)
		im.space.await(ctx, c, true)
	} else {
		im.space.unsent(c)
	}
	return im.outcome(ctx, c)
}

// outcome is what a call that was told returns.
func (im *imported) outcome(ctx context.Context, c *call) error {
	if c.outcome == Done {
		return nil
	}
	cause := error(c.why)
	if c.why == reasonCancelled || c.why == ErrTimeout && ctx.Err() != nil {
		cause = context.Cause(ctx)
		if cause == nil {
			cause = ErrTimeout
		}
	}
	return im.result(&c.op, c.outcome, cause, c.partial)
}

// begin takes one of the peer's tokens, and gives the transaction to the requester.
func (im *imported) begin(ctx context.Context, c *call, ordering int) error {
	s, o := im.space, &c.op
	to, gone := im.rank, im.peer.gone
	if o.fence {
		to, gone = len(s.members), s.done
	}
	deadline := s.deadline(ctx)
	if o.kind == kindWait {
		deadline = 0
	}
	if why, err := s.token(ctx, to, gone, deadline); err != nil || why != reasonNone {
		if err == nil {
			err = why
		}
		return im.error(o, Refused, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !o.fence && s.peers[im.rank] != im.peer {
		<-s.tokens[to]
		return im.error(o, Refused, ErrLinkDown)
	}
	if ordering != aside {
		s.flush(ordering)
	}
	c.until = deadline
	c.slot = s.user.begin(request{
		context:  ordering,
		peer:     to,
		ordered:  o.ordered,
		idle:     o.kind == kindWait,
		deadline: deadline,
	})
	f := &s.flight[c.slot]
	*f = flight{peer: to, call: c, find: o.kind == kindFind}
	if o.kind == kindRead {
		f.landing, f.missing = c.landing, len(o.dst)
	}
	s.settle()
	if deadline != 0 && deadline == s.user.deadline {
		s.stir() // the pump sleeps until a later one
	}
	return nil
}

func (s *Space) deadline(ctx context.Context) int64 {
	at := s.now() + int64(s.cfg.Timeout)
	if d, ok := ctx.Deadline(); ok {
		at = min(at, int64(d.Sub(s.start)))
	}
	return max(at, 1)
}

// await waits until a call has started, or has been told, which it reports. One that is given up is told at once.
func (s *Space) await(ctx context.Context, c *call, told bool) bool {
	for {
		s.mu.Lock()
		if c.told || c.started && !told {
			told = c.told
			s.mu.Unlock()
			return told
		}
		s.mu.Unlock()
		select {
		case <-c.wake:
		case <-ctx.Done():
			s.mu.Lock()
			if !c.told {
				s.giveUp(c)
			}
			s.mu.Unlock()
			return true
		}
	}
}

// unsent ends a transaction that started, and was given up before its caller carried it out: nothing of it has left, so
// nobody else will end it.
func (s *Space) unsent(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.started && s.mine(c.slot, c.id) {
		s.user.ended(c.slot, Refused, ErrTimeout)
		s.settle()
	}
}

// giveUp ends a call whose context is done. The owner is asked to forget a wait. mu is held.
func (s *Space) giveUp(c *call) {
	t := s.user.tx[c.slot]
	if t.idle && t.state == txRunning {
		s.user.seq++
		_ = s.send(t.peer, &message{kind: kindCancel, id: s.user.seq<<16 | 0xFFFF, a: t.id})
	}
	s.user.abandon(c.slot, reasonCancelled)
	s.settle()
}

// mine reports whether a slot is still that of a transaction. mu is held.
func (s *Space) mine(slot int, id uint64) bool {
	t := &s.user.tx[slot]
	return t.id == id && (t.state == txRunning || t.state == txLost)
}

// carry carries out what has started.
func (im *imported) carry(ctx context.Context, c *call) {
	s, o := im.space, &c.op
	switch {
	case im.mapped != nil && o.kind != kindNotify && o.kind != kindWait && o.kind != kindFind:
		out, why, partial := im.direct(o)
		s.mu.Lock()
		if s.mine(c.slot, c.id) {
			c.a = o.result
			s.flight[c.slot].placed = partial
			s.user.ended(c.slot, out, why)
			s.settle()
		}
		s.mu.Unlock()
	case o.kind == 0:
		im.write(ctx, c)
	default:
		m := message{
			kind: o.kind,
			a:    o.a,
			b:    o.b,
			body: o.body,
			n:    uint32(o.length()),
		}
		if o.kind != kindFind {
			r := im.find(o.off)
			at, _ := r.part(o.off, 1)
			m.ref, m.off = r.ref, uint64(at)
		}
		if o.kind == kindRead {
			m.a, m.b = uint64(c.landing.Window), uint64(c.landing.Gen)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.mine(c.slot, c.id) {
			return
		}
		c.id = s.user.stamp(c.slot)
		m.id = c.id
		if err := s.send(im.rank, &m); err != nil { // it did not leave
			s.user.ended(c.slot, Refused, ErrLinkDown)
			s.settle()
		}
	}
}

// token takes a place among a peer's transactions.
func (s *Space) token(ctx context.Context, to int, gone <-chan struct{}, deadline int64) (Cause, error) {
	select {
	case s.tokens[to] <- struct{}{}:
		return reasonNone, nil
	default:
	}
	ctx, cancel := s.bounded(ctx, deadline)
	defer cancel()
	select {
	case s.tokens[to] <- struct{}{}:
		return reasonNone, nil
	case <-gone:
		return ErrLinkDown, nil
	case <-ctx.Done():
		return reasonNone, context.Cause(ctx)
	}
}

// bounded is a context that ends at a deadline of the Space's clock.
func (s *Space) bounded(ctx context.Context, deadline int64) (context.Context, context.CancelFunc) {
	if deadline == 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, s.start.Add(time.Duration(deadline)), ErrTimeout)
}
