package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSealLog: a closed file stays as it was; one that is being written may change its bytes and its name.
func TestSealLog(t *testing.T) {
	dir, l := t.TempDir(), &sealLog{}
	look := func(wantAgain int, want string) {
		t.Helper()
		again, problems, err := l.verify([]string{dir})
		text := strings.Join(problems, "; ")
		if err != nil || again != wantAgain || (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%d looked at again, %q, %v; want %d, %q", again, text, err, wantAgain, want)
		}
	}
	first := writeFile(t, dir, "run-000001/bu0-00001.mdf", "first")
	open := writeFile(t, dir, "run-000001/bu0-00002.mdf.open", "sec")
	writeFile(t, dir, "run-000001/run.json", "{}")
	look(0, "")
	writeFile(t, dir, "run-000001/run.json", "{ }")
	writeFile(t, dir, "run-000001/bu0-00002.mdf.open", "second")
	if err := os.Rename(open, strings.TrimSuffix(open, ".open")); err != nil {
		t.Fatal(err)
	}
	look(1, "")
	look(2, "")
	writeFile(t, dir, "run-000001/bu0-00001.mdf", "fIrst")
	look(2, "bu0-00001.mdf was closed, and has changed: 5 bytes")
	writeFile(t, dir, "run-000001/bu0-00001.mdf", "first")
	look(2, "bu0-00001.mdf was closed, and has changed")
	look(2, "")
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	look(2, "bu0-00001.mdf was closed, and is gone")
}

// TestSealLogForgets the oldest runs, and what it knew of them.
func TestSealLogForgets(t *testing.T) {
	dir, l := t.TempDir(), &sealLog{}
	for _, run := range []string{"run-000009", "run-000010", "run-000011"} {
		writeFile(t, dir, run+"/bu0-00001.mep", run)
	}
	if _, _, err := l.verify([]string{dir}); err != nil {
		t.Fatal(err)
	}
	if err := l.forget([]string{dir}, 2); err != nil {
		t.Fatal(err)
	}
	remaining, err := os.ReadDir(dir)
	if err != nil || len(remaining) != 2 || remaining[0].Name() != "run-000010" {
		t.Errorf("%v, %v are left", remaining, err)
	}
	if again, problems, err := l.verify([]string{dir}); again != 2 || len(problems) > 0 || err != nil {
		t.Errorf("%d, %v, %v", again, problems, err)
	}
}

// TestSweep: what a soak that was killed has left goes; what is in use, or kept, stays.
func TestSweep(t *testing.T) {
	in := t.TempDir()
	writeFile(t, in, dirPrefix+"killed/"+lockName, "")
	writeFile(t, in, dirPrefix+"killed/cluster-01/logs/n0.log", "")
	writeFile(t, in, dirPrefix+"kept/"+keptName, "")
	writeFile(t, in, "something/else", "")
	used, err := makeDir(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := removeStaleDirs(in); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		dirPrefix + "killed":     false,
		dirPrefix + "kept":       true,
		"something":              true,
		filepath.Base(used.path): true,
	} {
		if _, err := os.Stat(filepath.Join(in, name)); (err == nil) != want {
			t.Errorf("%s is there: %v", name, err == nil)
		}
	}
	if err := used.close(true); err != nil {
		t.Fatal(err)
	}
	again, err := makeDir(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(used.path); err != nil {
		t.Errorf("what is kept was swept: %v", err)
	}
	if err := again.close(false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(again.path); err == nil {
		t.Error("a soak without a failure leaves its directory")
	}
}
