package shmem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSegmentIsSharedAndGoesAway(t *testing.T) {
	dir := must.MemoryDir(t)
	s, err := Create("ringlet-1-n0-a", 3*PageSize+5, WithDir(dir))
	must.OK(t, err)
	if got := len(s.Bytes()); got != 3*PageSize+5 {
		t.Errorf("length %d", got)
	}
	if st, err := os.Stat(s.Path()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", st.Mode(), err)
	}
	o, err := Open("ringlet-1-n0-a", WithDir(dir))
	must.OK(t, err)
	s.Bytes()[3*PageSize+4] = 7
	if o.Bytes()[3*PageSize+4] != 7 {
		t.Error("the second mapping does not see the store")
	}
	if _, err := Create("ringlet-1-n0-a", 1, WithDir(dir)); !errors.Is(err, ErrExists) {
		t.Errorf("second create: %v, want ErrExists", err)
	}
	for range 2 {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.Bytes() != nil {
		t.Error("memory after close")
	}
	if remaining := files(t, dir); len(remaining) > 0 {
		t.Errorf("left behind: %v", remaining)
	}
}

func TestSegmentRefusals(t *testing.T) {
	dir := must.MemoryDir(t)
	var fs unix.Statfs_t
	must.OK(t, unix.Statfs(dir, &fs))
	tooMuch := int(fs.Blocks)*int(fs.Bsize) + PageSize
	must.OK(t, os.WriteFile(filepath.Join(dir, "open-to-all"), []byte("x"), 0o644))
	must.OK(t, os.Chmod(filepath.Join(dir, "open-to-all"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	must.OK(t, os.Symlink("empty", filepath.Join(dir, "link")))
	must.OK(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	before := len(files(t, dir))
	create := func(name string, size int) func() error {
		return func() error { _, err := Create(name, size, WithDir(dir)); return err }
	}
	open := func(name string) func() error {
		return func() error { _, err := Open(name, WithDir(dir)); return err }
	}
	for _, c := range []struct {
		what string
		do   func() error
		want error
	}{
		{"empty name", create("", 1), errBadName},
		{"path in name", create("../x", 1), errBadName},
		{"hidden name", create(".x", 1), errBadName},
		{"NUL in name", create("a\x00b", 1), errBadName},
		{"temporary name", create("a"+tempMark+"1", 1), errBadName},
		{"long name", create(strings.Repeat("n", 201), 1), errBadName},
		{"no size", create("a", 0), errBadSize},
		{"negative size", create("a", -1), errBadSize},
		{"more than there is", create("a", tooMuch), ErrNoSpace},
		{"name taken", create("empty", 1), ErrExists},
		{"absent", open("absent"), ErrNotFound},
		{"mode 0644", open("open-to-all"), errForeignSegment},
		{"an empty card", open("empty"), errForeignSegment},
		{"symbolic link", open("link"), errForeignSegment},
		{"folder", open("folder"), errForeignSegment},
		{"bad name to open", open("a/b"), errBadName},
		{"no prefix to sweep", func() error { _, err := Sweep("", WithDir(dir)); return err }, errBadName},
	} {
		err := c.do()
		var se *SegmentError
		if !errors.Is(err, c.want) || !errors.As(err, &se) {
			t.Errorf("%s: %v, want a *SegmentError around %q", c.what, err, c.want)
		}
	}
	if remaining := files(t, dir); len(remaining) != before {
		t.Errorf("left behind: %v", remaining)
	}
}

// TestReserveOnFullFileSystem needs the right to mount a small tmpfs.
func TestReserveOnFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("SKIPPED: the test cannot mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	a, err := Create("a", 512<<10, WithDir(dir))
	must.OK(t, err)
	defer func() { _ = a.Close() }()
	if _, err := Create("b", 768<<10, WithDir(dir)); !errors.Is(err, ErrNoSpace) {
		t.Errorf("second segment: %v, want ErrNoSpace", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	b, err := Create("b", 768<<10, WithDir(dir))
	if err != nil {
		t.Fatalf("there is room again: %v", err)
	}
	_ = b.Close()
}

func TestSweepSparesTheLiving(t *testing.T) {
	dir := must.MemoryDir(t)
	s, err := Create("ringlet-1-live", PageSize, WithDir(dir))
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	// A creator that died before and after it was done, and a file of another prefix.
	for _, name := range []string{"ringlet-1-dead", "ringlet-1-dead" + tempMark + "00", "other"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	removed, err := Sweep("ringlet-1-", WithDir(dir))
	if err != nil || len(removed) != 2 {
		t.Errorf("swept %v, %v; want the two dead ones", removed, err)
	}
	if remaining := files(t, dir); len(remaining) != 2 || remaining[0] != "other" || remaining[1] != "ringlet-1-live" {
		t.Errorf("left: %v", remaining)
	}
}

// TestCreateWhileSwept lets sweepers run over creators: every Create must succeed, and no
// segment of this living process may vanish.
func TestCreateWhileSwept(t *testing.T) {
	dir := must.MemoryDir(t)
	stop, done := make(chan struct{}), make(chan error, 2)
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if _, err := Sweep("s", WithDir(dir)); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range 200 {
		s, err := Create("s", PageSize, WithDir(dir))
		if err != nil {
			t.Errorf("create: %v", err)
			break
		}
		if _, err := os.Stat(s.Path()); err != nil {
			t.Errorf("a living segment was swept: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	close(stop)
	for range 2 {
		if err := patiently.Receive(t, done); err != nil {
			t.Error(err)
		}
	}
}

// TestReclaim: what a living process made stays, and what is no card, and what only begins with the name.
func TestReclaim(t *testing.T) {
	dir := must.MemoryDir(t)
	dead := startChild(t, "segment", "DIR="+dir, "NAME=calo")
	live := startChild(t, "segment", "DIR="+dir, "NAME=calo-2")
	dead.line(t)
	live.line(t)
	must.OK(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600))
	want := func(name string, removed bool) {
		t.Helper()
		if got, err := Reclaim(name, WithDir(dir)); err != nil || got != removed {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	want("calo", false)
	dead.kill()
	want("notes", false)
	want("none", false)
	want("cal", false)
	want("calo-2", false)
	want("calo", true)
	want("calo", false)
	if _, err := Reclaim(".calo", WithDir(dir)); !errors.Is(err, errBadName) {
		t.Error(err)
	}
	live.finish(t)
	if remaining := files(t, dir); len(remaining) != 1 {
		t.Errorf("left behind: %v", remaining)
	}
}
