package ctl

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"ringlet/ecs/api"
	"ringlet/event/selection"
	tapv1 "ringlet/proto/ringlet/tap/v1"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// paged is a control with a page, and the links to it that are printed.
func paged(t *testing.T) (links chan string, stop func()) {
	t.Helper()
	h := newFixture(t)
	links = make(chan string, 10)
	server, err := api.New(api.Config{
		Backend:   h.fake,
		Records:   h.fake,
		Journal:   h.fake,
		Identity:  h.id,
		APIAddr:   "127.0.0.1:0",
		PageAddr:  "127.0.0.1:0",
		OnEntered: func(link string) { links <- link },
		Log:       slog.New(slog.DiscardHandler),
	})
	must.OK(t, err)
	links <- server.NewEntrance()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	stop = func() {
		cancel()
		if err := patiently.Receive(t, served); err != nil {
			t.Errorf("served until: %v", err)
		}
	}
	return links, stop
}

// TestTapPage looks at events with the link of a page: each link is good once, and the next one is printed.
func TestTapPage(t *testing.T) {
	links, stop := paged(t)
	look := func(link string, opts TapOptions) (string, error) {
		var out, errs bytes.Buffer
		opts.Format = selection.FormatJSON
		err := TapPage(t.Context(), Config{Out: &out, Err: &errs}, link, opts)
		return out.String() + errs.String(), err
	}
	first := patiently.Receive(t, links)
	sel := selection.Spec{Sources: []string{"0-3", "7"}, Rate: 2.5, Data: true}
	said, err := look(first, TapOptions{MaxEvents: 2, Spec: sel})
	if err != nil || strings.Count(said, `"data":"010203"`) != 2 ||
		!strings.HasSuffix(said, "2 events shown of 20 built\n") {
		t.Errorf("%v: %s", err, said)
	}
	next := patiently.Receive(t, links)
	for _, c := range []struct {
		link string
		spec selection.Spec
		code int
		want string
	}{
		{first, selection.Spec{}, exitPermission, "this token is not the one that was printed last"},
		{next, selection.Spec{Types: []string{"Pixel"}}, ExitUsage, `type "Pixel"`}, // and the link is still good
		{next, selection.Spec{Share: 13}, ExitUsage, "13 is not liked here"},
		{"127.0.0.1:7980", selection.Spec{}, ExitUsage, "does not begin with http://"},
		{"http://127.0.0.1:7980", selection.Spec{}, ExitUsage, "it has no token"},
		{"http://127.0.0.1:1/?token=x", selection.Spec{}, exitNoControl, "no control answers at 127.0.0.1:1"},
	} {
		said, err := look(c.link, TapOptions{Spec: c.spec})
		if err == nil || ExitCode(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%d), want %q (%d): %s", c.link, err, ExitCode(err), c.want, c.code, said)
		}
	}
	ended := make(chan error, 1)
	r, w := io.Pipe()
	go func() {
		ended <- TapPage(t.Context(), Config{Out: w, Err: io.Discard}, <-links, TapOptions{Format: selection.FormatJSON})
		_ = w.Close()
	}()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	stop()
	if err := patiently.Receive(t, ended); ExitCode(err) != exitNoControl {
		t.Errorf("when the control ends: %v (%d)", err, ExitCode(err))
	}
}

// recorded is a stream of samples as the API writes it (docs/api.md).
const recorded = `retry: 1000

data: {"events":[{"event":"8412", "run":1, "mep":"3", "attempt":1, "builder":"n0", "fragments":[` +
	`{"source":2, "type":63, "version":0, "size":2, "data":"AQI="}]}], ` +
	`"built":"9", "dropped":"1", "passed":"0", "unreadable":"0", "builders":2, "problems":["a"]}

: still here

event: end
data: {"code":14, "message":"the control ends", "details":[]}

`

func TestPageTapGolden(t *testing.T) {
	in := readTap(io.NopCloser(strings.NewReader(recorded)))
	got, err := in.Recv()
	must.OK(t, err)
	want := &tapv1.Samples{
		Events: []*tapv1.Sample{{
			Event:     8412,
			Run:       1,
			Mep:       3,
			Attempt:   1,
			Builder:   "n0",
			Fragments: []*tapv1.Fragment{{Source: 2, Type: 63, Size: 2, Data: []byte{1, 2}}},
		}},
		Built:    9,
		Dropped:  1,
		Builders: 2,
		Problems: []string{"a"},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	b, err := proto.Marshal(want)
	must.OK(t, err)
	got, err = readTap(io.NopCloser(strings.NewReader("pb: " + base64.StdEncoding.EncodeToString(b) + "\n\n"))).Recv()
	must.OK(t, err)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if _, err := in.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the control ends") {
		t.Errorf("it ends with %v", err)
	}
	for text, want := range map[string]codes.Code{
		"":                            codes.Unavailable,
		"data: {":                     codes.DataLoss,
		"pb: !\n":                     codes.DataLoss,
		"pb: CA==\n":                  codes.DataLoss,
		"event: end\ndata: nothing\n": codes.Unknown,
	} {
		if _, err := readTap(io.NopCloser(strings.NewReader(text))).Recv(); status.Code(err) != want {
			t.Errorf("%q gives %v, want %v", text, err, want)
		}
	}
}

func FuzzPageTap(f *testing.F) {
	f.Add([]byte(recorded))
	f.Add([]byte("pb: EAk=\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := readTap(io.NopCloser(bytes.NewReader(b)))
		for n := 0; ; n++ {
			if _, err := in.Recv(); err != nil {
				return
			}
			if n > len(b) {
				t.Fatal("there are more messages than bytes")
			}
		}
	})
}
