package memory

// Transactions are carried out by loads and stores if the memory is mapped, and by link writes and requests if not.

import (
	"context"
	"encoding/binary"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
)

// op is a transaction as its caller has requested it.
type op struct {
	name           string
	kind           kind // 0: a write or a fence
	off            int64
	pieces         []Piece // of a write
	dst            []byte  // of a read
	a, b           uint64
	body           []byte
	ordered        bool
	forceUnordered bool
	isFence        bool
	result         uint64
}

func (o *op) isWord() bool { return o.kind == kindAdd || o.kind == kindSwap || o.kind == kindCompare }

// length is the number of bytes that the transaction covers.
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

// call is a waiting caller. The Space's mu guards the fields that the shell writes.
type call struct {
	op          op
	singlePiece [1]Piece
	slot        int
	id          uint64
	deadline    int64 // on the Space's clock, ns
	wake        chan struct{}
	started     bool
	reported    bool
	outcome     Outcome
	cause       Cause
	partial     bool
	a, b        uint64
	body        []byte
	readWindow  shmem.Ref // into which the owner writes a long read
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

// putCall returns a call that has been reported, or was never begun, to the pool: no one else refers to it.
func (s *Space) putCall(c *call) {
	c.op, c.singlePiece, c.body = op{}, [1]Piece{}, nil
	s.calls.Put(c)
}

func (c *call) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// flight is the state of a slot's transaction.
type flight struct {
	peer          int
	call          *call        // nil once the outcome is reported
	posted        *postedWrite // a write buffer or a post
	pendingWrites int          // link writes without an outcome
	queuedWrites  int          // link writes queued so far
	allQueued     bool         // no more link writes will be queued
	somePlaced    bool         // some bytes are in place
	allOrNothing  bool         // so short that all of it is placed, or nothing
	isFind        bool
	// for a long read:
	readWindow   shmem.Ref
	bytesMissing int // not in place yet
	cause        Cause
}

// maxAtomicWrite is the longest write that fits the smallest datagram, so that all of it is placed, or nothing; bytes.
const maxAtomicWrite = link.MinDatagram - link.BulkHeaderSize

func (c Cause) asError() error {
	if c == causeNone {
		return nil
	}
	return c
}

func putWord(b []byte, w uint64) { binary.LittleEndian.PutUint64(b, w) }

// admitDirect reports whether the order of its context lets a transaction start at once. It sends the context's write
// buffers first. A posted transaction after a failed one is refused.
func (s *Space) admitDirect(ordering int, ordered, posted bool) (bool, Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush(ordering)
	c := &s.requester.contexts[ordering]
	switch {
	case posted && c.firstFailure.outcome != Done:
		return false, ErrEarlier
	case c.held.head != noSlot || c.orderedRunning || ordered && !s.requester.contextIdle(ordering):
		return false, causeNone
	}
	s.stats.TransactionsDirect++
	return true, causeNone
}

// performDirect carries out a transaction by loads and stores.
func (im *imported) performDirect(o *op) (out Outcome, why Cause, partial bool) {
	switch {
	case o.isWord():
		ok := false
		why = im.withBytes(o.off, shmem.WordSize, shmem.AccessLock, func(mem []byte) {
			o.result, ok = applyWord(mem, o.kind, o.a, o.b)
		})
		if why == causeNone && !ok {
			why = ErrMisaligned
		}
	case o.kind == kindLoad:
		why, _ = im.forEachRow(o.off, o.dst, func(*pageRun) shmem.Access { return shmem.AccessRead },
			func(mine, theirs []byte) {
				loadInto(mine, theirs)
			})
	default:
		for _, p := range o.pieces {
			var some bool
			why, some = im.forEachRow(p.Offset, p.Data, func(r *pageRun) shmem.Access { return writeAccess(r.attributes) },
				func(mine, theirs []byte) { storeFrom(theirs, mine) })
			partial = partial || some
			if why != causeNone {
				break
			}
		}
	}
	if why != causeNone {
		return Refused, why, partial
	}
	return Done, why, false
}

// storeFrom copies; a single aligned word atomically.
func storeFrom(dst, src []byte) {
	if len(dst) == shmem.WordSize {
		if w := shmem.Word(dst); w != nil {
			w.Store(binary.LittleEndian.Uint64(src))
			return
		}
	}
	copy(dst, src)
}

// forEachRow pins one row of the table after the other. some says that a row after the first has failed.
func (im *imported) forEachRow(off int64, mine []byte, a func(*pageRun) shmem.Access,
	do func(mine, theirs []byte)) (why Cause, some bool) {
	for len(mine) > 0 {
		r := im.rowAt(off)
		_, n := r.clip(off, len(mine))
		if why := im.withBytes(off, n, a(r), func(theirs []byte) { do(mine[:n], theirs) }); why != causeNone {
			return why, some
		}
		mine, off, some = mine[n:], off+int64(n), true
	}
	return causeNone, false
}

// withBytes pins bytes of one row while do uses them.
func (im *imported) withBytes(off int64, n int, a shmem.Access, do func([]byte)) Cause {
	r := im.rowAt(off)
	at, _ := r.clip(off, n)
	mem, v, err := im.mapped.Acquire(r.ref, at, uint32(n), a)
	switch {
	case err != nil:
		return ErrLinkDown
	case v != 0:
		return causeOf(v)
	}
	do(mem)
	im.mapped.Release(r.ref)
	return causeNone
}

// runQueued runs a transaction through the cores.
func (im *imported) runQueued(ctx context.Context, c *call, ordering int) error {
	if err := im.beginCall(ctx, c, ordering); err != nil {
		return err
	}
	if !im.space.await(ctx, c, false) {
		im.perform(ctx, c)
		im.space.await(ctx, c, true)
	} else {
		im.space.endUnsent(c)
	}
	return im.outcomeError(ctx, c)
}

// outcomeError returns the error for a call's reported outcome.
func (im *imported) outcomeError(ctx context.Context, c *call) error {
	if c.outcome == Done {
		return nil
	}
	cause := error(c.cause)
	if c.cause == causeCancelled || c.cause == ErrTimeout && ctx.Err() != nil {
		cause = context.Cause(ctx)
		if cause == nil {
			cause = ErrTimeout
		}
	}
	return im.resultError(&c.op, c.outcome, cause, c.partial)
}

// beginCall takes one of the peer's tokens, and passes the transaction to the requester.
func (im *imported) beginCall(ctx context.Context, c *call, ordering int) error {
	s, o := im.space, &c.op
	to, gone := im.rank, im.peer.done
	if o.isFence {
		to, gone = len(s.members), s.done
	}
	deadline := s.deadline(ctx)
	if o.kind == kindWait {
		deadline = 0
	}
	if _, err := acquirePlace(ctx, s, s.tokens[to], gone, deadline); err != nil {
		return im.newError(o, Refused, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !o.isFence && s.peers[im.rank] != im.peer {
		s.tokens[to] <- struct{}{}
		return im.newError(o, Refused, ErrLinkDown)
	}
	if ordering != noContext {
		s.flush(ordering)
	}
	c.deadline = deadline
	c.slot = s.requester.begin(request{
		context:   ordering,
		peer:      to,
		ordered:   o.ordered,
		longLived: o.kind == kindWait,
		deadline:  deadline,
	})
	f := &s.flights[c.slot]
	*f = flight{peer: to, call: c, isFind: o.kind == kindFind}
	if o.kind == kindRead {
		f.readWindow, f.bytesMissing = c.readWindow, len(o.dst)
	}
	s.runActions()
	if deadline != 0 && deadline == s.requester.earliestDeadline {
		s.wakePump() // the pump sleeps until a later deadline
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

// await waits until a call has started, or its outcome is reported; it reports which. If ctx is done first, it cancels
// the call.
func (s *Space) await(ctx context.Context, c *call, untilReported bool) bool {
	for {
		s.mu.Lock()
		if c.reported || c.started && !untilReported {
			untilReported = c.reported
			s.mu.Unlock()
			return untilReported
		}
		s.mu.Unlock()
		select {
		case <-c.wake:
		case <-ctx.Done():
			s.mu.Lock()
			if !c.reported {
				s.cancelCall(c)
			}
			s.mu.Unlock()
			return true
		}
	}
}

// endUnsent ends a transaction that has started, but whose caller gave up before sending anything, so no answer can end
// it.
func (s *Space) endUnsent(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.started && s.isCurrent(c.slot, c.id) {
		s.requester.finish(c.slot, Refused, ErrTimeout)
		s.runActions()
	}
}

// cancelCall ends a call whose context is done, and tells the owner to drop a wait. The caller holds mu.
func (s *Space) cancelCall(c *call) {
	t := s.requester.transactions[c.slot]
	if t.longLived && t.state == txRunning {
		s.requester.seq++
		_ = s.send(t.peer, &message{kind: kindCancel, id: s.requester.seq<<16 | 0xFFFF, a: t.id})
	}
	s.requester.abandon(c.slot, causeCancelled)
	s.runActions()
}

// isCurrent reports whether a slot still belongs to a transaction. The caller holds mu.
func (s *Space) isCurrent(slot int, id uint64) bool {
	t := &s.requester.transactions[slot]
	return t.id == id && (t.state == txRunning || t.state == txLost)
}

// perform carries out a transaction that has started.
func (im *imported) perform(ctx context.Context, c *call) {
	s, o := im.space, &c.op
	switch {
	case im.mapped != nil && o.kind != kindNotify && o.kind != kindWait && o.kind != kindFind:
		out, why, partial := im.performDirect(o)
		s.mu.Lock()
		if s.isCurrent(c.slot, c.id) {
			c.a = o.result
			s.flights[c.slot].somePlaced = partial
			s.requester.finish(c.slot, out, why)
			s.runActions()
		}
		s.mu.Unlock()
	case o.kind == 0:
		im.performWrite(ctx, c)
	default:
		m := message{
			kind:   o.kind,
			a:      o.a,
			b:      o.b,
			body:   o.body,
			length: uint32(o.length()),
		}
		if o.kind != kindFind {
			r := im.rowAt(o.off)
			at, _ := r.clip(o.off, 1)
			m.ref, m.off = r.ref, uint64(at)
		}
		if o.kind == kindRead {
			m.a, m.b = uint64(c.readWindow.Window), uint64(c.readWindow.Gen)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.isCurrent(c.slot, c.id) {
			return
		}
		c.id = s.requester.assignID(c.slot)
		m.id = c.id
		if err := s.send(im.rank, &m); err != nil { // it was not sent
			s.requester.finish(c.slot, Refused, ErrLinkDown)
			s.runActions()
		}
	}
}

// newTokens makes n tokens to take and return.
func newTokens(n int) chan struct{} {
	c := make(chan struct{}, n)
	for range n {
		c <- struct{}{}
	}
	return c
}

// acquirePlace takes a token or a buffer, and waits for one until a deadline, or until its owner is gone. The error
// says why there is none.
func acquirePlace[T any](ctx context.Context, s *Space, from <-chan T, gone <-chan struct{},
	deadline int64) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	default:
	}
	ctx, cancel := s.withDeadline(ctx, deadline)
	defer cancel()
	select {
	case v = <-from:
		return v, nil
	case <-gone:
		return v, ErrLinkDown
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// withDeadline makes a context that ends at a deadline of the Space's clock.
func (s *Space) withDeadline(ctx context.Context, deadline int64) (context.Context, context.CancelFunc) {
	if deadline == 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, s.start.Add(time.Duration(deadline)), ErrTimeout)
}
