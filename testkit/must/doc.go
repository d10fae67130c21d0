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

// LimitParallel is for a TestMain: it sets how many parallel tests run at once. Tests that mostly wait for time-outs
// may be more than there are processors; under the race detector they compute more, and fewer should run.
func LimitParallel(tests, underRace int) {
	if invariants.Enabled {
		tests = underRace
	}
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err) // every test binary has the flag
	}
}

// MemoryDir is a temporary directory in memory, where fsync costs nothing; without /dev/shm, on the disk.
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
