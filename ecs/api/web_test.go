package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/apitest"
)

// session opens one and returns the header that carries it.
func (h *fixture) session() string {
	h.t.Helper()
	got := h.web("POST", "/v1/session", `{"token":"`+h.token+`"}`)
	var opened struct{ Session string }
	if err := json.Unmarshal([]byte(got.body), &opened); err != nil || got.code != http.StatusOK || opened.Session == "" {
		h.t.Fatalf("no session: %d %s", got.code, got.body)
	}
	return "Bearer " + opened.Session
}

func TestARunByHTTP(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	bearer := h.session()
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/v1/fsm", "", `"name":"load"`},
		{"POST", "/v1/config/check", `{"configuration":"nodes: 4\n","settings":["rate=3"]}`, `"ok":true`},
		{"POST", "/v1/control/take", `{}`, `"name":"local"`},
		{"POST", "/v1/plan", `{"command":"load"}`, `"possible":true`},
		{"POST", "/v1/plan", `{"command":"start"}`, `in state Offline`},
		{"POST", "/v1/command", `{"command":"load","arguments":{"configuration":"nodes: 4\n"}}`, `"state":"NotReady"`},
		{"POST", "/v1/command", `{"command":"configure"}`, `"state":"Ready"`},
		{"POST", "/v1/command", `{"command":"start","arguments":{"remark":"by hand"}}`, `"run":1`},
		{"GET", "/v1/snapshot", "", `"state":"Running"`},
		{"GET", "/v1/snapshot?history=3", "", `"history":[{`},
		{"GET", "/v1/status", "", `"you":{"name":"local","role":"ROLE_ADMIN"}`},
		{"POST", "/v1/command", `{"command":"stop"}`, `"state":"Ready"`},
		{"GET", "/v1/runs", "", `"verdict":"VERDICT_GOOD"`},
		{"GET", "/v1/runs/1", "", `"remark":"by hand"`},
		{"GET", "/v1/runs/0", "", `"number":1`},
		{"GET", "/v1/runs/1.json", "", `"stopped_by":"local"`},
		{"POST", "/v1/control/release", `{}`, `"name":""`},
		{"GET", "/v1/audit", "", `"action":"command stop"`},
		{"POST", "/v1/session/token", ``, `/?token=`},
	} {
		got := h.web(c.method, c.path, c.body, "Authorization", bearer)
		if text := strings.ReplaceAll(got.body, ": ", ":"); !strings.Contains(strings.ReplaceAll(text, `", "`, `","`),
			strings.ReplaceAll(c.want, ": ", ":")) {
			t.Errorf("%s %s: %d %s; want %s", c.method, c.path, got.code, got.body, c.want)
		}
	}
}

func TestTheSameErrorBothWays(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	bearer := h.session()
	alice := h.client("alice", certs.RoleOperator)
	for _, c := range []struct {
		req    *ecsv1.CommandRequest
		code   codes.Code
		http   int
		reason string
		detail string
	}{
		{&ecsv1.CommandRequest{Command: "stop"}, codes.FailedPrecondition, 400, api.ReasonState, "PreconditionFailure"},
		{&ecsv1.CommandRequest{Command: "halt"}, codes.InvalidArgument, 400, api.ReasonArgument, "BadRequest"},
		{&ecsv1.CommandRequest{Command: "load", Arguments: map[string]string{"configuration": "broken"}},
			codes.InvalidArgument, 400, api.ReasonConfiguration, "BadRequest"},
	} {
		_, err := alice.Command(t.Context(), c.req)
		s := status.Convert(err)
		if s.Code() != c.code || len(s.Details()) != 2 {
			t.Errorf("%v over gRPC: %v", c.req, err)
		}
		body, _ := json.Marshal(map[string]any{"command": c.req.GetCommand(), "arguments": c.req.GetArguments()})
		got := h.web("POST", "/v1/command", string(body), "Authorization", bearer)
		var reply struct {
			Code    int
			Message string
			Details []struct {
				Type   string `json:"@type"`
				Reason string
			}
		}
		if err := json.Unmarshal([]byte(got.body), &reply); err != nil || got.code != c.http || reply.Code != int(c.code) ||
			reply.Message != s.Message() || len(reply.Details) != 2 || reply.Details[0].Reason != c.reason ||
			!strings.HasSuffix(reply.Details[1].Type, c.detail) {
			t.Errorf("%v over HTTP: %d %s", c.req, got.code, got.body)
		}
	}
}

// reason is the reason in the error that came over HTTP; what has not the shape of one has none.
func (a answer) reason() string {
	var reply struct {
		Code    int
		Message string
		Details []struct {
			Type   string `json:"@type"`
			Reason string
			Domain string
		}
	}
	if json.Unmarshal([]byte(a.body), &reply) != nil || reply.Code == 0 || reply.Message == "" ||
		len(reply.Details) == 0 ||
		reply.Details[0].Domain != api.Domain || reply.Details[0].Type != "type.googleapis.com/google.rpc.ErrorInfo" {
		return ""
	}
	return reply.Details[0].Reason
}

func TestWhateverIsAskedWrongByHTTP(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	bearer := h.session()
	for _, c := range []struct {
		method, path, body string
		http               int
		reason             string
	}{
		{"GET", "/v1/nothing", "", 404, api.ReasonRoute},
		{"GET", "/v1/", "", 404, api.ReasonRoute},
		{"GET", "/v1/runs/1/2", "", 404, api.ReasonRoute},
		{"GET", "/v1/runs/%ff", "", 400, api.ReasonArgument},
		{"GET", "/v1/runs/one", "", 400, api.ReasonArgument},
		{"GET", "/v1/runs/one.json", "", 400, api.ReasonArgument},
		{"GET", "/v1/runs/99999999999", "", 400, api.ReasonArgument},
		{"GET", "/v1/runs/7", "", 404, api.ReasonNoRun},
		{"GET", "/v1/runs:explode", "", 404, api.ReasonRoute},
		{"GET", "/v1/snapshot?history=much", "", 400, api.ReasonArgument},
		{"GET", "/v1/events?after=x", "", 400, api.ReasonArgument},
		{"GET", "/v1/snapshots?interval_ms=1", "", 400, api.ReasonArgument},
		{"GET", "/v1/command", "", 405, api.ReasonRoute},
		{"DELETE", "/v1/runs/1", "", 405, api.ReasonRoute},
		{"POST", "/v1/events", "", 405, api.ReasonRoute},
		{"POST", "/v1/session/none", "", 404, api.ReasonRoute},
		{"POST", "/openapi.json", "", 405, api.ReasonRoute},
		{"POST", "/v1/command", `{"command":`, 400, api.ReasonArgument},
		{"POST", "/v1/command", `{"comand": "stop"}`, 400, api.ReasonArgument},
		{"POST", "/v1/command", "\xff\xfe", 400, api.ReasonArgument},
		{"POST", "/v1/command", `{"command":"halt\ufffd"}`, 400, api.ReasonArgument},
		{"POST", "/v1/session", `{"token":"wrong"}`, 401, api.ReasonIdentity},
		{"POST", "/v1/session", `{`, 400, api.ReasonArgument},
	} {
		got := h.web(c.method, c.path, c.body, "Authorization", bearer)
		if got.code != c.http || got.reason() != c.reason {
			t.Errorf("%s %s %s: %d %s; want %d, %s", c.method, c.path, c.body, got.code, got.body, c.http, c.reason)
		}
	}
	if got := h.web("GET", "/v1/status", "", "Host", "evil.example"); got.code != 403 || got.reason() != api.ReasonOrigin {
		t.Errorf("another's name: %d %s", got.code, got.body)
	}
	if got := h.web("GET", "/v1/status", ""); got.code != 401 || got.reason() != api.ReasonIdentity {
		t.Errorf("a stranger: %d %s", got.code, got.body)
	}
}

func TestAnUnknownCallByGRPC(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	conn := h.dial("ada", certs.RoleAdmin)
	for _, method := range []string{"/ringlet.ecs.v1.RunControl/Explode", "/ringlet.ecs.v2.RunControl/GetStatus"} {
		err := conn.Invoke(t.Context(), method, &ecsv1.GetStatusRequest{}, &ecsv1.PartitionStatus{})
		s := status.Convert(err)
		if s.Code() != codes.Unimplemented || len(s.Details()) != 1 ||
			s.Details()[0].(*errdetails.ErrorInfo).GetReason() != api.ReasonRoute {
			t.Errorf("%s: %v %v", method, err, s.Details())
		}
	}
}
