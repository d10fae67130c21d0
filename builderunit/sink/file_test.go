package sink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
)

// TestFileOrders writes MEPs in any order, some twice, some not at all, alone or as parts of several builders, and expects one
// file in order with the highest attempts.
func TestFileOrders(t *testing.T) {
	p := testPattern(t)
	parent := memoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(parent, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		format := Format(rapid.IntRange(1, 3).Draw(rt, "format"))
		builders := rapid.IntRange(1, 4).Draw(rt, "builders")
		dst := filepath.Join(dir, "out")
		var parts []Part
		var files []*File
		for bu := range builders {
			c := FileConfig{Path: dst, Format: format}
			if builders > 1 {
				c.Path, c.Part = PartPath(dst, bu), true
				parts = append(parts, Part{c.Path})
			}
			f, err := NewFile(c)
			if err != nil {
				rt.Fatal(err)
			}
			defer func() { _ = f.Abort() }()
			files = append(files, f)
		}
		meps := rapid.Uint64Range(0, 12).Draw(rt, "meps")
		type write struct {
			mep     uint64
			attempt uint32
		}
		var writes []write
		for k := range meps {
			for a := range rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(rt, "attempts") {
				writes = append(writes, write{k, uint32(a)})
			}
		}
		writes = rapid.Permutation(writes).Draw(rt, "order")
		best := map[uint64]int{} // gap of the MEP that must come
		for _, w := range writes {
			gap := int(w.attempt) // makes attempts differ
			m, mep := buildMEP(rt, p, w.mep, testPacking, gap)
			m.Attempt = w.attempt
			if err := files[rapid.IntRange(0, builders-1).Draw(rt, "builder")].Write(t.Context(), m, mep); err != nil {
				rt.Fatal(err)
			}
			if g, ok := best[w.mep]; !ok || gap > g {
				best[w.mep] = gap
			}
		}
		r := finish(rt, files, parts, dst)
		last, want := uint64(0), []byte(nil)
		for k := range meps {
			gap, ok := best[k]
			if !ok {
				continue
			}
			last = k + 1
			_, mep := buildMEP(rt, p, k, testPacking, gap)
			want = append(want, mep...)
		}
		if _, there := best[r.FirstMissing]; there && r.Missing > 0 {
			rt.Fatalf("%+v: the first missing MEP was written", r)
		}
		if int(r.MEPs) != len(best) || int(r.Superseded) != len(writes)-len(best) || r.Missing != last-r.MEPs ||
			r.Events != testPacking*r.MEPs {
			rt.Fatalf("%+v of %d MEPs, %d written", r, len(best), len(writes))
		}
		got := read(rt, dst)
		if r.Bytes != uint64(len(got)) || r.Path != dst {
			rt.Fatalf("%+v, the file has %d bytes", r, len(got))
		}
		switch format {
		case MEP:
			if !bytes.Equal(got, want) {
				rt.Fatal("the file is not the MEPs in order")
			}
		case MDF:
			if ids := checkMDF(rt, p, got); !slices.IsSorted(ids) || len(ids) != int(r.Events) {
				rt.Fatalf("events %v", ids)
			}
		case MFP:
			checkMFPs(rt, got, int(r.MEPs))
		}
		if names := left(rt, dir); names != "out" {
			rt.Fatalf("left behind: %s", names)
		}
	})
}

func finish(t tb, files []*File, parts []Part, dst string) (r Result) {
	var err error
	for _, f := range files {
		if r, err = f.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	if parts != nil {
		if r, err = Merge(context.Background(), parts, dst); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func checkMFPs(t tb, data []byte, meps int) {
	n := 0
	before := uint64(0)
	for ; len(data) > 0; n++ {
		m, err := event.ParseMFP(data)
		if err != nil || int(m.Source()) != n%testSources || m.FirstEvent() < before {
			t.Fatalf("MFP %d: %v", n, err)
		}
		before = m.FirstEvent()
		data = data[m.Size():]
	}
	if n != meps*testSources {
		t.Fatalf("%d MFPs of %d MEPs", n, meps)
	}
}

func TestFileLargePieces(t *testing.T) {
	p := testPattern(t)
	dst := filepath.Join(t.TempDir(), "out.mep")
	f := newFile(t, FileConfig{Path: dst, Format: MEP})
	var want []byte
	for k := range uint64(12) { // sizes around every threshold: the buffer's, a quarter of it, the window's
		k = 11 - k
		m, mep := buildMEP(t, p, k, testPacking, int(k)*20000)
		if err := f.Write(t.Context(), m, mep); err != nil {
			t.Fatal(err)
		}
		want = append(bytes.Clone(mep), want...)
	}
	r, err := f.Finish()
	if err != nil || !r.Reordered || !bytes.Equal(read(t, dst), want) {
		t.Fatal(err, r)
	}
}

func TestFileReplacesOnlyWhenWhole(t *testing.T) {
	p := testPattern(t)
	dir := t.TempDir()
	dst := filepath.Join(dir, "out.mdf")
	if err := os.WriteFile(dst, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFile(t, FileConfig{Path: dst, Format: MDF})
	m, mep := buildMEP(t, p, 0, 2, 0)
	if err := f.Write(t.Context(), m, mep); err != nil {
		t.Fatal(err)
	}
	if err := f.Abort(); err != nil || string(read(t, dst)) != "before" || left(t, dir) != "out.mdf" {
		t.Fatal(err, left(t, dir))
	}
	if err := f.Write(t.Context(), m, mep); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := f.Finish(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	f = newFile(t, FileConfig{Path: dst, Format: MDF})
	if r, err := f.Finish(); err != nil || r.MEPs != 0 || len(read(t, dst)) != 0 {
		t.Error(err, r)
	}
}

func TestFileRefuses(t *testing.T) {
	p := testPattern(t)
	dir := t.TempDir()
	for _, tc := range []struct {
		c    FileConfig
		want string
	}{
		{FileConfig{Path: dir, Format: MDF}, "is not a regular file"},
		{FileConfig{Path: os.DevNull, Format: MDF}, "is not a regular file"},
		{FileConfig{Path: filepath.Join(dir, "none", "x"), Format: MDF}, "no such file or directory"},
		{FileConfig{Path: filepath.Join(dir, "x")}, "format(0) is not a format"},
	} {
		_, err := NewFile(tc.c)
		var se *SinkError
		if !errors.As(err, &se) || se.Full() || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "output /") {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
	for name, bad := range map[string]func(m *Meta, mep []byte) []byte{
		"events":  func(m *Meta, mep []byte) []byte { m.Events++; return mep },
		"first":   func(m *Meta, mep []byte) []byte { m.FirstEvent++; return mep },
		"longer":  func(_ *Meta, mep []byte) []byte { return append(mep, 0, 0, 0, 0) },
		"cut":     func(_ *Meta, mep []byte) []byte { return mep[:len(mep)-4] },
		"damaged": func(_ *Meta, mep []byte) []byte { mep[0] ^= 1; return mep },
		"a container that is none": func(_ *Meta, mep []byte) []byte {
			at := binary.LittleEndian.Uint32(mep[16:]) * 4 // offset of the first MFP
			mep[at+event.MFPFixedSize] = byte(event.FragmentContainer)
			return mep
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, FileConfig{Path: filepath.Join(dir, "y"), Format: MDF})
			m, mep := buildMEP(t, p, 0, 2, 0)
			err := f.Write(t.Context(), m, bad(&m, mep))
			if err == nil || !strings.Contains(err.Error(), "MEP 0") {
				t.Fatal(err)
			}
			t.Log(err)
			m, mep = buildMEP(t, p, 1, 2, 0)
			if again := f.Write(t.Context(), m, mep); !errors.Is(again, err) {
				t.Errorf("the error is not final: %v", again)
			}
			if _, finErr := f.Finish(); !errors.Is(finErr, err) {
				t.Errorf("a broken file was finished: %v", finErr)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := newFile(t, FileConfig{Path: filepath.Join(dir, "z"), Format: MEP})
	if err := f.Write(ctx, Meta{}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := ParseFormat("xml"); err == nil {
		t.Error("xml is a format")
	}
	for _, format := range []Format{MEP, MDF, MFP} {
		if back, err := ParseFormat(format.String()); err != nil || back != format {
			t.Error(format, back, err)
		}
	}
}

func TestRemoveTemporaries(t *testing.T) {
	dir := t.TempDir()
	dst := filepath.Join(dir, "out.mdf")
	keep := []string{"out.mdf", ".out.mdf.other", ".other.mdf.ringlet-0000.part"}
	drop := []string{filepath.Base(PartPath(dst, 3)), filepath.Base(PartPath(dst, 3)) + indexSuffix, ".out.mdf.ringlet-1234abcd.part"}
	for _, n := range slices.Concat(keep, drop) {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What finishing a part leaves when it is killed between its two files is found, too.
	x, err := createTemp(PartPath(dst, 1) + indexSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.remove() }()
	removed, err := RemoveTemporaries(dst)
	if err != nil || len(removed) != len(drop) {
		t.Error(removed, err)
	}
	if removed, err := RemoveTemporaries(PartPath(dst, 1) + indexSuffix); err != nil || len(removed) != 1 {
		t.Error(removed, err)
	}
	slices.Sort(keep)
	if got := left(t, dir); got != strings.Join(keep, " ") {
		t.Error(got)
	}
	t.Chdir(dir)
	if _, err := RemoveTemporaries("plain.mdf"); err != nil {
		t.Error(err)
	}
	if _, err := RemoveTemporaries(filepath.Join(dir, "none", "x")); err == nil {
		t.Error("a directory that is not there was searched")
	}
}

func TestFileDoesNotAllocate(t *testing.T) {
	p := testPattern(t)
	for _, format := range []Format{MEP, MDF, MFP} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			f := newFile(t, FileConfig{Path: filepath.Join(t.TempDir(), "x"), Format: format})
			f.index = make([]entry, 0, 1000)
			m, mep := buildMEP(t, p, 0, testPacking, 0)
			ctx := t.Context()
			if a := testing.AllocsPerRun(100, func() {
				if err := f.Write(ctx, m, mep); err != nil {
					t.Error(err)
				}
				m.MEP++
			}); a != 0 {
				t.Errorf("%g allocations per MEP", a)
			}
		})
	}
}

func BenchmarkMDF(b *testing.B) {
	p := testPattern(b)
	m, mep := buildMEP(b, p, 0, 1000, 0)
	f := newFile(b, FileConfig{Path: filepath.Join(b.TempDir(), "x"), Format: MDF})
	f.out.f = nowhere{f.out.f}
	b.SetBytes(int64(len(mep)))
	for b.Loop() {
		if err := f.Write(b.Context(), m, mep); err != nil {
			b.Fatal(err)
		}
	}
}

// nowhere takes all that is written, so that the benchmark does not fill a disk.
type nowhere struct{ storage }

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
