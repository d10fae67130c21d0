package safeopen

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// zoo makes a directory with one of each kind of file.
func zoo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(at("file"), []byte("content"), 0o600), unix.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700),
		os.Symlink("pipe", at("link-to-pipe")), os.Symlink("file", at("link")), os.Symlink("/dev/null", at("link-to-device")),
	)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return dir
}

// TestOpenWaitsForNobody opens what would block or never end. On an Open that waits, this test does not end.
func TestOpenWaitsForNobody(t *testing.T) {
	dir := zoo(t)
	places := &AllowedPaths{Dirs: []string{dir}}
	for name, want := range map[string]string{
		"file": "", "link": "", "pipe": "is a named pipe, not a regular file",
		"link-to-pipe": "is a named pipe, not a regular file",
		"dir":          "is a directory, not a regular file", "socket": "is a socket, not a regular file",
		"missing": "no such file",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			anywhere, err := Open(path)
			check(t, anywhere, err, path, want)
			placed, _, err := places.Open(path)
			check(t, placed, err, path, want)
		})
	}
	f, err := Open(filepath.Join(dir, "link-to-device"))
	check(t, f, err, "link-to-device", "is a character device, not a regular file")
}

func check(t *testing.T, f *os.File, err error, path, want string) {
	t.Helper()
	if want != "" {
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and not that it %s", err, want)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	path := filepath.Join(zoo(t), "file")
	if b, err := ReadFile(path, 7); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	var large *tooLargeError
	if _, err := ReadFile(path, 6); !errors.As(err, &large) || large.Limit != 6 {
		t.Errorf("%v", err)
	}
}

func TestPlaces(t *testing.T) {
	dir, other, out := zoo(t), t.TempDir(), t.TempDir()
	secret := filepath.Join(out, "secret")
	err := errors.Join(
		os.WriteFile(secret, []byte("content"), 0o600), os.Symlink(secret, filepath.Join(dir, "leak")),
		os.Symlink(out, filepath.Join(dir, "tunnel")),
		os.WriteFile(filepath.Join(other, "second"), []byte("content"), 0o600),
		os.Symlink("../dir/../file", filepath.Join(dir, "dir", "back")),
		os.Symlink(dir, filepath.Join(out, "dir")),
	)
	if err != nil {
		t.Fatal(err)
	}
	places := &AllowedPaths{Dirs: []string{dir, other}, Files: []string{filepath.Join(out, "own")}}
	outside := "is not below a directory of inputs"
	for _, k := range []struct{ path, want, is string }{
		{filepath.Join(dir, "file"), "", filepath.Join(dir, "file")},
		{"file", "", filepath.Join(dir, "file")},
		{"second", "", filepath.Join(other, "second")},
		{"./dir/../file", "", filepath.Join(dir, "file")},
		{"dir/back", "", filepath.Join(dir, "dir/back")},
		{"third", "no such file", ""},
		{"../" + filepath.Base(out) + "/secret", outside, ""},
		{dir + "/../" + filepath.Base(out) + "/secret", outside, ""},
		{secret, outside, ""},
		{"/etc/passwd", outside, ""},
		{filepath.Join(out, "missing"), outside, ""},
		{filepath.Join(out, "dir", "file"), outside, ""},
		{filepath.Join(dir, "leak"), "a symbolic link leads out of " + dir, ""},
		{"leak", "a symbolic link leads out of " + dir, ""},
		{"tunnel/secret", "a symbolic link leads out of " + dir, ""},
		{filepath.Join(out, "own"), "no such file", ""},
	} {
		t.Run(k.path, func(t *testing.T) {
			f, abs, err := places.Open(k.path)
			check(t, f, err, "", k.want)
			var place *notAllowedError
			if name := strings.Contains(k.want, "inputs") || strings.Contains(k.want, "link"); errors.As(err, &place) != name {
				t.Errorf("%#v", err)
			}
			if err == nil && abs != k.is {
				t.Errorf("it is called %s, not %s", abs, k.is)
			}
		})
	}
	if _, _, err := (&AllowedPaths{}).Open(secret); err == nil || !strings.Contains(err.Error(),
		"no directory of inputs was given") {
		t.Errorf("nowhere: %v", err)
	}
	var anywhere *AllowedPaths
	f, _, err := anywhere.Open(secret)
	check(t, f, err, secret, "")
}

func TestNewPlaces(t *testing.T) {
	dir := zoo(t)
	t.Chdir(dir)
	p, err := NewAllowedPaths([]string{"dir", "."}, []string{"", "file"})
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Dirs) != 2 || p.Dirs[0] != filepath.Join(here, "dir") || p.Dirs[1] != here || len(p.Files) != 1 ||
		p.Files[0] != filepath.Join(here, "file") {
		t.Errorf("%+v", p)
	}
	if _, err := NewAllowedPaths([]string{"file"}, nil); err == nil ||
		!strings.Contains(err.Error(), "file is not a directory") {
		t.Errorf("%v", err)
	}
	if _, err := NewAllowedPaths([]string{"missing"}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
