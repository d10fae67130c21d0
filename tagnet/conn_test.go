package tagnet

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/testkit/patiently"
)

// stuckListener has connections that read nothing once they have read what a connection begins with.
type stuckListener struct {
	net.Listener
	over chan struct{} // closed when they read on
}

func (l stuckListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		conn = &stuckConn{conn, 8 << 10, l.over}
	}
	return conn, err
}

type stuckConn struct {
	net.Conn
	left int // bytes that it still reads; the server's only reader owns it
	over chan struct{}
}

func (c *stuckConn) Read(to []byte) (int, error) {
	if c.left <= 0 {
		<-c.over // bounded by the end of the test
		return 0, io.EOF
	}
	n, err := c.Conn.Read(to[:min(len(to), c.left)])
	c.left -= n
	return n, err
}

// TestCloseLeavesACutPeer holds that a connection ends soon whose peer takes nothing any more, since its host is cut
// off. gRPC itself waits for 5 s.
func TestCloseLeavesACutPeer(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	began := make(chan struct{}, 1)
	server := grpc.NewServer(append(ServerOptions(), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		began <- struct{}{}
		<-s.Context().Done() // bounded by the end of the server
		return nil
	}))...)
	over := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(stuckListener{lis, over}) })
	defer patiently.Wait(t, serving.Wait)
	defer server.Stop()
	defer close(over)
	conn, err := newConn(lis.Addr().String(), []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())})
	must(t, err)
	stream, err := tagnetv1.NewTagNetClient(conn).Feedback(context.Background())
	must(t, err)
	patiently.Receive(t, began)
	must(t, conn.last.Load().SetWriteBuffer(4<<10))
	must(t, stream.Send(&tagnetv1.FeedbackBatch{Outcomes: make([]byte, streamWindow/2)}))
	from := time.Now()
	must(t, conn.Close())
	if took := time.Since(from); took >= 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
