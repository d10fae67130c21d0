package partition_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// program is a front-end that runs as a process of its own.
type program struct {
	command []string
	out     *os.File // with what all programs print
	stderr  lockedBuffer
	process *exec.Cmd
}

// lockedBuffer is a buffer for several writers.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (p *program) start(t *testing.T) {
	t.Helper()
	p.process = exec.Command(p.command[0], p.command[1:]...)
	p.process.Stdout, p.process.Stderr = p.out, &p.stderr
	must.OK(t, p.process.Start())
}

// kill ends it at once, whatever it does.
func (p *program) kill() {
	_ = p.process.Process.Kill()
	_ = p.process.Wait() // bounded by the kill
}

// readiness is how far the front-ends are, as the status has it.
func (h *farm) readiness() string {
	var all []string
	for _, s := range h.Status().GetSources() {
		all = append(all, fmt.Sprintf("%d %s: %s", s.GetSource(), s.GetName(), s.GetReadiness()))
	}
	return strings.Join(all, ", ")
}

// TestFiveRunsInOrder: front-ends in C and Python are told of five runs in order. The one in C begins last, the one in
// Python is paused and ended first. One that is killed, between two runs or within one, hears then where the run is.
func TestFiveRunsInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "c"), filepath.Join(dir, "py")}
	h := newFarm(t, 2, func(c *config.Config) {
		c.Rate, c.Packing, c.FlushAfter = 0, 50, patiently.Scaled(c.FlushAfter)
		c.Input = "unix:" + paths[0] + "?name=c&start=last&require=5m,unix:" + paths[1] + "?name=py&stop=first&require=5m"
	})
	said, out, err := os.Pipe()
	must.OK(t, err)
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(said); s.Scan(); {
			lines <- s.Text()
		}
	}()
	inC := &program{
		out:     out,
		command: []string{compiled.C(t, "../../clients/c", "testdata/runs.c"), "unix:" + paths[0], "c "},
	}
	inPython := &program{
		out:     out,
		command: append(interpreted.Python(t, "../../clients/python"), "testdata/runs.py", "unix:"+paths[1], "py "),
	}
	for _, p := range []*program{inC, inPython} {
		p.start(t)
		t.Cleanup(func() {
			p.kill()
			if t.Failed() {
				t.Logf("%s says: %s", p.command[0], p.stderr.String())
			}
		})
	}
	t.Cleanup(func() { must.OK(t, out.Close()) })
	next := func() string { return patiently.Receive(t, lines, "no command comes") }
	expect := func(run int, commands ...string) {
		t.Helper()
		for _, want := range commands {
			if got := next(); got != fmt.Sprint(want, " ", run) {
				t.Fatalf("%q comes, and not %q of run %d", got, want, run)
			}
		}
	}
	again := func(p *program, name string, run int) { // within a run
		t.Helper()
		p.kill()
		p.start(t)
		expect(run, name+" prepare", name+" begin")
		h.awaitBuilt(1000)
	}
	h.mustCommand("load", "configure")
	runs := 5
	if testing.Short() {
		runs = 2
	}
	for run := 1; run <= runs; run++ {
		h.mustCommand("start")
		prepared := []string{next(), next()} // in any order
		slices.Sort(prepared)
		if want := fmt.Sprintf("c prepare %d,py prepare %[1]d", run); strings.Join(prepared, ",") != want {
			t.Fatalf("%v come, and not %s", prepared, want)
		}
		expect(run, "py begin", "c begin")
		h.await("both have begun", func() bool { return h.readiness() == "0 c: begun, 1 py: begun" })
		h.awaitBuilt(1000)
		switch run {
		case 2:
			again(inPython, "py", run)
		case 5:
			again(inC, "c", run)
			again(inPython, "py", run)
		}
		h.mustCommand("pause")
		expect(run, "py pause", "c pause")
		h.mustCommand("resume")
		expect(run, "py resume", "c resume")
		h.mustCommand("stop")
		expect(run, "py end", "c end")
		if r := h.closedRun(uint32(run)); r.GetVerdict() == ecsv1.Verdict_VERDICT_ABORTED {
			t.Errorf("run %d: %v", run, r)
		}
		switch run { // between runs
		case 1:
			inC.kill()
			inC.start(t)
		case 3:
			inPython.kill()
			inPython.start(t)
		}
	}
}
