package secret_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/internal/secret"
)

// TestRead: what is no secret is refused, with its file.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		why     string
	}{
		"short":  {"123456789012345\n", 0o600, "holds no secret"},
		"long":   {strings.Repeat("x", secret.MaxSize+1), 0o600, "holds no secret"},
		"longer": {strings.Repeat("x", 1<<20), 0o600, "holds no secret"},
		"public": {strings.Repeat("x", 32), 0o644, "can be read or written by every user"},
		"good":   {strings.Repeat("x", 32) + "\r\n", 0o640, ""},
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, []byte(c.content), c.mode), os.Chmod(file, c.mode)); err != nil {
			t.Fatal(err)
		}
		b, err := secret.Read(file)
		switch {
		case c.why == "" && (err != nil || len(b) != 32):
			t.Errorf("%s: %q, %v", name, b, err)
		case c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := secret.Read(dir); err == nil {
		t.Error("a directory is a secret")
	}
}
