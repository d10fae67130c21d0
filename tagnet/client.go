package tagnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Scope says which unit or control speaks, in which run and view.
type Scope struct {
	Run  uint32
	View uint64
	Name string // of the unit in the view, or of the control; its certificate has the same name
	Term Term   // of a control; zero for a unit
}

func (s Scope) message() *tagnetv1.Scope {
	return &tagnetv1.Scope{
		Protocol: protocolVersion,
		Run:      s.Run,
		View:     s.View,
		Name:     s.Name,
		Term:     s.Term.Number,
		Holder:   s.Term.Holder,
	}
}

// errClosed is the error of a client that its owner has closed.
var errClosed = errors.New("tagnet: the client is closed")

// clientSession is the common part of the two clients. It opens a stream, and another one each time the stream breaks:
//
//  1. main: opens a stream, receives until it ends, and then resumes or ends the session. (sequential)
//  2. send: one goroutine per stream; it begins when the server has answered, since the answer says which entries the
//     client must send again.
type clientSession struct {
	// Immutable after the client is made.

	unit      string
	number    uint64 // of the session
	cancel    context.CancelFunc
	ownedConn io.Closer // the connection, if the client dialled it

	answered chan struct{} // closed at the server's first message
	ended    chan struct{} // closed by end
	wake     chan struct{} // capacity 1: there is something to send

	wg sync.WaitGroup

	// Owned by the main goroutine.

	term, next uint64 // position in the scheduler's notices
	recalls    bool   // the unit goes on with the successor of a lost scheduler, which has not answered yet

	mu            sync.Mutex               // guards the fields below
	err           error                    // why the session ended; io.EOF: drained
	resumeTimeout time.Duration            // zero: DefaultResumeTimeout
	successor     grpc.ClientConnInterface // connection to go on with; nil: there is no other one
	cut           context.CancelFunc       // ends the present stream

	successorConns []io.Closer // that MoveTo has dialled
}

// streamHandler is the part of a client that depends on the kind of unit. The send goroutine calls send, the main
// goroutine calls the other methods.
type streamHandler interface {
	// open makes a stream and sends the first message: the scope and the unit's position. Entries without acknowledgement
	// will be sent again.
	open(ctx context.Context, scope *tagnetv1.Scope, opts ...grpc.CallOption) error
	// send sends everything that waits. If it fails, recv returns the reason.
	send() error
	// recv receives a message, and applyNotices processes it: an error ends the session.
	recv() (*tagnetv1.Notices, error)
	applyNotices(m *tagnetv1.Notices) error
	// setService has the next stream go to another scheduler.
	setService(tagnetv1.TagNetClient)
	// finish is called when no more messages will be received.
	finish()
}

// end records the first reason why the session is over, and stops the session.
func (c *clientSession) end(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
	}
	c.mu.Unlock()
	if first {
		close(c.ended)
		c.cancel()
	}
}

// Done is closed when the session has ended; Err tells why. While a session may resume after a broken stream, it has
// not ended.
func (c *clientSession) Done() <-chan struct{} { return c.ended }

// Err is nil while the session lives, io.EOF after the view was drained, else as in RUClient.Next.
func (c *clientSession) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the session and waits for its goroutines. Next still returns the batches that had come in, and then
// errClosed.
func (c *clientSession) Close() error {
	c.end(errClosed)
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, conn := range c.successorConns {
		err = errors.Join(err, conn.Close())
	}
	c.successorConns = nil
	if c.ownedConn != nil {
		err = errors.Join(err, c.ownedConn.Close())
	}
	return err
}

// detachContext returns a context with ctx's values that ends only by cancel: ctx has the deadline of the handshake,
// and the stream lives longer.
func detachContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.WithoutCancel(ctx))
}

// Flow-control windows, in bytes: some dozens of messages of a stream (32 KiB at most), and two streams on a node's
// connection. With fixed windows gRPC does not measure the path by a ping and its answer around every message, which
// took a seventh of all system calls of a run with small MEPs (2026-11-21).
const (
	streamWindow = 1 << 20
	connWindow   = 2 * streamWindow
)

// ServerOptions are the options for a gRPC server of the service.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow)}
}

// attach starts the session's goroutine and waits until the server has answered, the session has ended, or ctx has. ctx
// bounds the wait for the first connection, but not the life of the stream.
func (c *clientSession) attach(ctx context.Context, scope Scope, s streamHandler) error {
	streamCtx, cancel := detachContext(ctx)
	c.unit, c.cancel, c.number = scope.Name, cancel, max(1, rand.Uint64())
	c.answered, c.ended, c.wake = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	c.wg.Go(func() {
		defer s.finish()
		c.end(clientError(c.unit, c.runStreams(streamCtx, scope, s)))
	})
	if err := c.awaitAnswer(ctx); err != nil {
		_ = c.Close() // err says more
		return err
	}
	return nil
}

func (c *clientSession) awaitAnswer(ctx context.Context) error {
	select {
	case <-c.answered:
		return nil
	case <-c.ended:
		return c.Err()
	case <-ctx.Done():
		return &GoneError{Unit: c.unit, Err: ctx.Err()}
	}
}

// runStreams opens a stream and, whenever the stream breaks, the next one, until the session is over; it returns why
// the session ended. If the first stream breaks before the server has answered, there is no session to resume:
// runStreams returns that error, and so does attach.
func (c *clientSession) runStreams(ctx context.Context, scope Scope, s streamHandler) error {
	wire := scope.message()
	wire.Conversation = c.number
	_, err := c.runStream(ctx, wire, s, 0)
	if !isClosed(c.answered) {
		return err
	}
	var pause time.Duration
	for broke := time.Now(); ; {
		timeout := c.setCut(nil)
		if errors.Is(err, io.EOF) {
			return err
		}
		if c.takeSuccessor(s) {
			broke, pause = time.Now(), 0
		} else if !resumable(err) && !(c.recalls && isNotThereYet(err)) {
			return err
		}
		remaining := timeout - time.Since(broke)
		if remaining <= 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		answered, again := c.runStream(ctx, wire, s, remaining)
		if answered {
			broke, pause = time.Now(), minRetryDelay
		} else {
			pause = min(max(2*pause, minRetryDelay), maxRetryDelay)
		}
		if answered || !resumable(again) {
			err = again // otherwise the cause of the broken stream says more than the last failed try to resume
		}
	}
}

// resumable tells whether the scheduler may still know the session after a stream that ended with err.
func resumable(err error) bool {
	var wrong *protocolError
	if errors.Is(err, io.EOF) || errors.As(err, &wrong) || refusalInfo(err) != nil {
		return false // drained, or either side has said that the session is over
	}
	switch status.Code(err) {
	case codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		return false
	}
	return true
}

// runStream runs one stream to its end, and tells whether the server has answered on it. within bounds the wait for an
// answer to a stream that resumes the session; 0: the stream is the first one.
func (c *clientSession) runStream(ctx context.Context, scope *tagnetv1.Scope, s streamHandler,
	within time.Duration) (answered bool, err error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	c.setCut(cut)
	var opts []grpc.CallOption
	var late *time.Timer
	if within > 0 {
		opts = append(opts, grpc.WaitForReady(true))
		late = time.AfterFunc(within, cut)
		defer late.Stop()
	}
	// If the server refuses the stream, Send returns EOF, and Recv the status.
	if err := s.open(ctx, scope, opts...); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	first := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { c.sendAll(ctx, s, first) })
	err = c.receive(s, func() {
		answered = true
		if late != nil {
			late.Stop()
		}
		close(first)
		if !isClosed(c.answered) {
			close(c.answered)
		}
	})
	cut()
	sender.Wait()
	return answered, err
}

// receive processes messages until the stream ends, and returns why: io.EOF if the view was drained before, however the
// stream then ends. It calls onAnswer after the first message.
func (c *clientSession) receive(s streamHandler, onAnswer func()) error {
	drained := false
	for {
		m, err := s.recv()
		switch {
		case err != nil && drained:
			return io.EOF
		case errors.Is(err, io.EOF):
			return &protocolError{Unit: c.unit, What: "the end of the stream before the view was drained"}
		case err != nil:
			return err
		}
		if err := c.advance(m); err != nil {
			return err
		}
		if err := s.applyNotices(m); err != nil {
			return err
		}
		drained = drained || m.GetState() == tagnetv1.State_STATE_DRAINED
		if onAnswer != nil {
			onAnswer()
			onAnswer = nil
		}
	}
}

// advance sets the unit's position in the scheduler's notices from a message.
func (c *clientSession) advance(m *tagnetv1.Notices) error {
	if m.GetTerm() == 0 { // part of a snapshot that goes on in the next message
		return nil
	}
	if c.term != 0 && c.term != m.GetTerm() || m.GetNext() < c.next {
		return &protocolError{Unit: c.unit, What: fmt.Sprintf("notices up to %d of term %d after those up to %d of term %d",
			m.GetNext(), m.GetTerm(), c.next, c.term)}
	}
	c.term, c.next, c.recalls = m.GetTerm(), m.GetNext(), false
	return nil
}

// position is the unit's position in the notices; nil before the first message.
func (c *clientSession) position() *tagnetv1.Position {
	if c.term == 0 {
		return nil
	}
	return &tagnetv1.Position{Term: c.term, Next: c.next}
}

// sendAll sends what waits, from the server's first answer to the end of the stream.
func (c *clientSession) sendAll(ctx context.Context, s streamHandler, first <-chan struct{}) {
	select {
	case <-first:
		notify(c.wake) // entries without acknowledgement
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		if err := s.send(); err != nil {
			return
		}
	}
}

// outbox keeps a unit's entries until the scheduler has acknowledged them, so that the unit can send them again on the
// next stream when a stream breaks with entries on the wire. Each entry has a sequence number, from 0; acknowledgements
// are cumulative.
//
//	0 … acked … sent … maxSent … total
//	    └ kept ──────────────────────┘
//
// It is a core without goroutines. Its zero value is empty.
type outbox[T any] struct {
	items   []T    // items[head:] are not acknowledged
	head    int    // index of the entry with number acked
	acked   uint64 // entries acknowledged
	sent    uint64 // entries sent on the present stream, or acknowledged before
	maxSent uint64 // entries ever sent
}

// total is how many entries there ever were.
func (o *outbox[T]) total() uint64 { return o.acked + uint64(len(o.items)-o.head) }

// unsent is how many entries were never sent.
func (o *outbox[T]) unsent() int { return int(o.total() - o.maxSent) }

// push adds an entry.
func (o *outbox[T]) push(v T) { *o.add() = v }

// add adds an entry for the caller to fill in.
func (o *outbox[T]) add() *T {
	var none T
	o.items = append(o.items, none)
	return &o.items[len(o.items)-1]
}

// claim marks up to limit entries as sent and copies them into to. It returns the copies and the number of the first.
func (o *outbox[T]) claim(to []T, limit int) (first uint64, claimed []T) {
	first = o.sent
	from := o.items[o.head+int(o.sent-o.acked):]
	to = append(to[:0], from[:min(limit, len(from))]...)
	o.sent += uint64(len(to))
	o.maxSent = max(o.maxSent, o.sent)
	return first, to
}

// claimAll counts all entries as sent, since the scheduler is told them in another way, and returns how many there ever
// were. Its acknowledgement says which it has taken.
func (o *outbox[T]) claimAll() uint64 {
	o.maxSent = o.total()
	return o.maxSent
}

// ack drops the entries below a number. It returns false for a number below an earlier acknowledgement, or beyond the
// entries ever sent.
func (o *outbox[T]) ack(below uint64) bool {
	if below > o.maxSent || below < o.acked {
		return false
	}
	clear(o.items[o.head : o.head+int(below-o.acked)])
	o.head += int(below - o.acked)
	o.acked, o.sent = below, max(o.sent, below)
	if 2*o.head >= len(o.items) { // so each entry moves at most once per entry dropped
		o.items = o.items[:copy(o.items, o.items[o.head:])]
		o.head = 0
	}
	return true
}

// rewind prepares for another stream: all entries without acknowledgement will be sent again.
func (o *outbox[T]) rewind() { o.sent = o.acked }
