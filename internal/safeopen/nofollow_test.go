package safeopen

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestItself: what opens files of a directory that others may write opens no link, and nothing but a regular file.
func TestItself(t *testing.T) {
	for how, do := range map[string]func(string) error{
		"open":     func(p string) error { return closed(OpenNoFollow(p)) },
		"read":     func(p string) error { _, err := ReadNoFollow(p, 7); return err },
		"create":   func(p string) error { return closed(CreateNoFollow(p)) },
		"truncate": func(p string) error { return TruncateNoFollow(p, 0) },
		"stat":     func(p string) error { _, err := StatNoFollow(p); return err },
	} {
		t.Run(how, func(t *testing.T) {
			dir := zoo(t)
			if err := os.Symlink("made", filepath.Join(dir, "dangling")); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"link", "link-to-pipe", "link-to-device", "dangling"} {
				var link *SymlinkError
				if err := do(filepath.Join(dir, name)); !errors.As(err, &link) || filepath.Base(link.Path) != name {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, name := range []string{"pipe", "dir", "socket"} {
				var other *NotRegularError
				if err := do(filepath.Join(dir, name)); !errors.As(err, &other) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "content" {
				t.Errorf("what the link leads to is %q, %v", b, err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "made")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file was made where a link leads to: %v", err)
			}
			if err := do(filepath.Join(dir, "file")); err != nil {
				t.Errorf("a file: %v", err)
			}
		})
	}
}

// TestWriteItselfReplaces: what is written is a new file, of this process.
func TestWriteItselfReplaces(t *testing.T) {
	dir := zoo(t)
	for _, name := range []string{"link", "pipe", "file", "new"} {
		path := filepath.Join(dir, name)
		if err := WriteNoFollow(path, bytes.NewReader([]byte(name)), 0o600); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := ReadNoFollow(path, MaxTextSize); err != nil || string(b) != name {
			t.Errorf("%s has %q, %v", name, b, err)
		}
	}
	var large *tooLargeError
	if _, err := ReadNoFollow(filepath.Join(dir, "file"), 3); !errors.As(err, &large) {
		t.Errorf("%v", err)
	}
}

func closed(f *os.File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}
