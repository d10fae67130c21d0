package interpreted

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// FindPython returns the path of an interpreter that can run the clients. It searches once.
var FindPython = sync.OnceValues(func() (string, error) {
	// F_OFD_SETLK exists in Python 3.9 and newer, which the clients need.
	out, err := exec.Command("python3", "-c", "import fcntl, sys; fcntl.F_OFD_SETLK; print(sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("there is no python3, 3.9 or newer: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// Python returns the beginning of a command line, to which the caller appends a program and its arguments. clients is
// the folder of the package ringlet, or empty. No compiled code is written. The test is skipped, with a message, if
// there is no interpreter.
func Python(t testing.TB, clients string) []string {
	t.Helper()
	python, err := FindPython()
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	return command(clients, python)
}

// command begins a command line. env executes the interpreter in its own process: killing the command kills the
// interpreter.
func command(clients, python string) []string {
	return []string{"env", "PYTHONPATH=" + clients, python, "-B"}
}
