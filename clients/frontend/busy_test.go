package frontend_test

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/clients/frontend"
	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// openBusy opens a feed that reports whether its front-end is busy.
func openBusy(t *testing.T) (live.Feed, string, <-chan bool) {
	t.Helper()
	path, says := filepath.Join(t.TempDir(), "feed"), make(chan bool, 100)
	f, err := frames.OpenUnix(t.Context(), live.FeedSettings{
		Address:  path,
		SourceID: 7,
		Name:     "unix:" + path,
		Run:      42,
		OnBusy:   func(busy bool) { says <- busy },
	})
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	return f, path, says
}

func expectSays(t *testing.T, says <-chan bool, want bool) {
	t.Helper()
	if got := patiently.Receive(t, says, "the front-end says nothing"); got != want {
		t.Fatalf("the front-end says busy %v, and not %v", got, want)
	}
}

// TestBusy: a front-end that follows the run hears whether its readout unit is busy, and the readout unit whether the
// front-end is: between frames, again after a break, and free when it is gone.
func TestBusy(t *testing.T) {
	f, path, says := openBusy(t)
	ctx := longContext(t)
	f.(live.BusyListener).SetBusy(live.BusyState{Causes: 1 << live.BusyIntake})
	via := cutter(t, path)
	s, err := frontend.Dial(ctx, via, frontend.StreamSettings{Follow: true})
	must.OK(t, err)
	patiently.Until(t, "it hears the present state", func() bool { return s.Busy() == frontend.BusyIntake })
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	if err := s.WaitFree(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a busy unit: %v", err)
	}
	cancel()
	free := make(chan error, 1)
	go func() { free <- s.WaitFree(ctx) }()
	f.(live.BusyListener).SetBusy(live.BusyState{})
	must.OK(t, patiently.Receive(t, free, "it waits on"))
	const n = 1000
	built := make(chan error, 1)
	go func() { built <- build(ctx, f, n) }()
	busy := false
	for e := range uint64(n) {
		must.OK(t, s.Send(ctx, e, fragment(e)))
		if e%100 == 50 {
			busy = !busy
			s.SetBusy(busy)
			expectState(t, says, busy)
		}
	}
	s.SetBusy(true)
	expectState(t, says, true)
	must.OK(t, s.Close(ctx))
	expectState(t, says, false)
	must.OK(t, patiently.Receive(t, built, "nothing is built"))
}

// expectState waits until a front-end says something; breaks may say it again.
func expectState(t *testing.T, says <-chan bool, want bool) {
	t.Helper()
	for patiently.Receive(t, says, "the front-end says nothing") != want {
		continue
	}
}

// TestOthersAreBusy: the clients in C, C++ and Python hear and say what the one in Go does.
func TestOthersAreBusy(t *testing.T) {
	for name, program := range map[string]func(*testing.T) []string{
		"C":      func(t *testing.T) []string { return []string{compiled.C(t, "../c", "testdata/busy.c")} },
		"C++":    func(t *testing.T) []string { return []string{compiled.CXX(t, "../c", "testdata/busy.c")} },
		"Python": func(t *testing.T) []string { return append(interpreted.Python(t, "../python"), "testdata/busy.py") },
	} {
		t.Run(name, func(t *testing.T) {
			command := program(t)
			f, path, says := openBusy(t)
			follower := f.(live.Follower)
			follower.Want(live.Begin)
			var said strings.Builder
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "unix:"+path)...)
			cmd.Stderr = &said
			out, err := cmd.StdoutPipe()
			must.OK(t, err)
			must.OK(t, cmd.Start())
			lines := make(chan string)
			go func() {
				defer close(lines)
				for s := bufio.NewScanner(out); s.Scan(); {
					lines <- s.Text()
				}
			}()
			for range 20 {
				f.(live.BusyListener).SetBusy(live.BusyState{Causes: 1<<live.BusyFrontend | 1<<live.BusyBuilders})
				if got := patiently.Receive(t, lines, "it hears nothing"); got != "busy 5 front-end" {
					t.Fatalf("it hears %q", got)
				}
				expectSays(t, says, true)
				f.(live.BusyListener).SetBusy(live.BusyState{})
				if got := patiently.Receive(t, lines, "it hears nothing"); got != "busy 0" {
					t.Fatalf("it hears %q", got)
				}
				expectSays(t, says, false)
			}
			follower.Want(live.End)
			for range patiently.All(t, lines) {
			}
			if err := patiently.Exit(t, cmd); err != nil {
				t.Errorf("it ends with %v: %s", err, said.String())
			}
		})
	}
}
