package certs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The ends of all certificates of a directory are told, and which cannot be read.
func TestEnds(t *testing.T) {
	dir := t.TempDir()
	ca, err := NewCA(48 * time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id, err := ca.Issue("n0", []string{"127.0.0.1"}, RoleNode, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	nonsense := os.WriteFile(filepath.Join(dir, "n1"+certSuffix), []byte("nonsense"), 0o600)
	err = errors.Join(ca.Save(dir), id.Save(dir), nonsense)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Expiries(dir)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	for i, want := range []struct {
		name      string
		remaining time.Duration
	}{{"ca", 48 * time.Hour}, {"n0", time.Hour}, {"n1", 0}} {
		e := list[i]
		if e.Name != want.name || (e.Err != nil) != (want.remaining == 0) {
			t.Errorf("%+v, not %s", e, want.name)
		}
		if off := time.Until(e.NotAfter) - want.remaining; e.Err == nil && (off > time.Minute || off < -time.Hour) {
			t.Errorf("%s ends %v", e.Name, e.NotAfter)
		}
	}
	if _, err := Expiries(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
}
