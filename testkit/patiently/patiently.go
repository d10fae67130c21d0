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

// factorVariable of the environment: how many times as long all tests wait. Without it, once.
const factorVariable = "RINGLET_TEST_PATIENCE"

// timeFactor is what variable says.
var timeFactor = readFactor(os.Getenv(factorVariable))

// LongTimeout is how long a test waits for what must come, before it says that it did not: far longer than it takes on
// a machine that has much else to do, since it only bounds what hangs.
var LongTimeout = Scaled(3 * time.Minute)

// TB is what testing.TB and *rapid.T have in common.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// readFactor ends the tests at a value that is none, with a sentence: with another time than the one asked for they
// would fail for no reason that anybody sees.
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

// Scaled is a time of a test, as variable scales it.
func Scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * timeFactor) }

// Context ends when the test does, or after Long.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), LongTimeout)
	t.Cleanup(cancel)
	return ctx
}

// Receive takes the next value from a channel, or zero from one that is closed. Without either it ends the test, which
// says what did not happen.
func Receive[T any](t TB, from <-chan T, missing ...string) T {
	t.Helper()
	v, _ := next(t, from, missing...)
	return v
}

// next is Receive, and says whether it is a value: false where the channel is closed.
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

// All ranges over what comes from a channel until it is closed.
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

// Hold is what a fake does until the test lets it go on, or for Long: the test itself misses what then does not come.
// Any goroutine may call it, since it does not end the test.
func Hold[T any](until <-chan T) (v T) {
	over := time.NewTimer(LongTimeout)
	defer over.Stop()
	select {
	case v = <-until:
	case <-over.C:
	}
	return v
}

// Wait waits until a function returns that waits, such as that of a sync.WaitGroup.
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

// Result waits for a function that waits and says how it went, such as that of an errgroup.Group.
func Result[T any](t TB, wait func() T, missing ...string) (v T) {
	t.Helper()
	Wait(t, func() { v = wait() }, missing...)
	return v
}

// Exit waits for the end of a process that was started, as its Wait does. One that does not end is killed.
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

// Until asks again and again, until something is so that the test is to see.
func Until(t TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(LongTimeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			failMissing(t, []string{"it did not come about: " + what}, "")
		}
	}
}

// Watch bounds a whole test whose waits cannot be bounded one by one, since it counts what is allocated or measures how
// long something takes: after Long it ends all tests of the package, and shows what every goroutine does.
func Watch(t testing.TB) {
	over := time.AfterFunc(LongTimeout, func() {
		panic(fmt.Sprintf("%s was not over in %v (%s=3 waits three times as long)\n\n%s", t.Name(), LongTimeout,
			factorVariable, goroutines()))
	})
	t.Cleanup(func() { over.Stop() })
}

// failMissing ends the test with what did not happen, or else with what is said where nobody said more.
func failMissing(t TB, missing []string, otherwise string) {
	t.Helper()
	if len(missing) > 0 {
		otherwise = strings.Join(missing, " ")
	}
	t.Fatalf("%s in %v (%s=3 waits three times as long); the goroutines:\n\n%s", otherwise, LongTimeout, factorVariable,
		goroutines())
}

// goroutines is what every goroutine does, cut where there are very many.
func goroutines() []byte {
	all := make([]byte, 1<<20)
	return all[:runtime.Stack(all, true)]
}
