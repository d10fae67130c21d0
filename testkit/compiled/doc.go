// Package compiled compiles C programs for tests as a user would, against the headers in clients/c. Paths are relative
// to the caller's folder. A program that several tests use is compiled once.
//
// It is for tests alone; depguard keeps it out of everything else. Without a compiler the test is skipped, with a
// message.
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

// C compiles a C program with StrictFlags, and returns its path. include is the folder of the clients' headers. The
// test is skipped, with a message, if there is no compiler.
func C(t testing.TB, include, source string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("SKIPPED: there is no C compiler (cc)")
	}
	return compile(t, cc, include, source, "-std=c11")
}

// CXX is C for a program that is valid C++ as well: it compiles it as C++17.
func CXX(t testing.TB, include, source string) string {
	t.Helper()
	cxx, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("SKIPPED: there is no C++ compiler (c++)")
	}
	return compile(t, cxx, include, source, "-x", "c++", "-std=c++17")
}

// programs are functions by command line, which compile once and return the bytes of the program. Each test writes its
// own file of them, which is removed with the test's folder.
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

// writeProgram writes a program that can be executed at once. It holds ForkLock: a process forked meanwhile would
// inherit the open file, and the execution would fail with "text file busy".
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o700)
}
