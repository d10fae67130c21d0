package api_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/apitest"
	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a served API over a made-up partition.
type fixture struct {
	t    testing.TB
	fake *apitest.Fake
	*api.Server
	ca    *certs.CA
	token string
	stop  context.CancelFunc
}

func newFixture(t testing.TB, opt apitest.Options, prepare ...func(*api.Config, *api.Server)) *fixture {
	t.Helper()
	ca, err := certs.NewCA(0)
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{t: t, fake: apitest.New(opt), ca: ca}
	cfg := api.Config{
		Backend:  h.fake,
		Records:  h.fake,
		Journal:  h.fake,
		Identity: h.issue("control", certs.RoleControl),
		APIAddr:  "127.0.0.1:0",
		PageAddr: "127.0.0.1:0",
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, p := range prepare {
		p(&cfg, nil)
	}
	if h.Server, err = api.New(cfg); err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(nil, h.Server)
	}
	if url := h.NewEntrance(); url != "" {
		_, h.token, _ = strings.Cut(url, "?token=")
	}
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx) }()
	t.Cleanup(func() {
		h.stop()
		if err := patiently.Receive(t, served); err != nil {
			t.Errorf("served until: %v", err)
		}
		h.fake.Close()
	})
	return h
}

func (h *fixture) issue(name string, role certs.Role) *certs.Identity {
	h.t.Helper()
	id, err := h.ca.Issue(name, []string{"127.0.0.1"}, role, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// dial connects as somebody.
func (h *fixture) dial(name string, role certs.Role) *grpc.ClientConn {
	h.t.Helper()
	return h.dialWith(h.issue(name, role).Client("control"))
}

func (h *fixture) dialWith(cfg *tls.Config) *grpc.ClientConn {
	h.t.Helper()
	conn, err := grpc.NewClient(h.APIAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (h *fixture) client(name string, role certs.Role) ecsv1.RunControlClient {
	return ecsv1.NewRunControlClient(h.dial(name, role))
}

// audited is the log, newest first. It waits for nothing: what was answered stands in it already.
func (h *fixture) audited() []*ecsv1.AuditEntry {
	h.t.Helper()
	entries, err := h.fake.ListAudit(1000)
	if err != nil {
		h.t.Fatal(err)
	}
	return entries
}

// answer is what came over HTTP.
type answer struct {
	code   int
	header http.Header
	body   string
}

// try sends a request with a transport of its own.
func try(transport *http.Transport, req *http.Request) (answer, error) {
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

// web asks over plain HTTP; headers come as pairs.
func (h *fixture) web(method, path, body string, headers ...string) answer {
	h.t.Helper()
	req, err := http.NewRequest(method, "http://"+h.PageAddr().String()+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	got, err := try(transport, req)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// awaitRefusedHandshake waits for the entry of a refused handshake: the peer learns of its refusal before that is
// written.
func (h *fixture) awaitRefusedHandshake(why string) {
	h.t.Helper()
	for end := time.Now().Add(patiently.LongTimeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, e := range h.audited() {
			if e.GetUser() == "unknown" && !e.GetAllowed() && e.GetAction() == "connect" &&
				strings.Contains(e.GetAnswer(), why) && e.GetAddress() != "" {
				return
			}
		}
	}
	h.t.Errorf("nothing of a connection that %s in %v", why, h.audited())
}
