package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/testkit/patiently"
)

// endless makes a file that takes minutes to look through for an event: a hole, of which the disk has nothing.
func endless(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 40); err != nil {
		t.Skipf("SKIPPED: no file with a large hole can be made here: %v", err)
	}
}

// TestTheFirstSignalEndsTheReadingOfAnInput interrupts a run that reads its input still.
func TestTheFirstSignalEndsTheReadingOfAnInput(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	endless(t, filepath.Join(s.dir, "hole.mdf"))
	p := s.start("run", "--input", "hole.mdf", "--on-bad-record", "skip", "--run-number", s.run)
	eventually(t, "the input is mapped", func() bool {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid))
		return err == nil && strings.Contains(string(maps), "hole.mdf")
	})
	s.signal(p.cmd.Process.Pid, syscall.SIGTERM)
	p.ends(1)
	if !strings.Contains(p.err.String(), "hole.mdf was not read to its end") {
		t.Errorf("%s", p.err.String())
	}
}

// TestAControlReadsInputsWhereItMay names inputs to a control: a named pipe, what is not below its directory and what
// no node allows are refused at once, and a load that would read for minutes does not hold up the control's end.
func TestAControlReadsInputsWhereItMay(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.certs("keys", "n0")
	dir := filepath.Join(s.dir, "inputs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	endless(t, filepath.Join(dir, "hole.mdf"))
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := s.port()
	c := s.serve(port, "--input-dir", dir, "--nodes", "1")
	n := s.startNode("n0", "keys", port)
	eventually(t, "the node is there", func() bool { return strings.Contains(n.err.String(), "waiting for the control") })
	for name, want := range map[string]string{
		"pipe": "is a named pipe, not a regular file", "/etc/passwd": "is not below a directory of inputs",
		"../keys/ca.crt":  "is not below a directory of inputs",
		"exec:id >stolen": "on n0: input \"exec:id >stolen\" is not allowed on host", "unix:door": "with --allow unix",
		"shm:cam": "with --allow shm",
	} {
		var answer struct{ Problems []string }
		c.call("POST", "/v1/config/check", map[string]any{"settings": []string{"input=" + name}}, &answer)
		if !strings.Contains(strings.Join(answer.Problems, " "), want) {
			t.Errorf("check of input=%s: %q, not that it %s", name, answer.Problems, want)
		}
		var refused struct{ Message string }
		code := c.call("POST", "/v1/command", map[string]any{"command": "load",
			"arguments": map[string]string{"settings": "input=" + name}}, &refused)
		if code == http.StatusOK || !strings.Contains(refused.Message, want) {
			t.Errorf("load of input=%s: %d %q, not that it %s", name, code, refused.Message, want)
		}
	}
	answered := make(chan int)
	go func() {
		answered <- c.call("POST", "/v1/command", map[string]any{"command": "load", "arguments": map[string]string{
			"settings": "input=hole.mdf\non-bad-record=skip",
		}}, nil)
	}()
	eventually(t, "the input is read", func() bool {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.cmd.Process.Pid))
		return err == nil && strings.Contains(string(maps), "hole.mdf")
	})
	for _, p := range []*program{c.program, n} {
		s.signal(p.cmd.Process.Pid, syscall.SIGTERM)
		p.ends(0)
	}
	if code := patiently.Receive(t, answered); code == http.StatusOK {
		t.Error("a load that was cut off has been obeyed")
	}
}
