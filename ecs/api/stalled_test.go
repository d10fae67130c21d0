package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/testkit/apitest"
	"ringlet/testkit/patiently"
)

// bounds makes streams of a fixture few.
func bounds(streams int, timeout time.Duration) func(*api.Config, *api.Server) {
	return func(_ *api.Config, s *api.Server) {
		if s != nil {
			s.SetBounds(streams, 256<<20, timeout)
		}
	}
}

// TestOneUserCannotTakeAllStreams: over gRPC and over HTTP, by the same count.
func TestOneUserCannotTakeAllStreams(t *testing.T) {
	h := newFixture(t, apitest.Options{}, bounds(8, time.Minute))
	ctx := patiently.Context(t)
	vera, otto, bearer := h.client("vera", certs.RoleViewer), h.client("otto", certs.RoleViewer), h.session()
	open := func(c ecsv1.RunControlClient) error {
		in, err := c.Tap(ctx, &tapv1.Selection{})
		if err == nil {
			_, err = in.Recv()
		}
		return err
	}
	for n := range 3 {
		want := codes.OK
		if n == 2 {
			want = codes.ResourceExhausted
		}
		err := open(vera)
		if status.Code(err) != want || n == 2 && !strings.Contains(err.Error(), "vera has 2 streams open") {
			t.Errorf("stream %d of vera: %v", n, err)
		}
	}
	if err := open(otto); err != nil {
		t.Errorf("another user: %v", err)
	}
	for range 2 {
		next, end := h.stream("/v1/snapshots", "Authorization", bearer)
		defer end()
		next()
	}
	for _, path := range []string{"/v1/events", "/v1/snapshots", "/v1/tap", "/v1/sample?node=n1&counters=x"} {
		got := h.web("GET", path, "", "Authorization", bearer)
		if got.code != http.StatusTooManyRequests || !strings.Contains(got.body, "has 2 streams open") ||
			!strings.Contains(got.body, `"LIMIT"`) {
			t.Errorf("%s: %d %s", path, got.code, got.body)
		}
	}
}

// flood is a partition of which taps send much, as fast as can be.
type flood struct{ api.Backend }

func (flood) Tap(ctx context.Context, _ *tapv1.Selection, send func(*tapv1.Samples) error) error {
	m := &tapv1.Samples{Events: []*tapv1.Sample{{Fragments: []*tapv1.Fragment{{Data: make([]byte, 1<<20)}}}}}
	for ctx.Err() == nil {
		if err := send(m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// TestAStalledReaderIsEnded: its place is free again, and others have not noticed.
func TestAStalledReaderIsEnded(t *testing.T) {
	for _, how := range []string{"grpc", "http"} {
		t.Run(how, func(t *testing.T) {
			var log logs
			h := newFixture(t, apitest.Options{}, bounds(4, 50*time.Millisecond), func(c *api.Config, _ *api.Server) {
				if c != nil {
					c.Backend = flood{c.Backend}
					c.Log = slog.New(slog.NewTextHandler(&log, nil))
				}
			})
			ctx, bearer := patiently.Context(t), h.session()
			if how == "grpc" {
				in, err := h.client("vera", certs.RoleViewer).Tap(ctx, &tapv1.Selection{Data: true})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := in.Header(); err != nil { // nothing else is read
					t.Fatal(err)
				}
			} else {
				c, err := net.Dial("tcp", h.PageAddr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, "GET /v1/tap?data=true HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n\r\n", h.PageAddr(), bearer)
				if _, err := c.Read(make([]byte, 16)); err != nil {
					t.Fatal(err)
				}
			}
			for ctx.Err() == nil && !strings.Contains(log.String(), "its client did not read") {
				time.Sleep(time.Millisecond)
			}
			for ctx.Err() == nil && h.Open() > 0 {
				time.Sleep(time.Millisecond)
			}
			if ctx.Err() != nil {
				t.Errorf("%d streams are open; %s", h.Open(), log.String())
			}
		})
	}
}

// logs is a log that may be read while it is written.
type logs struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
