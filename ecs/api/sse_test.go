package api_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/testkit/apitest"
	"ringlet/testkit/patiently"
)

// stream opens server-sent events and returns a function that reads the next: its id and data.
func (h *fixture) stream(path string, headers ...string) (next func() (id, data string), end func()) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patiently.LongTimeout)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+h.PageAddr().String()+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		h.t.Fatalf("%s answers %s", path, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next = func() (id, data string) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "id":
				id = value
			case name == "data", name == "pb":
				data = value
			case lines.Text() == "" && data != "":
				return id, data
			}
		}
		return "", "the end"
	}
	return next, func() {
		cancel()
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	}
}

func TestEventsGoOnWhereTheyWereCutOff(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	bearer := h.session()
	add := func(kind, text string) { h.fake.Add(&ecsv1.Event{Kind: kind, Text: text}) }
	add("alarm", "before")
	next, end := h.stream("/v1/events", "Authorization", bearer)
	add("log", "a line that nobody asked for")
	add("alarm", "first")
	id, data := next()
	var event struct{ Text, Number string }
	if err := json.Unmarshal([]byte(data), &event); err != nil || event.Text != "first" || id != event.Number ||
		id != "3" {
		t.Errorf("first %s %s", id, data)
	}
	end()
	add("alarm", "meanwhile")
	add("log", "a line")
	all, end := h.stream("/v1/events?after=1", "Authorization", bearer)
	if id, data := all(); id != "1" || !strings.Contains(data, "before") {
		t.Errorf("all that is remembered begins with %s %s", id, data)
	}
	end()
	for _, c := range []struct {
		path string
		want []string
	}{{"/v1/events", []string{"4"}}, {"/v1/events?logs=true", []string{"4", "5"}},
		{"/v1/events?after=1&logs=true", []string{"4", "5"}}} {
		next, end := h.stream(c.path, "Authorization", bearer, "Last-Event-ID", id)
		for _, want := range c.want {
			if got, data := next(); got != want {
				t.Errorf("%s: event %s %s, want %s", c.path, got, data, want)
			}
		}
		end()
	}
}

func TestSnapshotsComeUntilTheServerEnds(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	next, end := h.stream("/v1/snapshots?intervalMs=50", "Authorization", h.session())
	defer end()
	for range 3 {
		if _, data := next(); !strings.Contains(data, `"state"`) {
			t.Errorf("a snapshot is %s", data)
		}
	}
	vera, err := h.client("vera", certs.RoleViewer).WatchSnapshots(patiently.Context(t), &ecsv1.WatchSnapshotsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vera.Recv(); err != nil {
		t.Fatal(err)
	}
	h.stop()
	for data := ""; data != "the end"; {
		_, data = next()
	}
	for {
		if _, err := vera.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("over gRPC it ends with %v", err)
			}
			return
		}
	}
}

func TestTap(t *testing.T) {
	h := newFixture(t, apitest.Options{})
	bearer := h.session()
	next, end := h.stream("/v1/tap?rate=5&data=true", "Authorization", bearer)
	defer end()
	for n := 1; n < 4; n++ {
		want := fmt.Sprintf(`"events":[{"event":"%d","run":7,"mep":"0","attempt":1,"builder":"n1"`, n)
		if _, data := next(); !strings.Contains(strings.ReplaceAll(data, " ", ""), want) ||
			!strings.Contains(data, `"AQID"`) {
			t.Errorf("a sample is %s, want %s", data, want)
		}
	}
	next, endBinary := h.stream("/v1/tap?rate=5&data=true", "Authorization", bearer, "Accept", "application/x-protobuf")
	defer endBinary()
	_, text := next()
	b, err := base64.StdEncoding.DecodeString(text)
	m := &tapv1.Samples{}
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil || len(m.GetEvents()) != 1 || m.GetEvents()[0].GetBuilder() != "n1" {
		t.Errorf("a sample in protobuf is %q: %v, %v", text, m, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	vera := h.client("vera", certs.RoleViewer)
	for sel, want := range map[*tapv1.Selection]codes.Code{{}: codes.OK, {Share: 13}: codes.InvalidArgument} {
		in, err := vera.Tap(ctx, sel)
		if err == nil {
			_, err = in.Recv()
		}
		if status.Code(err) != want {
			t.Errorf("%v gives %v", sel, err)
		}
	}
	in, err := h.client("n1", certs.RoleNode).Tap(ctx, &tapv1.Selection{})
	if err == nil {
		_, err = in.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a node gives %v", err)
	}
	if got := h.web("GET", "/v1/tap?share=13", "", "Authorization", bearer); got.code != http.StatusBadRequest ||
		!strings.Contains(got.body, "13 is not liked") {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := h.web("GET", "/v1/tap", ""); got.code != http.StatusUnauthorized {
		t.Errorf("%d %s", got.code, got.body)
	}
}
