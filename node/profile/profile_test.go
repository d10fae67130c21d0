package profile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryKindCanBeTaken(t *testing.T) {
	for _, kind := range profileKinds() {
		var b bytes.Buffer
		if err := WriteProfile(t.Context(), &b, kind, time.Millisecond); err != nil || b.Len() == 0 {
			t.Errorf("%s: %d bytes, %v", kind, b.Len(), err)
		}
	}
}

func TestWhoHasGoneWaitsForNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WriteProfile(ctx, io.Discard, kindCPU, maxLength); err != nil {
		t.Error(err)
	}
}

func TestOneOfAKindAtATime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error)
	go func() { ended <- WriteProfile(ctx, &first{begun: begun}, kindTrace, maxLength) }()
	patiently.Receive(t, begun)
	if err := WriteProfile(t.Context(), io.Discard, kindTrace, time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "one profile of a kind") {
		t.Errorf("the second says %v", err)
	}
	cancel()
	if err := patiently.Receive(t, ended); err != nil {
		t.Error(err)
	}
}

// first tells of the first write.
type first struct {
	begun    chan struct{}
	reported bool
}

func (f *first) Write(b []byte) (int, error) {
	if !f.reported {
		f.reported = true
		close(f.begun)
	}
	return len(b), nil
}

// others has one node, which is broken in the middle or from the start if told to.
type others struct{}

func (others) Names() []string { return []string{"n1", "dead"} }

func (others) Profile(_ context.Context, w io.Writer, name, kind string, length time.Duration) error {
	if name == "dead" {
		return errors.New("dead does not answer")
	}
	_, err := io.WriteString(w, name+" "+kind+" "+length.String())
	if kind == "mutex" {
		return errors.New("the stream has broken")
	}
	return err
}

func TestHandler(t *testing.T) {
	server := httptest.NewServer(Handler(others{}))
	defer server.Close()
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/debug/pprof/", 200, `href="/debug/pprof/node/n1/heap"`},
		{"GET", "/debug/pprof/goroutine", 200, ""},
		{"GET", "/debug/pprof/profile?seconds=0.01", 200, ""},
		{"GET", "/debug/pprof/node/n1/cpu?seconds=20", 200, "n1 cpu 20s"},
		{"GET", "/debug/pprof/node/dead/cpu", 503, "dead does not answer"},
		{"GET", "/debug/pprof/node/n9/cpu", 404, ""},
		{"GET", "/debug/pprof/node/n1/", 404, ""},
		{"GET", "/debug/pprof/node/", 404, ""},
		{"GET", "/elsewhere", 404, ""},
		{"GET", "/debug/pprof/soup", 400, "there is no profile \"soup\": ask for one of cpu,"},
		{"GET", "/debug/pprof/cpu?seconds=3600", 400, "ask for 2m0s or less"},
		{"GET", "/debug/pprof/cpu?seconds=x", 400, "no number of seconds"},
		{"POST", "/debug/pprof/heap", 405, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s %s: %d, %q, %v", c.method, c.path, res.StatusCode, body, err)
		}
	}
	if res, err := http.Get(server.URL + "/debug/pprof/node/n1/mutex"); err == nil { // half of it must not look like all
		_, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil {
			t.Error("a profile that broke off looks whole")
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
