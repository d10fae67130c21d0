package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ringlet/lab/bench"
	"ringlet/shmem"
	"ringlet/testkit/patiently"
)

// benchSegments of a process that are still there.
func benchSegments(t *testing.T, pid int) []string {
	t.Helper()
	found, err := filepath.Glob(fmt.Sprintf("%s/%s%d-*", shmem.DefaultDir, bench.SegmentPrefix, pid))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// startBench starts one that would take long, and waits until both of its processes have memory.
func startBench(t *testing.T) (*program, []process) {
	t.Helper()
	s := newSession(t)
	p := s.start("bench", "carriers", "--carriers", "quic", "--sizes", "1KiB", "--rounds", "1000", "--memory", "4MiB")
	var both []process
	eventually(t, "both processes have memory", func() bool {
		if both = processes(s.dir); len(both) != 2 {
			return false
		}
		return len(benchSegments(t, both[0].pid)) > 0 && len(benchSegments(t, both[1].pid)) > 0
	})
	return p, both
}

// TestBenchInterrupted: what was measured is printed, and nothing is left.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	p, both := startBench(t)
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	patiently.Receive(t, p.ended)
	if code := p.cmd.ProcessState.ExitCode(); code != exitError || !strings.Contains(p.out.String(), "INTERRUPTED") {
		t.Errorf("ended with code %d", code)
	}
	for _, one := range both {
		if remaining := benchSegments(t, one.pid); len(remaining) > 0 {
			t.Errorf("left behind: %v", remaining)
		}
	}
}

// TestBenchKilled: either process may be killed, and the other leaves neither a process nor memory.
func TestBenchKilled(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	for _, victim := range []string{"near", "far"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			p, both := startBench(t)
			for _, one := range both {
				if (one.pid == p.cmd.Process.Pid) == (victim == "near") {
					if err := syscall.Kill(one.pid, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			patiently.Receive(t, p.ended)
			eventually(t, "no process is left", func() bool { return len(processes(p.dir)) == 0 })
			if _, err := shmem.Sweep(bench.SegmentPrefix); err != nil {
				t.Fatal(err)
			}
			for _, one := range both {
				if remaining := benchSegments(t, one.pid); len(remaining) > 0 {
					t.Errorf("left behind: %v", remaining)
				}
			}
			if victim == "far" && !strings.Contains(p.err.String(), "the far process is lost") {
				t.Errorf("nothing is said of the far process")
			}
		})
	}
}

// TestBenchBetweenTwo: a session over the port of bench serve; a stranger before it changes nothing.
func TestBenchBetweenTwo(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for dir, names := range map[string][]string{"keys": {"n0", "n1"}, "others": {"n0", "n1"}} {
		p := s.start(append([]string{"certs", dir, "--host", "127.0.0.1"}, names...)...)
		if patiently.Receive(t, p.ended); p.cmd.ProcessState.ExitCode() != 0 {
			t.Fatal("no certificates")
		}
	}
	serve := s.start("bench", "serve", "--certs", "keys", "--host", "127.0.0.1", "--port", "0")
	at := regexp.MustCompile(`listening at (\S+)`)
	eventually(t, "it listens", func() bool { return at.MatchString(serve.err.String()) })
	peer := at.FindStringSubmatch(serve.err.String())[1]
	for _, out := range []string{"comp ared", "again"} { // one session after the other
		stranger := s.start("bench", "carriers", "--peer", peer, "--certs", "others", "--rounds", "1")
		if patiently.Receive(t, stranger.ended); stranger.cmd.ProcessState.ExitCode() != exitError ||
			!strings.Contains(stranger.err.String(), "certificate is of another authority") {
			t.Errorf("a stranger ended with code %d", stranger.cmd.ProcessState.ExitCode())
		}
		p := s.start("bench", "carriers", "--peer", peer, "--certs", "keys", "--carriers", "quic,local", "--sizes", "1KiB",
			"--rounds", "1",
			"--duration", "30ms", "--memory", "4MiB", "--out", out)
		if patiently.Receive(t, p.ended); p.cmd.ProcessState.ExitCode() != exitGood {
			t.Fatalf("ended with code %d", p.cmd.ProcessState.ExitCode())
		}
		for _, want := range []string{
			"between this machine and " + peer, "the carrier local: left out", "the copy into a mapped file: left out", "tcp",
		} {
			if !strings.Contains(p.out.String(), want) {
				t.Errorf("it does not say %q", want)
			}
		}
	}
	for file, want := range map[string]string{"report.html": "<td>quic 1KiB</td>", "report.json": "--out 'comp ared'"} {
		if text, err := os.ReadFile(filepath.Join(s.dir, "comp ared", file)); err != nil ||
			!strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v", file, want, err)
		}
	}
	_ = serve.cmd.Process.Signal(syscall.SIGTERM)
	if patiently.Receive(t, serve.ended); serve.cmd.ProcessState.ExitCode() != exitGood {
		t.Errorf("serve ended with code %d", serve.cmd.ProcessState.ExitCode())
	}
	for _, pid := range []int{serve.cmd.Process.Pid} {
		if remaining := benchSegments(t, pid); len(remaining) > 0 {
			t.Errorf("left behind: %v", remaining)
		}
	}
}
