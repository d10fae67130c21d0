package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	"ringlet/testkit/apitest"
)

// Whatever a stranger sends, nothing is answered but what is for everybody, and every refusal is a google.rpc.Status.
func FuzzServer(f *testing.F) {
	ca, err := certs.NewCA(0)
	if err != nil {
		f.Fatal(err)
	}
	id, err := ca.Issue("control", nil, certs.RoleControl, 0)
	if err != nil {
		f.Fatal(err)
	}
	fake := apitest.New(apitest.Options{WithPastRuns: true})
	server, err := api.New(api.Config{
		Backend:  fake,
		Records:  fake,
		Journal:  fake,
		Identity: id,
		APIAddr:  "127.0.0.1:0",
		PageAddr: "127.0.0.1:0",
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := server.Close(); err != nil {
			f.Error(err)
		}
		fake.Close()
	})
	server.NewEntrance()
	f.Add("GET", "/v1/status", "127.0.0.1:7980", "Bearer x", "", "", "")
	f.Add("POST", "/v1/command", "localhost", "", "ringlet-session-1=y", "http://localhost", `{"command":"load"}`)
	f.Add("POST", "/v1/session", "[::1]:1", "", "", "null", `{"token":"x"}`)
	f.Add("GET", "/?token=%00", "127.0.0.1", "", "", "", "")
	f.Add("GET", "/v1/events?after=1", "evil.example", "", "", "", "")
	f.Add("GET", "/v1/runs/../status", "127.0.0.1", "", "", "", "")
	f.Add("GET", "//v1/runs/1.json", "127.0.0.1", "", "", "", "")
	f.Fuzz(func(t *testing.T, method, target, host, authorization, cookie, origin, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		req := &http.Request{
			Method:     method,
			URL:        u,
			Host:       host,
			Proto:      "HTTP/1.1",
			ProtoMajor: 1,
			ProtoMinor: 1,
			RemoteAddr: "127.0.0.1:1",
			Body:       io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Authorization": {authorization}, "Cookie": {cookie}, "Origin": {origin},
				"Last-Event-Id": {body}},
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, req.WithContext(t.Context()))
		switch {
		case w.Code < 300 && u.Path != "/openapi.json":
			t.Errorf("%s %s answers %d %s", method, target, w.Code, w.Body)
		case w.Code >= 400 && strings.HasPrefix(u.Path, "/v1/") && !strings.Contains(w.Body.String(), `"message"`) &&
			w.Code != http.StatusMethodNotAllowed:
			t.Errorf("%s %s refuses with %d %q", method, target, w.Code, w.Body)
		}
	})
}
