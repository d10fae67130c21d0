package interpreted

import (
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// findNumPy returns the path of an interpreter that has NumPy: the one in PATH, or the system's.
var findNumPy = sync.OnceValue(func() string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		const ask = "import numpy, sys; sys.version_info >= (3, 9) or sys.exit(1); print(sys.executable)"
		if out, err := exec.Command(python, "-c", ask).Output(); err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
})

// NumPy is Python with an interpreter that has NumPy. The test is skipped, with a message, if there is none.
func NumPy(t testing.TB, clients string) []string {
	t.Helper()
	python := findNumPy()
	if python == "" {
		t.Skip("SKIPPED: there is no python3, 3.9 or newer, with NumPy (Debian: python3-numpy)")
	}
	return command(clients, python)
}
