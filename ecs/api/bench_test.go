package api_test

import (
	"io"
	"net/http"
	"testing"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/apitest"
)

// What a question costs, from the client's side and back, on a connection that is there.
func BenchmarkSnapshot(b *testing.B) {
	h := newFixture(b, apitest.Options{Nodes: 32})
	for _, command := range []string{"load", "configure", "start"} {
		if _, err := h.fake.Command(b.Context(), "somebody", &ecsv1.CommandRequest{Command: command}); err != nil {
			b.Fatal(err)
		}
	}
	for range 100 {
		h.fake.Tick()
	}
	b.Run("grpc", func(b *testing.B) {
		vera := h.client("vera", certs.RoleViewer)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := vera.GetSnapshot(b.Context(), &ecsv1.GetSnapshotRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	bearer := h.session()
	b.Run("http", func(b *testing.B) {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequest("GET", "http://"+h.PageAddr().String()+"/v1/snapshot", nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Authorization", bearer)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				b.Fatal(resp.Status, err)
			}
			_ = resp.Body.Close()
		}
	})
}
