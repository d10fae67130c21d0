package nodes

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
)

// swapConn is the connection to the service of a node, which may be another process in the end.
type swapConn struct {
	conn atomic.Pointer[grpc.ClientConn]
}

func newSwapConn(conn *grpc.ClientConn) *swapConn {
	r := &swapConn{}
	r.conn.Store(conn)
	return r
}

// Invoke implements grpc.ClientConnInterface.
func (r *swapConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.conn.Load().Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (r *swapConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.conn.Load().NewStream(ctx, desc, method, opts...)
}

// swap has calls go over another connection. Calls on the former connection end.
func (r *swapConn) swap(to *grpc.ClientConn) { _ = r.conn.Swap(to).Close() }

// Close closes the connection.
func (r *swapConn) Close() error { return r.conn.Load().Close() }
