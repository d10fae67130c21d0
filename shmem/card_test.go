package shmem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/testkit/must"
)

// TestNobodyCutsASegmentShort: whatever is done to a segment's card or memory, both ends go on using every byte.
// Before, the first use behind the cut killed the process with SIGBUS.
func TestNobodyCutsASegmentShort(t *testing.T) {
	dir := must.MemoryDir(t)
	const size = 64 * PageSize
	s, err := Create("s", size, WithDir(dir))
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	o, err := Open("s", WithDir(dir))
	must.OK(t, err)
	defer func() { _ = o.Close() }()
	memory, err := cardOf(s.file, size)
	must.OK(t, err)
	for what, do := range map[string]func() error{
		"the memory by its path":      func() error { return os.Truncate(memory.path(), 0) },
		"the memory, opened to write": func() error { return o.file.Truncate(PageSize) },
		"the memory, grown":           func() error { return o.file.Truncate(2 * size) },
		"a hole in the memory": func() error {
			return unix.Fallocate(int(o.file.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, PageSize)
		},
		"another seal": func() error {
			_, err := unix.FcntlInt(o.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
			return err
		},
	} {
		if err := do(); err == nil {
			t.Errorf("%s: done", what)
		}
	}
	if err := os.Truncate(s.Path(), 0); err != nil { // what is left to do
		t.Fatal(err)
	}
	for i := 0; i < size; i += PageSize {
		s.Bytes()[i] = byte(i / PageSize)
		if o.Bytes()[i] != byte(i/PageSize) {
			t.Fatalf("byte %d differs", i)
		}
	}
	var se *SegmentError
	if _, err := Open("s", WithDir(dir)); !errors.Is(err, errForeignSegment) || !errors.As(err, &se) {
		t.Errorf("a newcomer: %v", err)
	}
	if removed, err := Sweep("s", WithDir(dir)); err != nil || len(removed) != 0 {
		t.Errorf("swept %v, %v: its creator lives", removed, err)
	}
}

// TestCardsThatLie: a card that speaks of something else is refused with a sentence, and nothing is opened that is no
// segment's memory.
func TestCardsThatLie(t *testing.T) {
	dir := must.MemoryDir(t)
	s, err := Create("s", PageSize, WithDir(dir))
	must.OK(t, err)
	defer func() { _ = s.Close() }()
	good, err := cardOf(s.file, PageSize)
	must.OK(t, err)
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	must.OK(t, err)
	defer plain.Close()
	open, err := newMemory("x") // without a seal
	must.OK(t, err)
	defer open.Close()
	must.OK(t, open.Truncate(PageSize))
	with := func(change func(*card)) string {
		c := *good
		change(&c)
		return c.String()
	}
	unsealed, err := cardOf(open, PageSize)
	must.OK(t, err)
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"good":                     {good.String(), nil},
		"nothing":                  {"", errForeignSegment},
		"half":                     {good.String()[:30], errForeignSegment},
		"two":                      {good.String() + good.String(), errForeignSegment},
		"without an end":           {strings.TrimSpace(good.String()), errForeignSegment},
		"of another version":       {strings.Replace(good.String(), " 2 ", " 3 ", 1), errForeignSegment},
		"of an elder kind":         {"RNGLBUFR" + strings.Repeat("\x00", 4096), errForeignSegment},
		"a path of its own":        {strings.Replace(good.String(), "/proc/", "/tmp//", 1), errForeignSegment},
		"no process":               {with(func(c *card) { c.pid = 1 << 30 }), ErrNotFound},
		"no descriptor":            {with(func(c *card) { c.fd = 1 << 20 }), ErrNotFound},
		"a file that is no memory": {with(func(c *card) { c.fd = int(plain.Fd()) }), ErrNotFound},
		"memory without a seal":    {unsealed.String(), errForeignSegment},
		"another size":             {with(func(c *card) { c.size *= 2 }), ErrNotFound},
		"another inode":            {with(func(c *card) { c.ino++ }), ErrNotFound},
		"a negative size":          {with(func(c *card) { c.size = -1 }), errForeignSegment},
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, "c"), []byte(tc.text), 0o600))
		o, err := Open("c", WithDir(dir))
		if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if o != nil {
			_ = o.Close()
		}
	}
}

// FuzzCard: whatever stands in a card, reading it is harmless, and what is read is what was written.
func FuzzCard(f *testing.F) {
	f.Add("ringlet-segment 2 /proc/1/fd/2 3 4 5\n")
	f.Add("ringlet-segment 2 /proc/01/fd/2 3 4 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parseCard(text); err == nil && c.String() != text {
			t.Errorf("%q was read as %q", text, c.String())
		} else if err != nil && !errors.Is(err, errForeignSegment) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// TestDeadCreatorsMemoryIsGone: a segment whose creator has ended is not found any more, and its card is swept.
func TestDeadCreatorsMemoryIsGone(t *testing.T) {
	dir := must.MemoryDir(t)
	c := card{
		pid:  1 << 30,
		fd:   3,
		size: PageSize,
		dev:  1,
		ino:  1,
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "s"), []byte(c.String()), 0o600))
	if _, err := Open("s", WithDir(dir)); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "ended") {
		t.Errorf("%v", err)
	}
	if removed, err := Sweep("s", WithDir(dir)); err != nil || len(removed) != 1 {
		t.Errorf("swept %v, %v", removed, err)
	}
}
