// Package compiled makes programs of the clients for tests: it stands for a user who compiles a C program against the
// headers in clients/c. The caller gives the paths as its own folder sees them. A program that several tests use is
// compiled once.
//
// It is for tests alone; depguard keeps it out of everything else. It does not promise that there is a compiler: a test
// is skipped without one, and says so.
package compiled

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// StrictFlags are the warnings that a client's header must not give, each an error.
var StrictFlags = []string{"-Wall", "-Wextra", "-Wpedantic", "-Werror"}

// C compiles a C program with the strictest settings, and gives its path. include is where the clients' headers are.
// The test is skipped, aloud, where there is no compiler.
func C(t testing.TB, include, source string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("SKIPPED: there is no C compiler (cc)")
	}
	return compile(t, cc, include, source, "-std=c11")
}

// CXX compiles a program that is C and C++ as C++17; all else as C.
func CXX(t testing.TB, include, source string) string {
	t.Helper()
	cxx, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("SKIPPED: there is no C++ compiler (c++)")
	}
	return compile(t, cxx, include, source, "-x", "c++", "-std=c++17")
}

// programs are the bytes of what was compiled, by the command, as functions that compile no more than once. A file of
// it is of one test, and goes with that.
var programs sync.Map

func compile(t testing.TB, compiler, include, source string, language ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	how := append(slices.Concat([]string{compiler}, language, StrictFlags), "-O2", "-I"+include, source)
	made, _ := programs.LoadOrStore(strings.Join(how, "\x00"), sync.OnceValues(func() ([]byte, error) {
		if out, err := exec.Command(how[0], append(how[1:], "-o", bin)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, out)
		}
		return os.ReadFile(bin)
	}))
	program, err := made.(func() ([]byte, error))()
	if err == nil {
		err = writeProgram(bin, program)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// writeProgram writes a program that can be executed at once: nothing is started meanwhile that would have it open for
// writing, too.
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o700)
}
