// Package must ends a test at an error that the test does not expect.
//
// What the caller must do: call OK from the goroutine of the test only, as with Fatal. It is for tests alone; depguard
// keeps it out of everything else.
package must

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"ringlet/internal/invariants"
)

// TB is what testing.TB and *rapid.T have in common.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// OK ends the test unless err is nil.
func OK(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Beside is for a TestMain: as many parallel tests as it says run beside each other, since they wait for time-outs most
// of the time, and fewer under the race detector, which makes work of it.
func Beside(tests, underRace int) {
	if invariants.Enabled {
		tests = underRace
	}
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err) // it is a flag of every test binary
	}
}

// Patience is how long a test waits for what must come, before it says that it did not: far longer than it takes on a
// machine that has much else to do, since it only bounds what hangs.
const Patience = time.Minute

// Receive takes the next value from a channel; without one it ends the test, which says what did not happen.
func Receive[T any](t TB, from <-chan T, missing string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Patience):
		t.Fatal(missing)
	}
	return v
}

// MemoryDir is a directory in memory, where synchronising costs nothing, or any other where there is no such.
func MemoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "ringlet-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
