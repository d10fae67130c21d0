package main

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ringlet/testkit/patiently"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// problemLog collects what processes tell.
type problemLog struct {
	mu  sync.Mutex
	all []string
}

func (x *problemLog) report(problem string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, problem)
}

func (x *problemLog) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.all, "; ")
}

func shell(t *testing.T, x *problemLog, script string) *process {
	t.Helper()
	h, err := newHost("here", "127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &process{
		name:   "n1",
		args:   []string{"-c", script},
		host:   h,
		log:    filepath.Join(dir, "log"),
		dir:    dir,
		exe:    "/bin/sh",
		report: x.report,
	}
	t.Cleanup(func() {
		p.kill()
		h.close()
	})
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patiently.LongTimeout); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestKilledProcessIsStartedAnew, and its end was asked for.
func TestKilledProcessIsStartedAnew(t *testing.T) {
	x := &problemLog{}
	p := shell(t, x, "exec sleep 1000")
	for lives := 2; lives < 4; lives++ {
		eventually(t, "it is there", func() bool { return p.signal(syscall.SIGKILL, true) == nil })
		eventually(t, "it lives again", func() bool { return p.startCount() == lives })
	}
	if x.text() != "" {
		t.Error(x.text())
	}
}

// TestEndByItself is told, with the last line of the log.
func TestEndByItself(t *testing.T) {
	x := &problemLog{}
	p := shell(t, x, "echo it hurts >&2; exit 3")
	eventually(t, "its end is told, and it lives again", func() bool { return x.text() != "" && p.startCount() > 1 })
	if !strings.HasPrefix(x.text(), "n1 ended by itself: exit status 3: it hurts") {
		t.Error(x.text())
	}
}

// TestRetire: SIGTERM reaches a process that was stopped; one that does not heed it is ended by force, and that is a
// problem.
func TestRetire(t *testing.T) {
	x := &problemLog{}
	p := shell(t, x, "exec sleep 1000")
	if err := p.signal(syscall.SIGSTOP, false); err != nil {
		t.Fatal(err)
	}
	if problem := p.retire(time.Minute); problem != "" {
		t.Error(problem)
	}
	deaf := shell(t, x, "trap '' TERM QUIT; echo deaf; exec sleep 1000")
	eventually(t, "it is deaf", func() bool { return lastLine(deaf.log) == "deaf" })
	problem := deaf.retire(10 * time.Millisecond)
	if !strings.Contains(problem, "n1 does not end on SIGTERM within 10ms") {
		t.Errorf("%q", problem)
	}
	if x.text() != "" {
		t.Error(x.text())
	}
}
