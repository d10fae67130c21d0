package sink

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// faulty is a file whose disk has room for so many bytes, or whose Sync fails.
type faulty struct {
	storage
	room  int
	cause error
	sync  error
}

func (f *faulty) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return f.storage.Write(p)
	}
	n, _ := f.storage.Write(p[:f.room])
	f.room = 0
	return n, f.cause
}

func (f *faulty) Sync() error {
	if f.sync != nil {
		return f.sync
	}
	return f.storage.Sync()
}

func TestFaultyDisk(t *testing.T) {
	p := testPattern(t)
	for _, tc := range []struct {
		cause error
		sync  error
		want  string
		full  bool
	}{
		{unix.ENOSPC, nil, "disk full: cannot write: ", true},
		{unix.EDQUOT, nil, "disk quota used up", true},
		{unix.EFBIG, nil, "larger than is allowed", true},
		{unix.EIO, nil, "cannot write: input/output error", false},
		{nil, nil, "cannot write: short write", false},
		{nil, unix.ENOSPC, "disk full: cannot synchronise", true},
	} {
		for _, format := range []Format{MEP, MDF, MFP} {
			t.Run(fmt.Sprintf("%s/%v", tc.want, format), func(t *testing.T) {
				dir := t.TempDir()
				f := newFile(t, FileConfig{Path: filepath.Join(dir, "out"), Format: format})
				room := 3 << 20
				if tc.sync != nil {
					room = 1 << 40
				}
				f.out.f = &faulty{storage: f.out.f, room: room, cause: tc.cause, sync: tc.sync}
				var err error
				m, mep := buildMEP(t, p, 0, 2000, 0)
				for k := 0; err == nil && k < 20; k++ {
					m.MEP = uint64(k)
					err = f.Write(t.Context(), m, mep)
				}
				_, finErr := f.Finish()
				if err == nil {
					err = finErr
				}
				var se *SinkError
				if !errors.As(err, &se) || se.Full() != tc.full || !strings.Contains(err.Error(), tc.want) || finErr == nil {
					t.Fatalf("%v, then %v", err, finErr)
				}
				if err := f.Abort(); err != nil || left(t, dir) != "" {
					t.Errorf("%v, left: %s", err, left(t, dir))
				}
			})
		}
	}
}

// TestFullDisk fills a real file system.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting a small tmpfs needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("ringlet-test", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("SKIPPED: a small tmpfs cannot be mounted here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	p := testPattern(t)
	dst := filepath.Join(dir, "out.mdf")
	write := func(f *File, n int, backwards bool) (err error) {
		for k := 0; err == nil && k < n; k++ {
			at := uint64(k)
			if backwards {
				at = uint64(n - 1 - k)
			}
			m, mep := buildMEP(t, p, at, 1000, 0)
			err = f.Write(t.Context(), m, mep)
		}
		return err
	}
	isFull := func(what string, err error) {
		t.Helper()
		var se *SinkError
		if !errors.As(err, &se) || !se.Full() || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("%s: %v", what, err)
		}
		t.Log(err)
	}

	f := newFile(t, FileConfig{Path: dst, Format: MDF})
	isFull("writing", write(f, 100, false))
	if err := f.Abort(); err != nil || left(t, dir) != "" {
		t.Fatal(err, left(t, dir))
	}

	f = newFile(t, FileConfig{Path: dst, Format: MDF}) // fits once, not twice
	if err := write(f, 7, true); err != nil {
		t.Fatal(err)
	}
	_, err := f.Finish()
	isFull("putting in order", err)
	if err := f.Abort(); err != nil || left(t, dir) != "" {
		t.Fatal(err, left(t, dir))
	}

	f = newFile(t, FileConfig{Path: PartPath(dst, 0), Format: MDF, Part: true})
	if err := write(f, 7, false); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	before := left(t, dir)
	_, err = Merge(t.Context(), []Part{{PartPath(dst, 0)}}, dst)
	isFull("merging", err)
	if left(t, dir) != before {
		t.Errorf("left: %s", left(t, dir))
	}
	if err := RemoveParts([]Part{{PartPath(dst, 0)}}); err != nil {
		t.Error(err)
	}
}

var _ io.Writer = (*faulty)(nil)
