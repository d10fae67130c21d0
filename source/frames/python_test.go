package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/source/live"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/testkit/ports"
)

// python is a command that runs a script of testdata with the clients of this repository.
func python(t testing.TB, script string, args ...string) *exec.Cmd {
	t.Helper()
	command := append(interpreted.Python(t, "../../clients/python"), filepath.Join("testdata", script))
	return exec.CommandContext(t.Context(), command[0], append(command[1:], args...)...)
}

// errOver ends drain before the end of the run.
var errOver = errors.New("over")

// drain takes all fragments of a run, and calls check for each. What is safe is told after each time.
func drain(ctx context.Context, f live.Feed, check func(live.Fragment) error) error {
	dst := make([]live.Fragment, 1024)
	for {
		n, err := f.Next(ctx, dst)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, g := range dst[:n] {
			if err := check(g); errors.Is(err, errOver) {
				return nil
			} else if err != nil {
				return err
			}
		}
		f.SetResumeEvent(dst[n-1].Event + 1)
		f.ReleaseFragments(n)
		f.SetSafeBelow(dst[n-1].Event + 1)
	}
}

// TestPython: a front-end in Python that is killed and started again is in the run once, whole and in order.
func TestPython(t *testing.T) {
	f := openTCP(t)
	const n = 60_000
	var due, kill uint64 = 0, 5000
	var cmd *exec.Cmd
	var out bytes.Buffer
	start := func() {
		cmd = python(t, "frontend.py", "tcp:"+f.Addr(), fmt.Sprint(n), "0")
		out.Reset()
		cmd.Stdout, cmd.Stderr = &out, &out
		must.OK(t, cmd.Start())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patiently.LongTimeout)
	defer cancel()
	start()
	err := drain(ctx, f, func(g live.Fragment) error {
		if g.Event != due || !bytes.Equal(g.Data, data(due)) {
			return fmt.Errorf("event %d has %d bytes, where event %d is due", g.Event, len(g.Data), due)
		}
		if due++; due == kill && kill < 30_000 {
			must.OK(t, cmd.Process.Kill())
			_ = patiently.Exit(t, cmd) // killed
			kill += 10_000
			start()
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v; %s", err, &out)
	}
	f.SetSafeBelow(n)
	if err := patiently.Exit(t, cmd); err != nil || due != n {
		t.Errorf("%v: %s; %d events", err, &out, due)
	}
	// The last one to be killed may not have been in time for anything.
	if s := f.Stats(); s.FrontendsGone < 1 || s.Fragments != n || s.Repeated != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPythonProgram: the same client in a program that the readout unit runs.
func TestPythonProgram(t *testing.T) {
	cmd := python(t, "frontend.py", "exec:", "3000", "0")
	f, log := openExec(t, fmt.Sprintf("exec '%s'", strings.Join(cmd.Args, "' '")))
	collect(t, f, 0, 3000)
	ended(t, f)
	f.SetSafeBelow(3000)
	must.OK(t, f.Close())
	if !strings.Contains(log.String(), "begins at 0") || !strings.Contains(log.String(), "fragments/s") {
		t.Error(log)
	}
}

// BenchmarkPython is the client in Python beside a bare socket in Python.
func BenchmarkPython(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("client/%d", size), func(b *testing.B) {
			f := openTCP(b)
			cmd := python(b, "frontend.py", "tcp:"+f.Addr(), "200000", fmt.Sprint(size))
			over := make(chan error, 1)
			go func() {
				over <- drain(b.Context(), f, func(live.Fragment) error { return nil })
			}()
			out, err := cmd.CombinedOutput()
			must.OK(b, err)
			must.OK(b, <-over)
			b.Logf("%s", out)
		})
		b.Run(fmt.Sprintf("bare/%d", size), func(b *testing.B) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			must.OK(b, err)
			defer lis.Close()
			go func() {
				c, err := lis.Accept()
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
			host, port, _ := net.SplitHostPort(lis.Addr().String())
			out, err := python(b, "bare.py", host, port, "200000", fmt.Sprint(size)).CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			b.Logf("%s", out)
		})
	}
}

// TestPythonTakesTheNextAddress: of a list, where nobody listens at the first.
func TestPythonTakesTheNextAddress(t *testing.T) {
	f := openTCP(t)
	cmd := python(t, "frontend.py", fmt.Sprintf("tcp:127.0.0.1:%d,%s", ports.Reserve(t), f.Addr()), "3000", "0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	collect(t, f, 0, 3000)
	ended(t, f)
	f.SetSafeBelow(3000)
	if err := patiently.Exit(t, cmd); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
}
