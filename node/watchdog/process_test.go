package watchdog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"ringlet/testkit/patiently"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test's program is the parent and the child as well, by the word in this variable.
const role = "RINGLET_WATCHDOG_TEST"

// short makes ticks that a test can wait for; the core's test has the numbers of the manual's kind.
var short = Config{TickInterval: 20 * time.Millisecond, StallTicks: 10, GraceTicks: 10}

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "parent": // it starts a child that outlives it, and waits to be killed
		cmd := command("orphan", os.Stderr)
		cmd.Env = append(cmd.Env, ChildEnv())
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		_ = cmd.Wait() // bounded by the test, which kills this process
	case "orphan":
		Start(short)
		fmt.Fprintln(os.Stderr, "watched", os.Getpid())
		turn()
	case "slow": // each look is under way in half of the time, and so when the process is stopped
		d := Start(short)
		for range 2 {
			d.AddLoop("a slow loop", func() { time.Sleep(2 * short.TickInterval) })
		}
		fmt.Fprintln(os.Stderr, "watched", os.Getpid())
		select {} // bounded by the test, which kills this process
	case "hung":
		hang()
	case "told": // it holds no lock, so that no look finds it
		runtime.GOMAXPROCS(2)
		Start(short).RequestEnd()
		turn()
	default:
		os.Exit(m.Run())
	}
}

// hang has a loop that holds its lock and goes round, with one processor.
func hang() {
	runtime.GOMAXPROCS(1)
	d := Start(short)
	var mu sync.Mutex
	mu.Lock()
	d.AddLoop("a sound loop", func() {})
	//nolint:staticcheck // that it can is what is asked
	d.AddLoop("the loop of the test", func() { mu.Lock(); mu.Unlock() })
	turn()
}

// turn goes round and calls nothing.
func turn() {
	for n := 0; ; n++ {
	}
}

func command(as string, says *os.File) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), role+"="+as), says
	return cmd
}

// started starts a process and gives what it says; the end of that is the end of all processes that have it.
func started(t *testing.T, as string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(as, w)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	t.Cleanup(func() {
		if !late.Stop() {
			t.Error("it did not end by itself within a minute")
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = r.Close()
	})
	return cmd, bufio.NewReader(r)
}

func TestAProcessWithAStalledLoopEndsItself(t *testing.T) {
	cmd, says := started(t, "hung")
	said, err := io.ReadAll(says)
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := patiently.Exit(t, cmd); !errors.As(err, &exit) || exit.ExitCode() != ExitCode {
		t.Errorf("it ended with %v, not with exit code %d", err, ExitCode)
	}
	for _, want := range []string{"the loop of the test stands still", "watchdog.turn"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

// TestAProcessEndsOnRequest: whatever it is at, and it says what that was.
func TestAProcessEndsOnRequest(t *testing.T) {
	cmd, says := started(t, "told")
	said, err := io.ReadAll(says)
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := patiently.Exit(t, cmd); !errors.As(err, &exit) || exit.ExitCode() != ExitCode {
		t.Errorf("it ended with %v, not with exit code %d", err, ExitCode)
	}
	for _, want := range []string{"was told twice to end", "watchdog.TestMain"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

func TestAPauseOfTheProcessIsNoTick(t *testing.T) {
	cmd, says := started(t, "slow")
	if line, err := says.ReadString('\n'); err != nil || !strings.HasPrefix(line, "watched ") {
		t.Fatal(line, err)
	}
	for range 3 {
		for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * short.TickInterval * time.Duration(short.StallTicks)) // stopped, then not
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := patiently.Exit(t, cmd); errors.As(err, &exit) && exit.ExitCode() == ExitCode {
		said, _ := io.ReadAll(says)
		t.Errorf("a process that was stopped and went on ended itself: %s", said)
	}
}

func TestNoProcessOutlivesItsParent(t *testing.T) {
	cmd, says := started(t, "parent")
	if line, err := says.ReadString('\n'); err != nil || !strings.HasPrefix(line, "watched ") {
		t.Fatal(line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(says) // until nobody has the pipe any more: the child has ended
	if err != nil || !strings.Contains(string(said), "the process that started this one is gone") {
		t.Errorf("it said %q, %v", said, err)
	}
	_ = patiently.Exit(t, cmd)
}
