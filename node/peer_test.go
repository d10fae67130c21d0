package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ringlet/internal/connlimit"
	"ringlet/node/certs"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
)

// watching is a node service whose Watch lasts until the caller goes.
type watching struct {
	nodev1.UnimplementedNodeServer
	now, most atomic.Int64
}

func (w *watching) Watch(_ *nodev1.WatchRequest, out nodev1.Node_WatchServer) error {
	n := w.now.Add(1)
	for most := w.most.Load(); n > most && !w.most.CompareAndSwap(most, n); most = w.most.Load() {
	}
	defer w.now.Add(-1)
	patiently.Hold(out.Context().Done())
	return nil
}

func (w *watching) Report(context.Context, *nodev1.ReportRequest) (*nodev1.Report, error) {
	return &nodev1.Report{}, nil
}

// TestNodeServiceHasBounds: on the streams of a connection, on a message, on what stands before it, on the time
// of a handshake.
func TestNodeServiceHasBounds(t *testing.T) {
	t.Parallel()
	issue := issuer.New(t)
	quiet := slog.New(slog.DiscardHandler)
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis, w := connlimit.Listen(raw, serviceName, quiet), &watching{}
	server := grpc.NewServer(ServiceOptions(issue("n0", certs.RoleNode), quiet, 0)...)
	nodev1.RegisterNodeServer(server, w)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(lis) }()
	defer func() { patiently.Receive(t, served) }()
	defer server.Stop()
	client := func() nodev1.NodeClient {
		creds := grpc.WithTransportCredentials(issue("n1", certs.RoleNode).ClientCredentials("n0", quiet))
		conn, err := grpc.NewClient(raw.Addr().String(), creds)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return nodev1.NewNodeClient(conn)
	}
	greedy, modest := client(), client()
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()

	streams, stop := context.WithCancel(ctx)
	for range 2 * maxStreams {
		go func() { // beyond the bound this waits until another ends
			if out, err := greedy.Watch(streams, &nodev1.WatchRequest{}); err == nil {
				_, _ = out.Recv()
			}
		}()
	}
	for w.now.Load() < maxStreams && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if _, err := modest.Report(ctx, &nodev1.ReportRequest{}); err != nil {
		t.Errorf("beside a greedy caller: %v", err)
	}
	if most := w.most.Load(); most != maxStreams {
		t.Errorf("%d conversations of one connection at a time, want %d", most, maxStreams)
	}
	stop()

	_, err = modest.Command(ctx, &nodev1.CommandRequest{TagnetName: strings.Repeat("x", maxMessageBytes)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is too long: %v", err)
	}
	long := metadata.AppendToOutgoingContext(ctx, "x-long", strings.Repeat("x", maxHeaderBytes))
	if _, err := modest.Report(long, &nodev1.ReportRequest{}); err == nil {
		t.Error("headers that are too long are taken")
	}

	began := time.Now()
	mute, err := net.Dial("tcp", raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	_ = mute.SetReadDeadline(began.Add(patiently.LongTimeout))
	if _, err := io.Copy(io.Discard, mute); err != nil {
		t.Errorf("a connection that says nothing is still open after %v: %v", time.Since(began), err)
	}
}
