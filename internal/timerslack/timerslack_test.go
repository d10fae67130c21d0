package timerslack

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

// TestMain is a node where it is asked to be one: it starts itself again, and prints the slacks of its threads.
func TestMain(m *testing.M) {
	if os.Getenv("SLACK_TEST_NODE") == "" {
		os.Exit(m.Run())
	}
	Reexec()
	name, _ := os.ReadFile("/proc/self/comm")
	_, _ = os.Stdout.Write(name)
	threads, _ := filepath.Glob("/proc/self/task/*")
	for _, t := range threads {
		timerSlack, err := os.ReadFile(filepath.Join("/proc", filepath.Base(t), "timerslack_ns"))
		if err != nil {
			timerSlack = []byte(err.Error() + "\n")
		}
		_, _ = os.Stdout.Write(timerSlack)
	}
}

// start runs this program as a node, from a thread with a slack, and gives its name and the slacks of its threads.
func start(t *testing.T, of time.Duration) []string {
	t.Helper()
	said := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		Set(of)
		cmd := exec.Command(os.Args[0], "a", "b c")
		cmd.Env = append(os.Environ(), "SLACK_TEST_NODE=yes")
		out, err := cmd.Output()
		if err != nil {
			out = []byte(err.Error())
		}
		said <- string(out)
	}()
	return strings.Fields(patiently.Receive(t, said))
}

// TestMonitorHasTheSlackOfNodes has a node started by whoever knows of slack, and by whoever does not: all its threads
// have it, so the monitor has, too.
func TestMonitorHasTheSlackOfNodes(t *testing.T) {
	for _, of := range []time.Duration{KernelDefault, NodeTimerSlack, 2 * NodeTimerSlack} {
		slacks := start(t, of)
		if len(slacks) < 3 || slacks[0] != filepath.Base(os.Args[0]) {
			t.Fatalf("%v: %q", of, slacks)
		}
		for _, s := range slacks[1:] {
			ns, err := time.ParseDuration(s + "ns")
			switch {
			case strings.Contains(s, "permission") || strings.Contains(s, "operation"):
				t.Skip("the kernel does not show the slack of other threads to whoever has no right to: ", s)
			case err != nil || ns != max(of, NodeTimerSlack):
				t.Errorf("%v: %q", of, slacks)
			}
		}
	}
}
