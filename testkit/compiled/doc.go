// Package compiled makes programs of the clients for tests: it stands for a user who compiles a C program against the
// headers in clients/c. The caller gives the paths as its own folder sees them.
//
// It is for tests alone; depguard keeps it out of everything else. It does not promise that there is a compiler: a test
// is skipped without one, and says so.
package compiled

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// C compiles a C program with the strictest settings, and gives its path. include is where the clients' headers are.
// The test is skipped, aloud, where there is no compiler.
func C(t testing.TB, include, source string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("SKIPPED: there is no C compiler (cc)")
	}
	bin := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	out, err := exec.Command(cc, "-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"+include, "-o", bin,
		source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return bin
}
