package nodes

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
)

// road is the connection to the service of a node, which may be another process in the end.
type road struct {
	conn atomic.Pointer[grpc.ClientConn]
}

func roadTo(conn *grpc.ClientConn) *road {
	r := &road{}
	r.conn.Store(conn)
	return r
}

// Invoke implements grpc.ClientConnInterface.
func (r *road) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r.conn.Load().Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (r *road) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.conn.Load().NewStream(ctx, desc, method, opts...)
}

// turn has the road lead elsewhere. Calls on the former connection end.
func (r *road) turn(to *grpc.ClientConn) { _ = r.conn.Swap(to).Close() }

// Close closes the connection.
func (r *road) Close() error { return r.conn.Load().Close() }
