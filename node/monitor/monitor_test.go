package monitor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"ringlet/testkit/patiently"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsAsked(t *testing.T) {
	var live, ready error
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := Serve(lis, Process{
		CheckLive:  func(context.Context) error { return live },
		CheckReady: func() (string, error) { return "Running", ready },
		MetricsHandler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = io.WriteString(w, "figures\n")
		}),
	}, slog.New(slog.DiscardHandler))
	defer end()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		resp, err := client.Get("http://" + lis.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, c := range []struct {
		path        string
		live, ready error
		code        int
		body        string
	}{
		{"/livez", nil, nil, 200, "alive\n"},
		{"/livez", errors.New("it hangs"), nil, 503, "it hangs\n"},
		{"/readyz", nil, nil, 200, "Running\n"},
		{"/readyz", nil, errors.New("in Error: n2 is gone"), 503, "in Error: n2 is gone\n"},
		{"/metrics", nil, nil, 200, "figures\n"},
		{"/elsewhere", nil, nil, 404, "404 page not found\n"},
	} {
		live, ready = c.live, c.ready
		if code, body := get(c.path); code != c.code || body != c.body {
			t.Errorf("%s: %d %q", c.path, code, body)
		}
	}
}

// TestMonitorIsNotOverrun: connections beyond the bound are closed, and who asks is answered beside those that are
// silent.
func TestMonitorIsNotOverrun(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := Serve(lis, Process{CheckLive: func(context.Context) error { return nil }}, slog.New(slog.DiscardHandler))
	defer end()
	var idlers []net.Conn
	closed := 0
	for range 4 * maxConns {
		c, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idlers = append(idlers, c)
	}
	// On a busy machine those that are turned away are closed late. Those that are let in are silent for requestTimeout.
	least := 4*maxConns - maxConns/2
	for began := time.Now(); closed < least && time.Since(began) < requestTimeout*4/5; {
		idlers = slices.DeleteFunc(idlers, func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return false
			}
			closed++
			return true
		})
	}
	if closed < least {
		t.Errorf("%d of %d connections were closed, want %d at least", closed, 4*maxConns, least)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patiently.LongTimeout}
	resp, err := client.Get("http://" + lis.Addr().String() + "/livez")
	if err != nil {
		t.Fatalf("nobody is answered beside those that are silent: %v", err)
	}
	_ = resp.Body.Close()
}
