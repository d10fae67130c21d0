package conversion

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestADirectoryIsMadeWhereNoLinkLeads: a conversion removes files in its directory, and makes some.
func TestADirectoryIsMadeWhereNoLinkLeads(t *testing.T) {
	dir, away := filepath.Join(t.TempDir(), "out"), t.TempDir()
	if err := os.Symlink(away, dir); err != nil {
		t.Fatal(err)
	}
	if err := makeItself(dir); err == nil || !strings.Contains(err.Error(), "is a symbolic link, not a directory") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 { // made, then there
		if err := makeItself(dir); err != nil {
			t.Error(err)
		}
	}
}
