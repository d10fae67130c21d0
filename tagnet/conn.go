package tagnet

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"ringlet/internal/address"
)

// How often a client tries to reach a server again whose connection broke: often within DefaultResumeTimeout. By
// default gRPC waits a second after the first try.
const (
	minRetryDelay  = 25 * time.Millisecond
	maxRetryDelay  = 250 * time.Millisecond
	connectTimeout = 5 * time.Second // with the handshake, on a busy machine
)

// WithReconnect sets how soon a connection is made again after it broke. Connecting may take 5 s, or minTimeout if that
// is longer. Clients have WithReconnect(0) unless the caller passes another one.
func WithReconnect(minTimeout time.Duration) grpc.DialOption {
	retry := backoff.DefaultConfig
	retry.BaseDelay, retry.MaxDelay = minRetryDelay, maxRetryDelay
	return grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: max(connectTimeout, minTimeout)})
}

// schedulerConn is a connection that a client has dialled. Its Close does not wait for a peer that is cut off.
type schedulerConn struct {
	*grpc.ClientConn
	last atomic.Pointer[net.TCPConn] // that was made below it
}

// leaveTimeout bounds Close: gRPC takes leave of its peer in microseconds, and waits for up to 5 s where its writer is
// stuck, since the peer is cut off.
const leaveTimeout = 200 * time.Millisecond

// Close closes the connection, within leaveTimeout.
func (c *schedulerConn) Close() error {
	unstick := time.AfterFunc(leaveTimeout, func() {
		if conn := c.last.Load(); conn != nil {
			_ = conn.Close() // gRPC's writer fails, and Close returns
		}
	})
	defer unstick.Stop()
	return c.ClientConn.Close()
}

// dialTCP makes the connection below.
func (c *schedulerConn) dialTCP(ctx context.Context, at string) (net.Conn, error) {
	conn, err := address.DialService(ctx, at)
	if tcp, ok := conn.(*net.TCPConn); ok {
		c.last.Store(tcp)
	}
	return conn, err
}

// dial makes a connection, which the client then owns.
func dial[C any](target string, opts []grpc.DialOption, use func(*schedulerConn) (C, error)) (C, error) {
	conn, err := newConn(target, opts)
	if err != nil {
		var none C
		return none, &GoneError{Unit: target, Err: err}
	}
	c, err := use(conn)
	if err != nil {
		_ = conn.Close() // no data were sent that could be lost
	}
	return c, err
}

func newConn(target string, opts []grpc.DialOption) (_ *schedulerConn, err error) {
	c := &schedulerConn{}
	defaults := []grpc.DialOption{grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		WithReconnect(0), grpc.WithContextDialer(c.dialTCP)}
	c.ClientConn, err = grpc.NewClient(target, append(defaults, opts...)...)
	return c, err
}
