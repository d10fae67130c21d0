package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/internal/netns"
	"ringlet/lab/testbed"
	"ringlet/shmem"
	"ringlet/testkit/patiently"
)

func needTestbed(t *testing.T) {
	t.Helper()
	if err := errors.Join(testbed.CheckPossible(), netns.CheckSupported()); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
}

// networks are the network namespaces in which the processes of the session live, or which they hold open. The test
// holds them, too: the kernel gives the number of one that has ended to the next, which may be another test's.
func (s *session) networks() map[string]bool {
	out := map[string]bool{}
	current, _ := os.Readlink("/proc/self/ns/net")
	for _, p := range processes(s.dir) {
		for _, path := range networksOf(fmt.Sprint("/proc/", p.pid)) {
			f, err := os.Open(path)
			if err != nil {
				continue // the process has ended
			}
			s.t.Cleanup(func() { _ = f.Close() })
			if link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", f.Fd())); err == nil && link != current {
				out[link] = true
			}
		}
	}
	return out
}

// networksOf are the paths under which a process has network namespaces.
func networksOf(proc string) (out []string) {
	files, _ := filepath.Glob(proc + "/fd/*")
	for _, f := range append(files, proc+"/ns/net") {
		if link, err := os.Readlink(f); err == nil && strings.HasPrefix(link, "net:[") {
			out = append(out, f)
		}
	}
	return out
}

// usedBy names a process but this one that lives in one of the namespaces or holds it, or is "".
func usedBy(networks map[string]bool) string {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		if proc == fmt.Sprint("/proc/", os.Getpid()) {
			continue
		}
		for _, path := range networksOf(proc) {
			if link, _ := os.Readlink(path); networks[link] {
				line, _ := os.ReadFile(proc + "/cmdline")
				return fmt.Sprintf("%s is still used by %s %q", link, proc, line)
			}
		}
	}
	return ""
}

// gone checks that no process but this one lives in the namespaces or holds them: the kernel then takes them down with
// all that is in them. A process that was killed has no command line any more, and still has its files for a moment.
func (s *session) gone(networks map[string]bool) {
	s.t.Helper()
	eventually(s.t, "nobody uses the networks", func() bool { return usedBy(networks) == "" })
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.t.Fatal(err)
	}
	for link := range networks {
		if strings.Contains(string(mounts), link) {
			s.t.Errorf("%s is mounted", link)
		}
	}
}

// TestTestbedLeavesNothing: a run in a test bed is killed at any moment, and all that belongs to it ends with it.
func TestTestbedLeavesNothing(t *testing.T) {
	needTestbed(t)
	t.Parallel()
	for _, after := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, 0} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.start("testbed", "run", "--hosts", "2", "--at", "1ms:slow:n1:10Mbit", "--", "--nodes", "3", "--duration",
				"10m", "--run-number", s.run)
			if after > 0 {
				time.Sleep(after)
			} else {
				eventually(t, "the run begins", func() bool { return strings.Contains(p.err.String(), "slow n1") })
			}
			networks := s.networks()
			if after == 0 && len(networks) < 4 {
				t.Errorf("only %d networks", len(networks))
			}
			s.signal(p.cmd.Process.Pid, syscall.SIGKILL)
			patiently.Receive(t, p.ended)
			eventually(t, "its processes end", func() bool { return len(processes(s.dir)) == 0 })
			s.gone(networks)
			// Shared memory of nodes that had no time to remove theirs is swept by the next run, once they have closed it.
			eventually(t, "nothing is left", func() bool {
				_, _ = shmem.Sweep("ringlet-" + s.run + "-")
				return leftovers(s.run, s.dir) == ""
			})
			s.nothingLeft()
		})
	}
}

// TestTestbedEndsInGoodOrder: an interrupted run is drained and reported; a node that dies is named by the control, as
// in a cluster.
func TestTestbedEndsInGoodOrder(t *testing.T) {
	needTestbed(t)
	t.Parallel()
	begin := func(t *testing.T) *program {
		p := newSession(t).start("testbed", "run", "--hosts", "2", "--at", "1ms:slow:n1:10Mbit", "--", "--nodes", "2",
			"--duration", "10m", "--packing", "20",
			"--json", "--run-number", strconv.Itoa(int(newRunNumber())))
		eventually(t, "the run begins", func() bool { return strings.Contains(p.err.String(), "slow n1") })
		return p
	}
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		p := begin(t)
		p.signal(p.cmd.Process.Pid, syscall.SIGTERM)
		p.ends(exitGood)
		p.holds("end_cause=interrupted", "accounting_ok=true", "testbed.hosts=2")
	})
	t.Run("a node is killed", func(t *testing.T) {
		t.Parallel()
		p := begin(t)
		p.signal(p.node("n1"), syscall.SIGKILL)
		p.ends(exitError)
		p.holds("end_cause=fault", "accounting_ok=false", "testbed.hosts=2")
		p.checkStderr("n1 was killed by signal 9")
	})
}

// TestTestbedUp: one process holds the bed, others run in it, disturb it, and take it down.
func TestTestbedUp(t *testing.T) {
	needTestbed(t)
	t.Parallel()
	s := newSession(t)
	name := "test-" + s.run
	up := s.start("testbed", "up", "--hosts", "2", "--rate", "20Mbit", "--name", name)
	eventually(t, "the bed is up",
		func() bool { return strings.Contains(up.out.String(), "2 hosts n0 to n1, 10.77.0.1 to 10.77.0.2") })
	networks := s.networks()
	if len(networks) != 4 {
		t.Errorf("%d networks, not two hosts, a control and a switch", len(networks))
	}
	s.start("testbed", "up", "--name", name).ends(exitError)
	s.start("testbed", "port", "--name", name, "n1", "slow", "5Mbit").ends(exitGood)
	show := s.start("testbed", "exec", "--name", name, "n1", "--", "tc", "qdisc", "show", "dev", "eth0")
	show.ends(exitGood)
	if !strings.Contains(show.out.String(), "rate 5Mbit") {
		t.Error(show.out.String())
	}
	s.start("testbed", "port", "--name", name, "n1", "restore").ends(exitGood)
	s.start("testbed", "port", "--name", name, "n2", "cut").ends(exitUsage)
	s.start("testbed", "exec", "--name", name, "n2", "--", "true").ends(exitUsage)
	s.start("testbed", "exec", "--name", name, "control", "--", "sh", "-c", "exit 7").ends(7)
	s.start("testbed", "run", "--name", name, "--hosts", "3").ends(exitUsage)
	run := s.start("testbed", "run", "--name", name, "--", "--nodes", "2", "--events", "100", "--packing", "10", "--json",
		"--run-number", s.run)
	run.ends(exitGood)
	run.holds("accounting_ok=true", "testbed.rate_bps=20000000", "testbed.packets>10")
	s.start("testbed", "down", "--name", name).ends(exitGood)
	up.ends(exitGood)
	s.gone(networks)
	s.nothingLeft()

	killed := s.start("testbed", "up", "--hosts", "2", "--name", name)
	eventually(t, "it is up again", func() bool { return strings.Contains(killed.out.String(), "2 hosts") })
	networks = s.networks()
	s.signal(killed.cmd.Process.Pid, syscall.SIGKILL)
	patiently.Receive(t, killed.ended)
	s.gone(networks)
	s.nothingLeft()
}
