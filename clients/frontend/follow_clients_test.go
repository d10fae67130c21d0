package frontend_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/source/shmring"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestOthersFollow: the clients in C, C++ and Python hear what the one in Go does, and answer.
func TestOthersFollow(t *testing.T) {
	for name, program := range map[string]func(*testing.T) []string{
		"C":      func(t *testing.T) []string { return []string{compiled.C(t, "../c", "testdata/follow.c")} },
		"C++":    func(t *testing.T) []string { return []string{compiled.CXX(t, "../c", "testdata/follow.c")} },
		"Python": func(t *testing.T) []string { return append(interpreted.Python(t, "../python"), "testdata/follow.py") },
	} {
		t.Run(name, func(t *testing.T) {
			command := program(t)
			path := filepath.Join(t.TempDir(), "feed")
			f, err := frames.OpenUnix(t.Context(), live.FeedSettings{
				Address:    path,
				SourceID:   7,
				Name:       "unix:" + path,
				SourceName: "tof",
				Config:     "hv:" + strings.Repeat(" 1200 é", 1000),
				Run:        42,
			})
			must.OK(t, err)
			t.Cleanup(func() { must.OK(t, f.Close()) })
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "unix:"+path)...)
			playRun(t, f, cmd, "42 7 tof 8003 hv:")
		})
	}
}

// TestOthersFollowInARing: as TestOthersFollow, with a ring in shared memory.
func TestOthersFollowInARing(t *testing.T) {
	for name, program := range map[string]func(*testing.T) []string{
		"C":   func(t *testing.T) []string { return []string{compiled.C(t, "../c", "testdata/followring.c")} },
		"C++": func(t *testing.T) []string { return []string{compiled.CXX(t, "../c", "testdata/followring.c")} },
		"Python": func(t *testing.T) []string {
			return append(interpreted.Python(t, "../python"), "testdata/followring.py")
		},
	} {
		t.Run(name, func(t *testing.T) {
			command := program(t)
			path := filepath.Join(must.MemoryDir(t), "tof")
			f, err := shmring.Open(t.Context(), live.FeedSettings{
				Address:    path,
				SourceID:   7,
				Name:       "shm:tof",
				SourceName: "tof",
				Run:        42,
			})
			must.OK(t, err)
			t.Cleanup(func() { must.OK(t, f.Close()) })
			stop := make(chan struct{})
			var looks sync.WaitGroup
			looks.Go(func() { // as reports do
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						f.(live.Follower).Life()
					}
				}
			})
			t.Cleanup(func() { close(stop); looks.Wait() }) // bounded by stop
			playRun(t, f, exec.CommandContext(t.Context(), command[0], append(command[1:], path)...), "42 7 tof")
		})
	}
}

// playRun takes a program through a run, and expects what it hears, with the source described so, and what it sends.
func playRun(t *testing.T, f live.Feed, cmd *exec.Cmd, source string) {
	t.Helper()
	var said strings.Builder
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
	var failed []string
	follower := f.(live.Follower)
	for _, wanted := range []live.Command{live.Prepare, live.Begin, live.Pause, live.Resume, live.End} {
		follower.Want(wanted)
		want := fmt.Sprintf("%v %s", wanted, source)
		if got := patiently.Receive(t, lines, "no "+want); got != want {
			t.Fatalf("it hears %q, and not %q", got, want)
		}
		patiently.Until(t, "the source is where the run wants it", func() bool {
			s := follower.Life()
			if s.Failed != "" {
				failed = append(failed, s.Failed)
			}
			return s.Arrived || wanted == live.End
		})
	}
	taken, ctx := 0, longContext(t)
	var dst [64]live.Fragment
	for taken < 101 {
		n, err := f.Next(ctx, dst[:])
		must.OK(t, err)
		f.SetResumeEvent(dst[n-1].Event + 1)
		f.ReleaseFragments(n)
		taken += n
	}
	patiently.Until(t, "it has said that it is done", func() bool { return follower.Life().Arrived })
	f.SetSafeBelow(101)
	for range patiently.All(t, lines) {
	}
	if err := patiently.Exit(t, cmd); err != nil || taken != 101 {
		t.Errorf("it ends with %v and %d fragments: %s", err, taken, said.String())
	}
	for _, why := range failed {
		if why != "no gas" {
			t.Errorf("it has failed: %s", why)
		}
	}
}

// TestAnswersHaveABound: a client in C says that an answer is not taken, when eight of them wait behind fragments, and
// takes it later.
func TestAnswersHaveABound(t *testing.T) {
	f, path := openStream(t)
	cmd := exec.CommandContext(t.Context(), compiled.C(t, "../c", "testdata/answers.c"), "unix:"+path)
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
	for i := range 9 {
		want := "0"
		if i == 8 {
			want = "-6"
		}
		if got := patiently.Receive(t, lines, "no answer"); got != want {
			t.Fatalf("answer %d returns %s, and not %s", i, got, want)
		}
	}
	ctx := longContext(t)
	var dst [64]live.Fragment
	for taken := 0; taken < 800; {
		n, err := f.Next(ctx, dst[:])
		must.OK(t, err)
		taken += n
		f.SetResumeEvent(dst[n-1].Event + 1)
		f.ReleaseFragments(n)
	}
	if got := patiently.Receive(t, lines, "no later answer"); got != "0" {
		t.Errorf("the later answer returns %s", got)
	}
	patiently.Until(t, "its last answer has come", func() bool { return f.(live.Follower).Life().Arrived })
	f.SetSafeBelow(800)
	for range patiently.All(t, lines) {
	}
	must.OK(t, patiently.Exit(t, cmd))
}
