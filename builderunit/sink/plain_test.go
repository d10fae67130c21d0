package sink

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/recording"
	"ringlet/testkit/must"
)

func newFile(t testing.TB, c FileConfig) *File {
	t.Helper()
	f, err := NewFile(c)
	must.OK(t, err)
	t.Cleanup(func() { _ = f.Abort() })
	return f
}

func TestFile(t *testing.T) {
	p := testPattern(t)
	for _, format := range formats {
		dir := t.TempDir()
		dst := filepath.Join(dir, "out")
		f := newFile(t, FileConfig{Path: dst, Format: format})
		var want []byte
		for k := range uint64(12) { // sizes around every threshold
			m, mep := buildMEP(t, p, k, testPacking, int(k)*20_000)
			must.OK(t, errors.Join(f.Write(t.Context(), m, mep), f.Flush()))
			want = append(want, encoded(t, format, m, mep)...)
		}
		r, err := f.Finish()
		if err != nil || r.MEPs != 12 || r.Events != 12*testPacking || int(r.Bytes) != len(want) || r.Path != dst {
			t.Fatal(err, r)
		}
		if err := f.Abort(); err != nil || !bytes.Equal(read(t, dst), want) || namesIn(t, dir) != "out" {
			t.Fatal(err, namesIn(t, dir))
		}
	}
}

// TestFileReplacesOnlyWithOverwrite holds that a file is replaced only where that is asked for, and only by one that is
// whole.
func TestFileReplacesOnlyWithOverwrite(t *testing.T) {
	p := testPattern(t)
	dir := t.TempDir()
	dst := filepath.Join(dir, "out.mdf")
	c := FileConfig{Path: dst, Format: recording.FormatMDF}
	late := newFile(t, c)
	must.OK(t, os.WriteFile(dst, []byte("before"), 0o600))
	if _, err := NewFile(c); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "or --overwrite") {
		t.Error(err)
	}
	if _, err := late.Finish(); !errors.Is(err, ErrExists) { // it came while this one was written
		t.Error(err)
	}
	if err := late.Abort(); err != nil || namesIn(t, dir) != "out.mdf" {
		t.Error(err, namesIn(t, dir))
	}
	c.Overwrite = true
	m, mep := buildMEP(t, p, 0, 2, 0)
	f := newFile(t, c)
	if err := errors.Join(f.Write(t.Context(), m, mep), f.Abort()); err != nil || string(read(t, dst)) != "before" {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), m, mep); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if _, err := f.Finish(); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	f = newFile(t, c)
	if _, err := f.Finish(); err != nil || len(read(t, dst)) != 0 || namesIn(t, dir) != "out.mdf" {
		t.Error(err, namesIn(t, dir))
	}
}

func TestFileRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		c    FileConfig
		want string
	}{
		{FileConfig{Path: dir, Format: recording.FormatMDF}, "is not a regular file"},
		{FileConfig{Path: os.DevNull, Format: recording.FormatMDF, Overwrite: true}, "is not a regular file"},
		{FileConfig{Path: filepath.Join(dir, "none", "x"), Format: recording.FormatMDF}, "no such file or directory"},
		{FileConfig{Path: filepath.Join(dir, "x")}, "format(0) is not a format"},
	} {
		_, err := NewFile(tc.c)
		var se *SinkError
		if !errors.As(err, &se) || se.isDiskFull() || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
}

// fullAfter takes so many bytes.
type fullAfter struct {
	io.WriteCloser
	capacity int
}

func (f *fullAfter) Write(p []byte) (int, error) {
	n, _ := f.WriteCloser.Write(p[:min(len(p), f.capacity)])
	if f.capacity -= n; n < len(p) {
		return n, unix.ENOSPC
	}
	return n, nil
}

func TestFileOnAFullDisk(t *testing.T) {
	p := testPattern(t)
	dir := t.TempDir()
	f := newFile(t, FileConfig{Path: filepath.Join(dir, "out"), Format: recording.FormatMDF})
	f.f = &fullAfter{f.f, 3 << 20}
	var err error
	for k := uint64(0); err == nil && k < 100; k++ {
		m, mep := buildMEP(t, p, k, 2000, 0)
		err = f.Write(t.Context(), m, mep)
	}
	_, finErr := f.Finish()
	var se *SinkError
	if !errors.As(err, &se) || !se.isDiskFull() || !errors.Is(finErr, err) {
		t.Fatal(err, finErr)
	}
	if err := f.Abort(); err != nil || namesIn(t, dir) != "" {
		t.Errorf("%v, left: %s", err, namesIn(t, dir))
	}
}
