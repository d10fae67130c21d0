package api_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/apitest"
	"ringlet/testkit/patiently"
)

func TestServerOnLoopback(t *testing.T) {
	h := newFixture(t, apitest.Options{}, func(_ *api.Config, s *api.Server) {
		if s != nil {
			hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
			s.Handle("GET /", api.Everybody, hello)
			s.Handle("GET /debug/", api.Admin, hello)
		}
	})
	here := "http://" + h.PageAddr().String()
	entered := h.web("GET", "/?token="+h.token, "")
	cookie := entered.header.Get("Set-Cookie")
	if entered.code != http.StatusSeeOther || entered.header.Get("Location") != "/" ||
		!strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Fatalf("entered with %d %v", entered.code, entered.header)
	}
	cookie, _, _ = strings.Cut(cookie, ";")
	_, word, _ := strings.Cut(cookie, "=")
	const load = `{"command":"load"}`
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
	}{
		{"the page without a session", "GET", "/", "", nil, 200},
		{"the document without a session", "GET", "/openapi.json", "", nil, 200},
		{"status without a session", "GET", "/v1/status", "", nil, 401},
		{"events without a session", "GET", "/v1/events", "", nil, 401},
		{"a record without a session", "GET", "/v1/runs/0.json", "", nil, 401},
		{"profiles without a session", "GET", "/debug/pprof", "", nil, 401},
		{"a new token without a session", "POST", "/v1/session/token", "", nil, 401},
		{"the token again", "GET", "/?token=" + h.token, "", nil, 401},
		{"the token again, by POST", "POST", "/v1/session", `{"token":"` + h.token + `"}`, nil, 401},
		{"a session that is none", "GET", "/v1/status", "", []string{"Authorization", "Bearer " + word + "x"}, 401},
		{"a session", "GET", "/v1/status", "", []string{"Authorization", "Bearer " + word}, 200},
		{"a cookie", "GET", "/v1/status", "", []string{"Cookie", cookie}, 200},
		{"profiles", "GET", "/debug/pprof", "", []string{"Cookie", cookie}, 200},
		{"somebody else's name for this machine", "GET", "/v1/status", "", []string{"Cookie", cookie, "Host", "evil.example"},
			403},
		{"another site's page", "POST", "/v1/command", load, []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 403},
		{"another port's page", "POST", "/v1/command", load, []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403},
		{"another origin", "POST", "/v1/command", load, []string{"Cookie", cookie, "Origin", "http://127.0.0.1:1"}, 403},
		{"no origin", "POST", "/v1/command", load, []string{"Cookie", cookie}, 403},
		{"a sandboxed origin", "POST", "/v1/command", load, []string{"Cookie", cookie, "Origin", "null"}, 403},
		{"its own page", "POST", "/v1/command", load, []string{"Cookie", cookie, "Origin", here}, 200},
		{"its own page, as newer browsers say", "POST", "/v1/command", load,
			[]string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}, 200},
		{"no browser", "POST", "/v1/command", load, []string{"Authorization", "Bearer " + word}, 200},
		{"a field that is none", "POST", "/v1/command", `{"comand":"load"}`, []string{"Authorization", "Bearer " + word},
			400},
		{"no JSON", "POST", "/v1/command", `load`, []string{"Authorization", "Bearer " + word}, 400},
		{"too much", "POST", "/v1/command", strings.Repeat(" ", 2<<20), []string{"Authorization", "Bearer " + word}, 400},
		{"no such call", "GET", "/v1/nothing", "", []string{"Authorization", "Bearer " + word}, 404},
		{"no such method", "DELETE", "/v1/status", "", []string{"Authorization", "Bearer " + word}, 405},
		{"no such run", "GET", "/v1/runs/77", "", []string{"Authorization", "Bearer " + word}, 404},
		{"no such record", "GET", "/v1/runs/77.json", "", []string{"Authorization", "Bearer " + word}, 404},
		{"no number", "GET", "/v1/runs/x.json", "", []string{"Authorization", "Bearer " + word}, 400},
		{"an interval out of range", "GET", "/v1/snapshots?intervalMs=1", "", []string{"Authorization", "Bearer " + word},
			400},
		{"an event that is none", "GET", "/v1/events", "", []string{"Authorization", "Bearer " + word, "Last-Event-ID", "x"},
			400},
		{"too long a list", "GET", "/v1/runs?limit=1001", "", []string{"Authorization", "Bearer " + word}, 400},
	} {
		got := h.web(c.method, c.path, c.body, c.headers...)
		if got.code != c.code {
			t.Errorf("%s: %d %s, want %d", c.name, got.code, got.body, c.code)
		}
		var reply struct {
			Message string
			Details []any
		}
		if c.code >= 400 && (json.Unmarshal([]byte(got.body), &reply) != nil || reply.Message == "") {
			t.Errorf("%s: no google.rpc.Status: %s", c.name, got.body)
		}
	}
	refused := 0
	for _, e := range h.audited() {
		if !e.GetAllowed() {
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("%d refusals in the audit log", refused)
	}
}

func TestServerElsewhere(t *testing.T) {
	h := newFixture(t, apitest.Options{}, func(c *api.Config, _ *api.Server) {
		if c != nil {
			c.PageAddr = "0.0.0.0:0" // no loopback address, so sealed
		}
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(h.PageAddr().String(), "[::]"), ":")
	request := func(as *certs.Identity, method, path, body string, headers ...string) (answer, error) {
		req, err := http.NewRequest(method, "https://127.0.0.1:"+port+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		cfg := h.issue("probe", certs.RoleViewer).Client("control")
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
			error) {
			return &tls.Certificate{}, nil
		}
		if as != nil {
			cfg.GetClientCertificate = as.Client("control").GetClientCertificate
		}
		transport := &http.Transport{TLSClientConfig: cfg}
		defer transport.CloseIdleConnections()
		return try(transport, req)
	}
	for _, c := range []struct {
		role         certs.Role
		method, path string
		headers      []string
		code         int
	}{
		{certs.RoleViewer, "GET", "/v1/status", nil, 200},
		{certs.RoleNode, "GET", "/v1/status", nil, 403},
		{certs.RoleViewer, "POST", "/v1/command", nil, 403},
		{certs.RoleOperator, "POST", "/v1/command", nil, 200},
		{certs.RoleOperator, "POST", "/v1/command", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{certs.RoleOperator, "POST", "/v1/command", []string{"Origin", "https://evil.example"}, 403},
		{certs.RoleOperator, "GET", "/v1/audit", nil, 403},
		{certs.RoleAdmin, "GET", "/v1/audit", nil, 200},
		{certs.RoleAdmin, "POST", "/v1/session", nil, 401},
		{certs.RoleAdmin, "POST", "/v1/session/token", nil, 401},
	} {
		body := `{"command":"load"}`
		if strings.HasPrefix(c.path, "/v1/session") {
			body = `{"token":"x"}`
		}
		got, err := request(h.issue("somebody", c.role), c.method, c.path, body, c.headers...)
		if err != nil || got.code != c.code {
			t.Errorf("%s %s %s: %d %s %v; want %d", c.role, c.method, c.path, got.code, got.body, err, c.code)
		}
	}
	if got, err := request(nil, "GET", "/openapi.json", ""); err == nil {
		t.Errorf("without a certificate: %d %s", got.code, got.body)
	}
	h.awaitRefusedHandshake("showed no certificate")
	if url := h.NewEntrance(); !strings.HasPrefix(url, "https://") || strings.Contains(url, "token") {
		t.Errorf("the entrance is %s", url)
	}
}

func TestControl(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	ctx := t.Context()
	alice, bob, ada := h.client("alice", certs.RoleOperator), h.client("bob", certs.RoleOperator),
		h.client("ada", certs.RoleAdmin)
	load := &ecsv1.CommandRequest{Command: "load"}
	code := func(_ any, err error) codes.Code { return status.Code(err) }
	for i, c := range []struct {
		got, want codes.Code
	}{
		{code(alice.Command(ctx, load)), codes.OK}, // nobody has control
		{code(alice.TakeControl(ctx, &ecsv1.TakeControlRequest{})), codes.OK},
		{code(bob.Command(ctx, load)), codes.PermissionDenied},
		{code(bob.TakeControl(ctx, &ecsv1.TakeControlRequest{})), codes.PermissionDenied},
		{code(bob.TakeControl(ctx, &ecsv1.TakeControlRequest{Force: true})), codes.PermissionDenied},
		{code(bob.ReleaseControl(ctx, &ecsv1.ReleaseControlRequest{})), codes.PermissionDenied},
		{code(ada.TakeControl(ctx, &ecsv1.TakeControlRequest{})), codes.PermissionDenied},
		{code(ada.TakeControl(ctx, &ecsv1.TakeControlRequest{Force: true})), codes.OK},
		{code(alice.Command(ctx, load)), codes.PermissionDenied},
		{code(ada.ReleaseControl(ctx, &ecsv1.ReleaseControlRequest{})), codes.OK},
		{code(alice.Command(ctx, load)), codes.OK},
	} {
		if c.got != c.want {
			t.Errorf("step %d: %s, want %s", i, c.got, c.want)
		}
	}
	plan, err := h.client("vera", certs.RoleViewer).Plan(ctx, load)
	if err != nil || plan.GetPossible() || !strings.Contains(strings.Join(plan.GetRefusals(), " "),
		"it takes at least operator") {
		t.Errorf("a viewer's plan: %v, %v", plan, err)
	}
	var commands []string
	for _, e := range h.audited() {
		if !e.GetAllowed() {
			commands = append(commands, e.GetUser()+" "+e.GetAction())
		}
	}
	want := "alice command load, ada take control, bob release control, bob take control by force, bob take control, " +
		"bob command load"
	if got := strings.Join(commands, ", "); got != want {
		t.Errorf("refused: %s\nwant: %s", got, want)
	}
}

// Of many who take control at the same time one has it.
func TestOneOfManyHasControl(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	var got atomic.Int32
	var wait sync.WaitGroup
	for i := range 8 {
		c := h.client(fmt.Sprintf("u%d", i), certs.RoleOperator)
		wait.Go(func() {
			if _, err := c.TakeControl(t.Context(), &ecsv1.TakeControlRequest{}); err == nil {
				got.Add(1)
			}
		})
	}
	patiently.Wait(t, wait.Wait)
	if got.Load() != 1 {
		t.Errorf("%d have control", got.Load())
	}
}

// Nothing is obeyed unseen: after an entry that could not be written, commands are refused until one can.
func TestNothingIsObeyedWithoutTheAuditLog(t *testing.T) {
	var full atomic.Bool
	h := newFixture(t, apitest.Options{})
	h.fake.FailAudit = func(*ecsv1.AuditEntry) error {
		if full.Load() {
			return errors.New("no space left on device")
		}
		return nil
	}
	alice := h.client("alice", certs.RoleOperator)
	full.Store(true)
	if _, err := alice.Command(t.Context(), &ecsv1.CommandRequest{Command: "load"}); err != nil {
		t.Fatalf("the one that finds it out: %v", err)
	}
	_, err := alice.Command(t.Context(), &ecsv1.CommandRequest{Command: "configure"})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("the next one: %v", err)
	}
	if _, err := alice.GetStatus(t.Context(), &ecsv1.GetStatusRequest{}); err != nil {
		t.Errorf("a question: %v", err)
	}
	full.Store(false)
	if _, err := alice.Command(t.Context(), &ecsv1.CommandRequest{Command: "configure"}); err != nil {
		t.Errorf("after there is room again: %v", err)
	}
}

// A run is stopped and given up whether that can be written down or not: it is said as an alarm. What begins or takes
// away still waits for the log.
func TestStopNeedsNoAuditLog(t *testing.T) {
	var full atomic.Bool
	h := newFixture(t, apitest.Options{})
	h.fake.FailAudit = func(*ecsv1.AuditEntry) error {
		if full.Load() {
			return errors.New("no space left on device")
		}
		return nil
	}
	alice := h.client("alice", certs.RoleOperator)
	for _, c := range []string{"load", "configure", "start"} {
		if _, err := alice.Command(t.Context(), &ecsv1.CommandRequest{Command: c}); err != nil {
			t.Fatal(err)
		}
	}
	full.Store(true)
	for range 2 { // the one that finds it out, and one that knows
		if _, err := alice.Command(t.Context(), &ecsv1.CommandRequest{Command: "stop"}); err != nil {
			t.Errorf("a run cannot be stopped: %v", err)
		}
	}
	if _, err := alice.Command(t.Context(),
		&ecsv1.CommandRequest{Command: "reset"}); status.Code(err) != codes.Unavailable {
		t.Errorf("what takes away is obeyed unseen: %v", err)
	}
	if !slices.ContainsFunc(h.fake.EventsSince(0), func(e *ecsv1.Event) bool {
		return e.GetKind() == "alarm" && e.GetSeverity() == ecsv1.Severity_SEVERITY_ERROR &&
			strings.Contains(e.GetText(), "command stop of alice")
	}) {
		t.Error("nobody says that the stop is not in the log")
	}
}

// faulty panics where a partition would answer.
type faulty struct{ *apitest.Fake }

func (faulty) Check(context.Context, *ecsv1.CheckConfigurationRequest) *ecsv1.CheckConfigurationResponse {
	panic("a mistake")
}

func TestAPanicIsAnErrorAndAnEvent(t *testing.T) {
	h := newFixture(t, apitest.Options{}, func(c *api.Config, _ *api.Server) {
		if c != nil {
			c.Backend = faulty{c.Backend.(*apitest.Fake)}
		}
	})
	_, err := h.client("olga", certs.RoleOperator).CheckConfiguration(t.Context(), &ecsv1.CheckConfigurationRequest{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a mistake:") {
		t.Errorf("%v", err)
	}
	events := h.fake.EventsSince(0)
	if len(events) == 0 || events[len(events)-1].GetKind() != "alarm" ||
		!strings.Contains(events[len(events)-1].GetText(), "CheckConfiguration") {
		t.Errorf("events: %v", events)
	}
}

// A restart is not noticed: the session is good, and who had control has it.
func TestSessionsAndControlOutliveTheProcess(t *testing.T) {
	first := newFixture(t, apitest.Options{})
	remembering := apitest.New(apitest.Options{})
	defer remembering.Close()
	with := func(c *api.Config, _ *api.Server) {
		if c != nil {
			c.Records = remembering
		}
	}
	a := newFixture(t, apitest.Options{}, with)
	bearer := a.session()
	a.web("POST", "/v1/control/take", "{}", "Authorization", bearer)
	b := newFixture(t, apitest.Options{}, with)
	got := b.web("GET", "/v1/status", "", "Authorization", bearer)
	if got.code != http.StatusOK || !strings.Contains(strings.ReplaceAll(got.body, " ", ""),
		`"owner":{"name":"local","role":"ROLE_ADMIN"`) {
		t.Errorf("after a restart: %d %s", got.code, got.body)
	}
	if got := first.web("GET", "/v1/status", "", "Authorization", bearer); got.code != http.StatusUnauthorized {
		t.Errorf("elsewhere: %d", got.code)
	}
}

// TestEndBeforeTheBeginning: a server that is to end before it has begun to serve ends without an error.
func TestEndBeforeTheBeginning(t *testing.T) {
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) { newFixture(t, apitest.Options{}).stop() })
	}
}

func TestOpenAPIListsEveryPath(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(h.web("GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	operations := map[string]bool{}
	bearer := h.session()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			operations[op.OperationID] = true
			if path == "/v1/events" || path == "/v1/snapshots" || path == "/v1/tap" || path == "/v1/sample" {
				continue // endless
			}
			got := h.web(strings.ToUpper(method), strings.Replace(path, "{number}", "0", 1), "{}", "Authorization", bearer)
			if got.code == http.StatusMethodNotAllowed || strings.Contains(got.body, "no call of this API") {
				t.Errorf("%s %s is in the document and not served: %d %s", method, path, got.code, got.body)
			}
		}
	}
	for _, m := range methods() {
		if !operations["RunControl_"+m] {
			t.Errorf("%s is not in the document", m)
		}
	}
}
