package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

// served is a run control that serves, as somebody with its page's token sees it.
type served struct {
	*program
	base, bearer string
	client       *http.Client
}

// dials asks over connections of its own, made by a dialer; nil: by that of package net.
func dials(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

var entrance = regexp.MustCompile(`the page is at  (http://[^/]+)/(?:\?token=(\S+)| with the token in (\S+))`)

// serve starts a run control and comes in with its token.
func (s *session) serve(port string, args ...string) *served {
	s.t.Helper()
	p := s.start(append([]string{
		"control", "--certs", "keys", "--port", port, "--state", "state", "--api", "127.0.0.1:0", "--page", "127.0.0.1:0",
		"--patience", patiently.LongTimeout.String(),
	}, args...)...)
	return s.enter(p, dials(nil))
}

// enter comes in with the token that a program prints.
func (s *session) enter(p *program, client *http.Client) *served {
	s.t.Helper()
	var found []string
	eventually(s.t, "the page is served", func() bool {
		select {
		case <-p.ended:
			s.t.Fatalf("it has ended: %s", p.err.String())
		default:
		}
		found = entrance.FindStringSubmatch(p.out.String())
		return found != nil
	})
	c := &served{program: p, base: found[1], client: client}
	if file := found[3]; file != "" {
		found[2] = s.linked(p, file)
	}
	var opened struct{ Session string }
	if code := c.call("POST", "/v1/session", map[string]any{"token": found[2]}, &opened); code != http.StatusOK {
		s.t.Fatalf("no session: %d", code)
	}
	c.bearer = opened.Session
	return c
}

// linked is the token in the file of a link. A run control writes it for its user alone, and tells nobody else.
func (s *session) linked(p *program, file string) string {
	s.t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.dir, file)
	}
	st, err := os.Stat(file)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	_, token, ok := strings.Cut(strings.TrimSpace(string(text)), "?token=")
	if err != nil || !ok || st.Mode().Perm() != 0o600 {
		s.t.Fatalf("%s has %q and mode %v, %v", file, text, st.Mode(), err)
	}
	if shown := p.out.String() + p.err.String(); strings.Contains(shown, token) {
		s.t.Errorf("the token is in what may be a journal: %s", shown)
	}
	return token
}

// call asks over HTTP, and returns the status: 0 if nobody answers.
func (c *served) call(method, path string, body, into any) int {
	c.t.Helper()
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			c.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, &text)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.bearer)
	resp, err := c.client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		c.t.Fatalf("%s %s: %v: %s", method, path, err, answer)
	}
	return resp.StatusCode
}

// must gives commands that have to succeed.
func (c *served) must(names ...string) {
	c.t.Helper()
	for _, name := range names {
		var answer map[string]any
		if code := c.call("POST", "/v1/command", map[string]any{"command": name}, &answer); code != http.StatusOK {
			c.t.Fatalf("%s: %d %v\n%s", name, code, answer["message"], c.err.String())
		}
	}
}

// state is the partition's, and run the number of its run.
func (c *served) state() (state string, run int) {
	c.t.Helper()
	var st struct {
		Root struct{ State, InBetween string }
		Run  int
	}
	c.call("GET", "/v1/status", nil, &st)
	if st.Root.InBetween != "" {
		return st.Root.InBetween, st.Run
	}
	return st.Root.State, st.Run
}

// runs are the records, newest first, as "number verdict end".
func (c *served) runs() (all []string) {
	c.t.Helper()
	var list struct {
		Runs []struct {
			Number       int
			Verdict, End string
		}
	}
	c.call("GET", "/v1/runs?limit=100", nil, &list)
	for _, r := range list.Runs {
		all = append(all, fmt.Sprintf("%d %s %s", r.Number, strings.TrimPrefix(r.Verdict, "VERDICT_"), r.End))
	}
	return all
}

// snapshot is how a run stands.
type snapshot struct {
	Total     struct{ EventsBuilt json.Number }
	Scheduler struct{ Slots []slots }
}

// slots of a builder unit.
type slots struct{ Used, Slots json.Number }

func (c *served) snapshot() (s snapshot) {
	c.t.Helper()
	c.call("GET", "/v1/snapshot", nil, &s)
	return s
}

func (c *served) built() uint64 {
	c.t.Helper()
	n, _ := c.snapshot().Total.EventsBuilt.Int64()
	return uint64(n)
}

// A page on this machine: one command, one link, a run that is watched, further runs with other settings, to which the
// rest is fitted anew, and an end in good order.
func TestRunWithPage(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	c := s.enter(s.start("run", "--nodes", "2", "--packing", "500", "--rate", "50000", "--duration", "10m", "--run-number",
		s.run, "--page", "127.0.0.1:0", "--json"), dials(nil))
	eventually(t, "events are built", func() bool { return c.built() > 0 })
	_, link, _ := strings.Cut(c.out.String(), "the next link is ")
	s.start("tap", "--page", strings.TrimSpace(link), "--events", "3").ends(0)
	c.must("stop", "reset", "unload")
	for _, changed := range []string{"packing: 30000", "phase-end: count", "nodes: 1"} {
		c.makesRun(changed)
	}
	s.signal(c.cmd.Process.Pid, syscall.SIGINT)
	c.ends(0)
	c.holds("accounting_ok=true")
	s.nothingLeft()
}

// Where nobody said how many nodes there are, later runs have those of the first.
func TestRunWithPageKeepsItsNodes(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	c := s.enter(s.start("run", "--streams", "3,1", "--packing", "500", "--rate", "50000", "--duration", "10m",
		"--run-number", s.run, "--page", "127.0.0.1:0", "--json"), dials(nil))
	eventually(t, "events are built", func() bool { return c.built() > 0 })
	c.must("stop", "reset", "unload")
	c.makesRun("streams: 3")
	s.signal(c.cmd.Process.Pid, syscall.SIGINT)
	c.ends(0)
	c.holds("nodes=2", "accounting_ok=true")
	s.nothingLeft()
}

// makesRun makes a run with a changed setting.
func (c *served) makesRun(changed string) {
	c.t.Helper()
	var answer map[string]any
	code := c.call("POST", "/v1/command", map[string]any{
		"command":   "load",
		"arguments": map[string]string{"configuration": changed},
	}, &answer)
	if code != http.StatusOK {
		c.t.Fatalf("%s: %d %v", changed, code, answer["message"])
	}
	c.must("configure", "start", "stop", "reset", "unload")
}

// The run control is killed again and again, at moments that nobody chooses: the nodes build on, it finds them when it
// comes back, and every run has its number and its end.
func TestControlIsKilled(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "n0", "n1", "n2")
	port := s.port()
	var nodes []*program
	c := s.serve(port, "--nodes", "3", "--packing", "500", "--rate", "20000")
	for _, name := range []string{"n0", "n1", "n2"} {
		nodes = append(nodes, s.startNode(name, "keys", port))
	}
	for _, n := range nodes {
		eventually(t, "the node is there", func() bool { return strings.Contains(n.err.String(), "waiting for the control") })
	}
	c.must("load", "configure")
	const kills = 6
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for kill := range kills {
		before := c.built()
		state, _ := c.state()
		switch state {
		case "Running":
			if kill%3 == 2 {
				c.call("POST", "/v1/command", map[string]any{"command": "stop", "noWait": true}, nil)
			}
		case "Ready":
			c.call("POST", "/v1/command", map[string]any{"command": "start", "noWait": true}, nil)
		case "NotReady":
			eventually(t, "its nodes have joined it again, and are configured", func() bool {
				return c.call("POST", "/v1/command", map[string]any{"command": "configure"}, nil) == http.StatusOK
			})
			c.call("POST", "/v1/command", map[string]any{"command": "start", "noWait": true}, nil)
		default:
			t.Fatalf("kill %d finds it %s: %s", kill, state, c.err.String())
		}
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		s.signal(c.cmd.Process.Pid, syscall.SIGKILL)
		patiently.Receive(t, c.ended)
		c = s.serve(port)
		eventually(t, "it knows where it is", func() bool {
			st, _ := c.state()
			return st == "Running" || st == "Ready" || st == "NotReady"
		})
		if st, _ := c.state(); st == "Running" && state == "Running" {
			eventually(t, "the run goes on", func() bool { st, _ := c.state(); return c.built() > before || st != "Running" })
		}
	}
	if st, _ := c.state(); st == "Running" {
		c.must("stop")
	}
	eventually(t, "nothing goes on", func() bool { st, _ := c.state(); return st == "Ready" || st == "NotReady" })
	runs := c.runs()
	for i, r := range runs {
		if number := len(runs) - i; !strings.HasPrefix(r, fmt.Sprintf("%d GOOD", number)) &&
			!strings.HasSuffix(r, " ABORTED control_lost") {
			var body any
			c.call("GET", fmt.Sprintf("/v1/runs/%d", number), nil, &body)
			t.Errorf("run %d: %q: %v", number, r, body)
		}
	}
	if len(runs) == 0 {
		t.Error("there is no record of any run")
	}
	for _, n := range nodes {
		s.signal(n.cmd.Process.Pid, syscall.SIGTERM)
		n.ends(0)
	}
	s.signal(c.cmd.Process.Pid, syscall.SIGTERM)
	c.ends(0)
	s.nothingLeft("keys", "state")
}

// Strangers see nothing over the page's address, and a token is good once.
func TestTokensAreGoodOnce(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "n0")
	c := s.serve(s.port())
	token := entrance.FindStringSubmatch(c.out.String())[2]
	var answer map[string]any
	if code := c.call("POST", "/v1/session", map[string]any{"token": token}, &answer); code != http.StatusUnauthorized {
		t.Errorf("the token is good twice: %d %v", code, answer)
	}
	stranger := &served{
		program: c.program,
		base:    c.base,
		client:  c.client,
		bearer:  url.QueryEscape("guess"),
	}
	if code := stranger.call("GET", "/v1/status", nil, &answer); code != http.StatusUnauthorized {
		t.Errorf("a stranger sees the status: %d %v", code, answer)
	}
	s.signal(c.cmd.Process.Pid, syscall.SIGTERM)
	c.ends(0)
}
