package frames

import (
	"bytes"
	"context"
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
)

// runEndingFrontend runs a front-end in Python that ends in a way of its own, and returns what it says.
func runEndingFrontend(t *testing.T, f *feed, mode string) func() string {
	t.Helper()
	cmd := python(t, "ends.py", "tcp:"+f.Addr(), mode)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	return func() string {
		if err := patiently.Receive(t, over, "the front-end does not end"); err != nil {
			t.Errorf("%s: %v: %s", mode, err, &out)
		}
		return out.String()
	}
}

// within ends a test that waits in vain.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	t.Cleanup(cancel)
	return ctx
}

func acceptAny(live.Fragment) error { return nil }

// TestCloseSaysTheEnd: a front-end that closes when all is safe already, or that has sent nothing, has declared the end
// of its run before it is over.
func TestCloseSaysTheEnd(t *testing.T) {
	for _, mode := range []string{"pause", "empty"} {
		t.Run(mode, func(t *testing.T) {
			f := openTCP(t)
			said := runEndingFrontend(t, f, mode)
			must.OK(t, drain(within(t), f, acceptAny))
			if s := said(); s != "" || f.Stats().FrontendsGone != 0 {
				t.Errorf("%s, %+v", s, f.Stats())
			}
		})
	}
}

// TestNumbersAnew: a front-end that counts from 0 again within a run gets an error.
func TestNumbersAnew(t *testing.T) {
	f := openTCP(t)
	said := runEndingFrontend(t, f, "anew")
	must.OK(t, drain(within(t), f, acceptAny))
	if s := said(); !strings.Contains(s, "event 0 is not sent: Ringlet has taken the events below 100 of this run") {
		t.Error(s)
	}
}

// TestCloseHasABound: the run is over, and no other comes.
func TestCloseHasABound(t *testing.T) {
	f := openTCP(t)
	cmd := python(t, "ends.py", "tcp:"+f.Addr(), "gone")
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	await(t, f, "all came", func(s live.Stats) bool { return s.Fragments == 100 })
	f.SetSafeBelow(50)
	line := make([]byte, 5)
	_, err = io.ReadFull(out, line)
	must.OK(t, err)
	must.OK(t, f.Close())
	must.OK(t, in.Close())
	said, err := io.ReadAll(out)
	must.OK(t, err)
	must.OK(t, patiently.Exit(t, cmd))
	want := "the run ends at event 100, and events from 50 on are not known to be safe True"
	if !strings.Contains(string(said), want) {
		t.Errorf("%s", said)
	}
}

// TestCloseReportsWhatWasGivenUp: a front-end of which fragments were given up hears of them from close, and does not
// wait for the outcome of a number that nobody accepts.
func TestCloseReportsWhatWasGivenUp(t *testing.T) {
	f := openTCP(t)
	said := runEndingFrontend(t, f, "late")
	ctx := within(t)
	must.OK(t, drain(ctx, f, func(g live.Fragment) error {
		if g.Event == 99 {
			f.SetResumeEvent(100)
			f.ReportGivenUp(7, 9, live.FaultLate)
		}
		if g.Event < 100 {
			return nil
		}
		f.ReportGivenUp(g.Event, g.Event+1, live.FaultJump)
		return errOver
	}))
	f.SetSafeBelow(100)
	want := "3 fragments that were sent are not in the run; the first of them: 2 fragments of events 7 to 8"
	if s := said(); !strings.Contains(s, want) {
		t.Error(s)
	}
}

// TestExceptionFlushes: what was accepted before an exception is there; what nobody reads is told.
func TestExceptionFlushes(t *testing.T) {
	f := openTCP(t)
	said := runEndingFrontend(t, f, "raises")
	collectAny(t, f, 5000)
	if s := said(); s != "left\n" || f.Stats().FrontendsGone != 1 {
		t.Errorf("%s, %+v", s, f.Stats())
	}
	g := openTCP(t)
	s := runEndingFrontend(t, g, "drops")()
	if !strings.Contains(s, "the stream is left because of KeyError: events 0 to 4999 were accepted and may be lost") {
		t.Error(s)
	}
}

// collectAny takes n fragments.
func collectAny(t *testing.T, f *feed, n int) {
	t.Helper()
	ctx := within(t)
	for dst := make([]live.Fragment, 100); n > 0; {
		k, err := f.Next(ctx, dst)
		must.OK(t, err)
		f.SetResumeEvent(dst[k-1].Event + 1)
		f.ReleaseFragments(k)
		n -= k
	}
}

// oldRinglet answers hellos as Ringlet of before version 2 does.
func oldRinglet(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, helloSize))
			_, _ = c.Write(appendAnswer(nil, version1, answer{Code: codeBadVersion,
				Sentence: "it speaks version 2, and I version 1"}))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = lis.Close()
		patiently.Receive(t, over, "it accepts on")
	})
	return lis.Addr().String()
}

// TestPythonAndAnOldRinglet: a client of today says why it cannot go on with a Ringlet of version 1.
func TestPythonAndAnOldRinglet(t *testing.T) {
	out, err := python(t, "ends.py", "tcp:"+oldRinglet(t), "empty").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "it speaks version 2, and I version 1") {
		t.Errorf("%v: %s", err, out)
	}
}

// clients1 are front-ends with the clients of version 1 of the format, as they were when version 2 came.
func clients1(t *testing.T, addr string, n int) map[string]*exec.Cmd {
	t.Helper()
	dir := filepath.Join("testdata", "clients-1")
	py := append(interpreted.Python(t, filepath.Join(dir, "python")), filepath.Join("testdata", "frontend.py"))
	out := map[string]*exec.Cmd{
		"python": exec.CommandContext(t.Context(), py[0], append(py[1:], addr, fmt.Sprint(n), "0")...),
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Log("SKIPPED: the old client in Go, since there is no go: ", err)
		return out
	}
	program := filepath.Join(t.TempDir(), "old")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+filepath.Join(dir, "main")).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	out["go"] = exec.CommandContext(t.Context(), program, addr, fmt.Sprint(n))
	return out
}

// TestClientsOfVersion1: they go on working.
func TestClientsOfVersion1(t *testing.T) {
	const n = 20_000
	for _, name := range []string{"python", "go"} {
		f := openTCP(t)
		cmd := clients1(t, "tcp:"+f.Addr(), n)[name]
		if cmd == nil {
			continue
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		must.OK(t, cmd.Start())
		due := uint64(0)
		must.OK(t, drain(within(t), f, func(g live.Fragment) error {
			if g.Event != due || !bytes.Equal(g.Data, data(due)) {
				return fmt.Errorf("%s: event %d has %d bytes, where event %d is due", name, g.Event, len(g.Data), due)
			}
			due++
			return nil
		}))
		f.SetSafeBelow(n)
		if err := patiently.Exit(t, cmd); err != nil || due != n {
			t.Errorf("%s: %v: %s; %d events", name, err, &out, due)
		}
	}
}
