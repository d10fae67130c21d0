package frontend_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringlet/testkit/compiled"
	"ringlet/testkit/must"
)

// needed makes a compiler that is missing a failure: make check-headers.
var needed = flag.Bool("compilers", false, "fail where one of the compilers of TestHeaders is missing")

// TestHeaders: each header of clients/c is a C and a C++ program of its own, and all together are one, and gives no
// warning. The short form is one compiler of C: the gate has make check-headers beside it.
func TestHeaders(t *testing.T) {
	headers, err := filepath.Glob("../c/*.h")
	must.OK(t, err)
	if len(headers) == 0 {
		t.Fatal("there are no headers")
	}
	dir := t.TempDir()
	file := func(name string, headers ...string) string {
		var text strings.Builder
		for _, h := range headers {
			text.WriteString("#include \"" + filepath.Base(h) + "\"\n")
		}
		path := filepath.Join(dir, name+".c")
		must.OK(t, os.WriteFile(path, []byte(text.String()), 0o600))
		return path
	}
	var programs []string
	for _, h := range headers {
		programs = append(programs, file(filepath.Base(h), h))
	}
	programs = append(programs, file("all", headers...))
	slices.Reverse(headers)
	programs = append(programs, file("reversed", headers...))
	for _, c := range []struct {
		compiler, language, standard string
		long                         bool
	}{
		{"gcc", "c", "c11", false},
		{"gcc", "c", "c17", true},
		{"clang", "c", "c11", true},
		{"clang", "c", "c17", true},
		{"g++", "c++", "c++17", true},
		{"g++", "c++", "c++20", true},
		{"clang++", "c++", "c++17", true},
		{"clang++", "c++", "c++20", true},
	} {
		if testing.Short() && c.long {
			continue
		}
		t.Run(c.compiler+" "+c.standard, func(t *testing.T) {
			path, err := exec.LookPath(c.compiler)
			if err != nil && *needed {
				t.Fatalf("there is no %s: install it, or see which compilers the headers are checked with", c.compiler)
			}
			if err != nil {
				t.Skipf("SKIPPED: there is no %s", c.compiler)
			}
			args := append([]string{"-x", c.language, "-std=" + c.standard, "-I../c", "-O2", "-c", "-o", os.DevNull},
				compiled.StrictFlags...)
			for _, p := range programs {
				how := append(slices.Clone(args), p)
				if filepath.Base(p) != "all.c" || testing.Short() { // its code is made once
					how = append(how, "-fsyntax-only")
				}
				if out, err := exec.Command(path, how...).CombinedOutput(); err != nil {
					t.Errorf("%s: %v:\n%s", filepath.Base(p), err, out)
				}
			}
		})
	}
}
