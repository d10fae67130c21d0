package interpreted

import (
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// finder returns a function that finds an interpreter with some modules: the one in PATH, or the system's. It searches
// once.
func finder(modules string) func() string {
	return sync.OnceValue(func() string {
		for _, python := range []string{"python3", "/usr/bin/python3"} {
			ask := "import sys, " + modules + "; sys.version_info >= (3, 9) or sys.exit(1); print(sys.executable)"
			if out, err := exec.Command(python, "-c", ask).Output(); err == nil {
				return strings.TrimSpace(string(out))
			}
		}
		return ""
	})
}

var findNumPy, findH5py = finder("numpy"), finder("h5py")

// NumPy is Python with an interpreter that has NumPy. The test is skipped, with a message, if there is none.
func NumPy(t testing.TB, clients string) []string {
	t.Helper()
	return found(t, findNumPy(), "NumPy (Debian: python3-numpy)", clients)
}

// H5py is Python with an interpreter that has h5py and NumPy. The test is skipped, with a message, if there is none.
func H5py(t testing.TB) []string {
	t.Helper()
	return found(t, findH5py(), "h5py (Debian: python3-h5py)", "")
}

func found(t testing.TB, python, modules, clients string) []string {
	t.Helper()
	if python == "" {
		t.Skip("SKIPPED: there is no python3, 3.9 or newer, with ", modules)
	}
	return command(clients, python)
}
