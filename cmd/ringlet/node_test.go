package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"syscall"
	"testing"
	"time"

	"ringlet/node/certs"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
)

func TestSecondSignal(t *testing.T) {
	guard := make(chan os.Signal, 16) // or the test would end by the signal where it comes too early
	signal.Notify(guard, syscall.SIGTERM)
	defer signal.Stop(guard)
	ctx, cancel := context.WithCancel(t.Context())
	run, stop := untilSecondSignal(ctx, nil)
	defer stop()
	cancel()
	if run.Err() != nil {
		t.Fatal("told once it ends already")
	}
	for deadline := time.Now().Add(patiently.LongTimeout); run.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("told twice it goes on")
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNodeIsMonitored asks a node process that still looks for its cluster, and ends it.
func TestNodeIsMonitored(t *testing.T) {
	dir := t.TempDir()
	if err := issuer.New(t)("n0", certs.RoleNode).Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := certs.SaveGossipKey(dir, certs.NewGossipKey()); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("ringlet")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "node", "--name", "n0", "--join", "127.0.0.1:1", "--certs", dir,
		"--monitor", "127.0.0.1:0")
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), "GORACE="+raceAtOnce), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var at string
	lines := bufio.NewScanner(out)
	for at == "" && patiently.Result(t, lines.Scan, "the node said nothing more") {
		if m := regexp.MustCompile(`may be monitored.* http=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			at = m[1]
		}
	}
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/metrics": http.StatusOK,
	} {
		r, err := http.Get("http://" + at + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s answers %d, want %d", path, r.StatusCode, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for patiently.Result(t, lines.Scan, "the node does not end") {
	}
	if err := patiently.Exit(t, cmd); err != nil {
		t.Errorf("told to end outside of a run it ends with %v", err)
	}
}
