// Package compiled makes programs of the clients for tests: it stands for a user who compiles a C program against the
// headers in clients/c. The caller gives the paths as its own folder sees them.
//
// It is for tests alone; depguard keeps it out of everything else. It does not promise that there is a compiler: a test
// is skipped without one, and says so.
package compiled

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

func compile(t testing.TB, compiler, include, source string, language ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := slices.Concat(language, StrictFlags, []string{"-O2", "-I" + include, "-o", bin, source})
	out, err := exec.Command(compiler, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return bin
}
