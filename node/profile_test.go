package node

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

func TestProfileIsForTheControl(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, kind := range []string{"heap", "cpu"} {
		var b bytes.Buffer
		if err := ReadProfile(p.ctx, p.nodes[0], &b, kind, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(&b)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if n, err := io.Copy(io.Discard, z); err != nil || n == 0 {
			t.Errorf("%s: %d bytes, %v", kind, n, err)
		}
	}
	if err := ReadProfile(p.ctx, p.nodes[0], io.Discard, "soup", 0); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a profile of soup: %v", err)
	}
	conn, err := grpc.NewClient(p.view.GetMembers()[0].GetGrpcAddress(),
		grpc.WithTransportCredentials(credentials.NewTLS(p.other.Client("n0"))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := ReadProfile(p.ctx, nodev1.NewNodeClient(conn), io.Discard, "heap",
		0); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node that asks: %v", err)
	}
}
