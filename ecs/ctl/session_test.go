package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	"ringlet/testkit/apitest"
	"ringlet/testkit/patiently"
	"ringlet/testkit/transcript"
)

// fixture is a control over a made-up partition.
type fixture struct {
	t    *testing.T
	fake *apitest.Fake
	ca   *certs.CA
	id   *certs.Identity
	addr string
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ca, err := certs.NewCA(0)
	if err != nil {
		t.Fatal(err)
	}
	h := &fixture{
		t:    t,
		fake: apitest.New(apitest.Options{Nodes: 2, WithPastRuns: true}),
		ca:   ca,
		addr: "127.0.0.1:0",
	}
	h.id = h.issue("control", certs.RoleControl)
	t.Cleanup(h.fake.Close)
	h.serve()
	return h
}

// serve opens the API, at the same address as before if there was one.
func (h *fixture) serve() {
	h.t.Helper()
	server, err := api.New(api.Config{
		Backend:  h.fake,
		Records:  h.fake,
		Journal:  h.fake,
		Identity: h.id,
		APIAddr:  h.addr,
		Log:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.addr = server.APIAddr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := patiently.Receive(h.t, served); err != nil {
			h.t.Errorf("served until: %v", err)
		}
	})
	h.t.Cleanup(h.stop)
}

func (h *fixture) issue(name string, role certs.Role) *certs.Identity {
	h.t.Helper()
	id, err := h.ca.Issue(name, []string{"127.0.0.1"}, role, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// users are who takes part in the tests.
var users = map[string]certs.Role{"vera": certs.RoleViewer, "alice": certs.RoleOperator, "bob": certs.RoleOperator,
	"ada": certs.RoleAdmin}

// session of a user; out takes what it writes and what goes wrong.
func (h *fixture) session(user string, out io.Writer, change ...func(*Config)) *Session {
	h.t.Helper()
	cfg := Config{
		Address:  h.addr,
		Identity: h.issue(user, users[user]),
		Version:  "test",
		In:       strings.NewReader(""),
		Out:      out,
		Err:      out,
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := Dial(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = s.Close() })
	return s
}

// do gives commands as alice, which must go well.
func (h *fixture) do(line string) string {
	h.t.Helper()
	var out bytes.Buffer
	if err := h.session("alice", &out).RunBatch(h.t.Context(), mustSplit(h.t, line)); err != nil {
		h.t.Fatalf("%s: %v\n%s", line, err, &out)
	}
	return out.String()
}

func mustSplit(t *testing.T, line string) []string {
	t.Helper()
	words, err := SplitWords(line)
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// A whole shift, by everybody: what is written, and the code with which each line ends.
func TestAShift(t *testing.T) {
	h := newFixture(t)
	golden, err := filepath.Abs("testdata/shift.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("run.yaml", []byte("packing: 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for line := range strings.Lines(`alice status
alice help
alice help start
alice load nowhere.yaml configure
alice load run.yaml seed=2 configure start remark='a night shift' status
alice watch figures
alice wait
vera start
vera plan stop
alice plan load
alice load
alice exclude n9
alice exclude n1 status
alice include n1 stop
alice runs 3
alice runs 2 before=5
alice show-run
alice show-run 3
alice show-run 99
alice wait end
alice wait Ready 1s
alice take-control
bob take-control
bob reset
bob take-control force
ada take-control force
ada release-control
alice check run.yaml packing=1
alice check packing=nodse
alice audit
alice configure wait
alice stop nothing
alice json status
alice json start reset
alice json show-run 99
vera sample n1 10ms 4
vera sample n1 csv 10ms 3 counters=link.bytes_sent,bu.meps_built
vera json sample n1 10ms 2
vera sample
vera sample nowhere
vera sample n1 2h
`) {
		user, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := mustSplit(t, rest)
		asJSON := words[0] == "json"
		if asJSON {
			words = words[1:]
		}
		s := h.session(user, &all, func(c *Config) { c.JSON = asJSON })
		fmt.Fprintf(&all, "$ %s\n", strings.TrimSpace(line))
		err = s.RunBatch(t.Context(), words)
		if err != nil {
			WriteError(&all, asJSON, err)
		}
		fmt.Fprintf(&all, "= %d\n\n", ExitCode(err))
	}
	text := regexp.MustCompile(`since 20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ`).ReplaceAllString(all.String(), "since TIME")
	text = regexp.MustCompile(`"since":"20[^"]*"`).ReplaceAllString(text, `"since":"TIME"`)
	transcript.Expect(t, golden, text)
}

func TestNobodyElseIsSpokenWith(t *testing.T) {
	h := newFixture(t)
	another := newFixture(t)
	cut, err := net.Listen("tcp", "127.0.0.1:0") // as a forwarded port does when the pod behind it has no listener
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cut.Close() })
	go func() {
		for conn, err := cut.Accept(); err == nil; conn, err = cut.Accept() {
			_ = conn.Close()
		}
	}()
	for name, tc := range map[string]struct {
		change func(*Config)
		code   int
		says   string
	}{
		"another authority": {func(c *Config) { c.Address = another.addr }, exitPermission, "these keys do not go together"},
		"a node's keys":     {func(c *Config) { c.Identity = h.issue("n0", certs.RoleNode) }, exitPermission, ""},
		"nobody is there": {func(c *Config) { c.Address = "127.0.0.1:1" }, exitNoControl,
			"no control answers at 127.0.0.1:1: connect: connection refused"},
		"it is cut off": {func(c *Config) { c.Address = cut.Addr().String() }, exitNoControl, "no control answers at "},
	} {
		var out bytes.Buffer
		err := h.session("alice", &out, tc.change).RunBatch(t.Context(), []string{"status"})
		if ExitCode(err) != tc.code || err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: code %d: %v", name, ExitCode(err), err)
		}
	}
	// What is known here is explained without a control.
	var out bytes.Buffer
	if err := h.session("alice", &out, func(c *Config) { c.Address = "127.0.0.1:1" }).RunBatch(t.Context(),
		[]string{"help"}); err != nil || !strings.Contains(out.String(), "show-run") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// startWait runs a wait, and tells how it ended.
func (h *fixture) startWait(ctx context.Context, line string) <-chan error {
	h.t.Helper()
	return h.startWaitTo(ctx, line, io.Discard)
}

// startWaitTo begins when it is known what the words mean: from then on it is a wait.
func (h *fixture) startWaitTo(ctx context.Context, line string, log io.Writer) <-chan error {
	h.t.Helper()
	s := h.session("alice", log)
	vocab, err := s.LoadVocabulary(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	steps, err := vocab.parse(mustSplit(h.t, line))
	if err != nil {
		h.t.Fatal(err)
	}
	out := make(chan error, 1)
	go func() { out <- s.perform(ctx, vocab, steps) }()
	return out
}

func TestWaits(t *testing.T) {
	h := newFixture(t)
	h.do("load configure start")
	end, running, long := h.startWait(t.Context(), "wait end"), h.startWait(t.Context(), "wait Ready"),
		h.startWait(t.Context(), "wait 1h")
	h.fake.Lose("n1")
	if err := patiently.Receive(t, end); ExitCode(err) != exitRunNotGood ||
		!strings.Contains(err.Error(), "run 7 is ABORTED") {
		t.Errorf("code %d: %v", ExitCode(err), err)
	}
	for _, c := range []<-chan error{running, long} {
		if err := patiently.Receive(t, c); ExitCode(err) != exitFault || !strings.Contains(err.Error(),
			"the partition is in Error: n1: its process is gone (no echo for 3s, 14 writes open)") {
			t.Errorf("code %d: %v", ExitCode(err), err)
		}
	}
	h.do("recover wait NotReady 1m wait 1ms")
	if err := patiently.Receive(t, h.startWait(t.Context(), "wait Running 1ms")); ExitCode(err) != exitFault ||
		!strings.Contains(err.Error(), "after 1ms the partition is not in Running: it is in NotReady") {
		t.Errorf("code %d: %v", ExitCode(err), err)
	}
}

func TestAnInterruptedWaitEndsNoRun(t *testing.T) {
	h := newFixture(t)
	h.do("load configure start")
	ctx, cancel := context.WithCancel(t.Context())
	end := h.startWait(ctx, "wait end stop")
	cancel()
	if err := patiently.Receive(t, end); ExitCode(err) != exitFault || !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "ringlet ctl stop ends it") {
		t.Errorf("code %d: %v", ExitCode(err), err)
	}
	if st := h.fake.Status(); st.GetRoot().GetState() != "Running" {
		t.Errorf("the run is over: %v", st)
	}
}

// A control that goes away while its run is waited for is waited for as well.
func TestAWaitOutlivesTheControl(t *testing.T) {
	h := newFixture(t)
	h.do("load configure start")
	log := &outputWatch{seen: make(chan struct{}), what: "waiting for it to come back"}
	end := h.startWaitTo(t.Context(), "wait end", log)
	h.stop()
	select {
	case <-log.seen:
	case err := <-end:
		t.Fatalf("it was not waited for: %v", err)
	case <-time.After(patiently.LongTimeout):
		t.Fatal("it is not told that the control is awaited")
	}
	h.serve()
	h.do("stop")
	if err := patiently.Receive(t, end); err != nil {
		t.Error(err)
	}
}

// outputWatch closes seen when something has been written.
type outputWatch struct {
	mu   sync.Mutex
	all  strings.Builder
	what string
	seen chan struct{}
	once sync.Once
}

func (w *outputWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	if strings.Contains(w.all.String(), w.what) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}

func (w *outputWatch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func TestStreamsAreLinesOfJSON(t *testing.T) {
	h := newFixture(t)
	for _, line := range []string{"load configure wait 1ms", "logs 200ms", "watch 200ms", "watch events 200ms"} {
		var out bytes.Buffer
		if err := h.session("alice", &out, func(c *Config) { c.JSON = true }).RunBatch(t.Context(),
			mustSplit(t, line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		for one := range strings.Lines(out.String()) {
			if !json.Valid([]byte(one)) || !strings.HasPrefix(one, "{") {
				t.Errorf("%s wrote %q", line, one)
			}
		}
		if out.Len() == 0 && line != "watch events 200ms" {
			t.Errorf("%s wrote nothing", line)
		}
	}
}

func TestAScriptEndsWithItsFirstFailure(t *testing.T) {
	h := newFixture(t)
	var out bytes.Buffer
	err := h.session("alice", &out).RunScript(t.Context(),
		strings.NewReader("# a shift\n\nload configure\nresume\nunload\n"))
	if ExitCode(err) != exitPrecondition || !strings.HasPrefix(err.Error(), "line 4: resume: ") ||
		strings.Contains(out.String(), "unload") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := h.session("alice", &out).RunScript(t.Context(),
		strings.NewReader("reset unload\nexit\nnonsense\n")); err != nil {
		t.Error(err)
	}
	if err := h.session("alice", &out).RunScript(t.Context(),
		strings.NewReader("start 'x\n")); ExitCode(err) != ExitUsage {
		t.Error(err)
	}
}

func TestConfigurationFromStandardInput(t *testing.T) {
	h := newFixture(t)
	var out bytes.Buffer
	s := h.session("alice", &out, func(c *Config) { c.In = strings.NewReader("packing: 7\n") })
	if err := s.RunBatch(t.Context(), mustSplit(t, "load -")); err != nil {
		t.Fatal(err)
	}
	if got := h.fake.Status().GetConfiguration(); got != "packing: 7\n" {
		t.Errorf("%q is loaded", got)
	}
	large := h.session("alice", &out,
		func(c *Config) { c.In = strings.NewReader(strings.Repeat("#", maxConfiguration+1)) })
	if err := large.RunBatch(t.Context(), mustSplit(t, "check -")); ExitCode(err) != ExitUsage ||
		!strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}
