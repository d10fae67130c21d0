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

	"ringlet/internal/invariants"
	"ringlet/testkit/patiently"
)

// TB is what testing.TB and *rapid.T have in common.
type TB = patiently.TB

// OK ends the test unless err is nil.
func OK(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// LimitParallel is for a TestMain: as many parallel tests as it says run beside each other, since they wait for
// time-outs most of the time, and fewer under the race detector, which makes work of it.
func LimitParallel(tests, underRace int) {
	if invariants.Enabled {
		tests = underRace
	}
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err) // it is a flag of every test binary
	}
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
