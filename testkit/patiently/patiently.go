package patiently

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// factorVariable is the environment variable with the factor of all time-outs; 1 if it is not set.
const factorVariable = "RINGLET_TEST_PATIENCE"

// timeFactor is the value of factorVariable.
var timeFactor = readFactor(os.Getenv(factorVariable))

// LongTimeout is how long a test waits for an event before it fails: far longer than the event takes even on a busy
// machine, since it only ends tests that hang.
var LongTimeout = Scaled(3 * time.Minute)

// TB is what testing.TB and *rapid.T have in common.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// readFactor panics at a wrong value, since tests with another factor than the user wants would fail for no visible
// reason.
func readFactor(text string) float64 {
	if text == "" {
		return 1
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0.01 && f <= 1000) {
		panic(fmt.Sprintf("%s=%q: give how many times as long tests wait, from 0.01 to 1000, such as 3", factorVariable,
			text))
	}
	return f
}

// Scaled is d times the factor of factorVariable.
func Scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * timeFactor) }

// Context ends when the test does, or after LongTimeout.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), LongTimeout)
	t.Cleanup(cancel)
	return ctx
}

// Receive takes the next value from a channel, or zero if it is closed. After LongTimeout it fails the test with
// missing, which says what did not happen.
func Receive[T any](t TB, from <-chan T, missing ...string) T {
	t.Helper()
	v, _ := next(t, from, missing...)
	return v
}

// next is Receive; ok is false if the channel is closed.
func next[T any](t TB, from <-chan T, missing ...string) (v T, ok bool) {
	t.Helper()
	select {
	case v, ok = <-from:
		return v, ok
	default:
	}
	over := time.NewTimer(LongTimeout)
	defer over.Stop()
	select {
	case v, ok = <-from:
	case <-over.C:
		failMissing(t, missing, "nothing came from the channel")
	}
	return v, ok
}

// All ranges over the values of a channel until it is closed.
func All[T any](t TB, from <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		t.Helper()
		for {
			v, ok := next(t, from, "the channel gave nothing more and was not closed")
			if !ok || !yield(v) {
				return
			}
		}
	}
}

// Hold blocks a fake until the test sends on the channel or closes it, or for LongTimeout. It does not fail the test,
// which notices the missing event itself, so that any goroutine may call Hold.
func Hold[T any](until <-chan T) (v T) {
	over := time.NewTimer(LongTimeout)
	defer over.Stop()
	select {
	case v = <-until:
	case <-over.C:
	}
	return v
}

// Wait waits until a blocking function returns, such as sync.WaitGroup.Wait.
func Wait(t TB, wait func(), missing ...string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	if len(missing) == 0 {
		missing = []string{"what was waited for did not end"}
	}
	Receive(t, done, missing...)
}

// Result is Wait for a function with a result, such as errgroup.Group.Wait.
func Result[T any](t TB, wait func() T, missing ...string) (v T) {
	t.Helper()
	Wait(t, func() { v = wait() }, missing...)
	return v
}

// Exit is cmd.Wait for a started process. After LongTimeout it kills the process and fails the test.
func Exit(t TB, cmd *exec.Cmd) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := time.NewTimer(LongTimeout)
	defer over.Stop()
	select {
	case err := <-ended:
		return err
	case <-over.C:
		_ = cmd.Process.Kill()
		failMissing(t, nil, "the process of "+strings.Join(cmd.Args, " ")+" did not end, and was killed")
		return nil
	}
}

// Until calls is repeatedly until it returns true; what describes the condition.
func Until(t TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(LongTimeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			failMissing(t, []string{"it did not come about: " + what}, "")
		}
	}
}

// Watch bounds a whole test whose waits cannot be bounded one by one, since it counts allocations or measures times:
// after LongTimeout it ends all tests of the package, and prints the stacks of all goroutines.
func Watch(t testing.TB) {
	over := time.AfterFunc(LongTimeout, func() {
		panic(fmt.Sprintf("%s was not over in %v (%s=3 waits three times as long)\n\n%s", t.Name(), LongTimeout,
			factorVariable, goroutines()))
	})
	t.Cleanup(func() { over.Stop() })
}

// failMissing fails the test with missing, which the caller gave, or else with otherwise.
func failMissing(t TB, missing []string, otherwise string) {
	t.Helper()
	if len(missing) > 0 {
		otherwise = strings.Join(missing, " ")
	}
	t.Fatalf("%s in %v (%s=3 waits three times as long); the goroutines:\n\n%s", otherwise, LongTimeout, factorVariable,
		goroutines())
}

// goroutines is the stacks of all goroutines, at most 1 MiB.
func goroutines() []byte {
	all := make([]byte, 1<<20)
	return all[:runtime.Stack(all, true)]
}
