package record

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(child(path))
	}
	goleak.VerifyTestMain(m)
}

func newStore(t *testing.T) *Store {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "state", "runs.db"))
}

// reopen opens a file that is there, or makes it, and closes it with the test.
func reopen(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// must fails the test on an error and passes the value on.
func must[T any](v T, err error) func(fataler) T {
	return func(t fataler) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fataler is a test, or a run of a property.
type fataler interface {
	Helper()
	Fatal(args ...any)
}
