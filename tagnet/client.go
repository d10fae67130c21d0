package tagnet

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Scope says which unit of which run and view a client speaks for.
type Scope struct {
	Run  uint32
	View uint64
	Name string // of the unit in the view
}

func (s Scope) wire() *tagnetv1.Scope {
	return &tagnetv1.Scope{Protocol: protocolVersion, Run: s.Run, View: s.View, Name: s.Name}
}

// ErrClosed is the error of a client that has been closed by its owner.
var ErrClosed = errors.New("tagnet: the client is closed")

// conversation is what the two clients have in common: a stream with a receiving and a sending goroutine, its end and its
// cause.
type conversation struct {
	// Immutable after the client is made.

	unit   string
	cancel context.CancelFunc
	owned  io.Closer // the connection, if the client dialled it

	answered chan struct{} // closed by the receiver at the server's first message
	ended    chan struct{} // closed by end
	wake     chan struct{} // of one place: there is something to send

	wg sync.WaitGroup

	mu  sync.Mutex // guards err
	err error      // why it ended; io.EOF: drained
}

// end records why the conversation is over, the first reason only, and stops it.
func (c *conversation) end(err error) {
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

// Done is closed when the stream has ended; Err tells why.
func (c *conversation) Done() <-chan struct{} { return c.ended }

// Err is nil while the stream lives, io.EOF after the view was drained, else as in RUClient.Next.
func (c *conversation) Err() error { return c.cause() }

func (c *conversation) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// close ends the conversation and waits for its goroutines.
func (c *conversation) close() error {
	c.end(ErrClosed)
	c.wg.Wait()
	if c.owned != nil {
		return c.owned.Close()
	}
	return nil
}

// detached gives a context that keeps ctx's values, but ends only by cancel: a handshake's deadline is not the stream's.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.WithoutCancel(ctx))
}

// Flow-control windows, bytes: some dozens of messages of a stream (32 KiB at most), and two streams of a node's connection. Given
// windows do not change, so gRPC does not measure the road with a ping and its answer around every message, which was a seventh of
// all system calls of a run with small MEPs (2026-11-21).
const (
	streamWindow = 1 << 20
	connWindow   = 2 * streamWindow
)

// ServerOptions are what a gRPC server of the service should be made with.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow)}
}

// dial makes a connection for a client that owns it.
func dial[C any](target string, opts []grpc.DialOption, use func(*grpc.ClientConn) (C, error)) (C, error) {
	windows := []grpc.DialOption{grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow)}
	conn, err := grpc.NewClient(target, append(windows, opts...)...)
	if err != nil {
		var none C
		return none, &GoneError{Unit: target, Err: err}
	}
	c, err := use(conn)
	if err != nil {
		_ = conn.Close() // nothing was sent that could be lost
	}
	return c, err
}

// attach starts the conversation's goroutines and waits until the server has answered, the conversation has ended, or ctx has.
// open makes the stream and says who attaches. It may wait for a connection, which ctx bounds and the context it is given,
// the stream's, does not.
func (c *conversation) attach(ctx context.Context, scope Scope, open func(context.Context) error, send, receive func()) error {
	streamCtx, cancel := detached(ctx)
	c.unit, c.cancel = scope.Name, cancel
	c.answered, c.ended, c.wake = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	opened := make(chan struct{})
	c.wg.Go(func() {
		err := open(streamCtx)
		close(opened)
		// A refusal shows as EOF in Send; its status comes with Recv.
		if err != nil && !errors.Is(err, io.EOF) {
			c.end(clientError(c.unit, err))
			return
		}
		receive()
	})
	c.wg.Go(func() {
		<-opened
		send()
	})
	if err := c.handshake(ctx); err != nil {
		_ = c.close() // err tells more
		return err
	}
	return nil
}

func (c *conversation) handshake(ctx context.Context) error {
	select {
	case <-c.answered:
		return nil
	case <-c.ended:
		return c.cause()
	case <-ctx.Done():
		return &GoneError{Unit: c.unit, Err: ctx.Err()}
	}
}

// over ends the conversation with what Recv said. The stream may end in peace only after the view was drained.
func (c *conversation) over(err error, drained bool) {
	if errors.Is(err, io.EOF) && !drained {
		err = &ProtocolError{Unit: c.unit, What: "the end of the stream before the view was drained"}
	}
	c.end(clientError(c.unit, err))
}
