package interpreted

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// FindPython gives the path of the interpreter, or says why there is none that the clients can be run by. It looks
// once.
var FindPython = sync.OnceValues(func() (string, error) {
	// The lock is in Python 3.9 and newer, which the clients ask for.
	out, err := exec.Command("python3", "-c", "import fcntl, sys; fcntl.F_OFD_SETLK; print(sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("there is no python3, 3.9 or newer: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// Python gives the beginning of a command, behind which a program and its arguments stand. clients is the directory of
// our package, or empty. No compiled code is left. The test is skipped, aloud, where there is no interpreter.
func Python(t testing.TB, clients string) []string {
	t.Helper()
	python, err := FindPython()
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	// env becomes the interpreter, so who kills the command kills that.
	return []string{"env", "PYTHONPATH=" + clients, python, "-B"}
}
