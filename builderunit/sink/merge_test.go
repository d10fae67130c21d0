package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeParts makes parts of n MEPs, dealt out in turn, and returns the MEPs in order.
func writeParts(t testing.TB, dst string, builders, n int) (parts []Part, whole []byte) {
	p := testPattern(t)
	files := make([]*File, builders)
	for bu := range files {
		files[bu] = newFile(t, FileConfig{Path: PartPath(dst, bu), Format: MEP, Part: true})
		parts = append(parts, Part{PartPath(dst, bu)})
	}
	for k := range n {
		m, mep := buildMEP(t, p, uint64(k), testPacking, 0)
		if err := files[k%builders].Write(t.Context(), m, mep); err != nil {
			t.Fatal(err)
		}
		whole = append(whole, mep...)
	}
	for _, f := range files {
		if _, err := f.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	return parts, whole
}

// TestMergeRefuses damages a part or its index in every way and expects a sentence, the parts as they were, and no output.
func TestMergeRefuses(t *testing.T) {
	change := func(at int) func(string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if at < 0 {
				at += len(b)
			}
			b[at] ^= 0x80
			return os.WriteFile(path, b, 0o600)
		}
	}
	for _, tc := range []struct {
		name   string
		path   func(part string) string
		change func(path string) error
		want   error
	}{
		{"no part", nil, os.Remove, os.ErrNotExist},
		{"no index", index, os.Remove, os.ErrNotExist},
		{"part cut", nil, func(p string) error { return os.Truncate(p, 100) }, ErrCorrupt},
		{"index cut", index, func(p string) error { return os.Truncate(p, 100) }, ErrCorrupt},
		{"index empty", index, func(p string) error { return os.Truncate(p, 0) }, ErrCorrupt},
		{"magic", index, change(0), ErrCorrupt},
		{"version", index, change(8), ErrCorrupt},
		{"format", index, change(12), ErrCorrupt},
		{"size", index, change(16), ErrCorrupt},
		{"count", index, change(24), ErrCorrupt},
		{"huge count", index, change(31), ErrCorrupt},
		{"superseded", index, change(32), ErrCorrupt},
		{"order", index, change(indexHeader + 7), ErrCorrupt},
		{"offset", index, change(indexHeader + 15), ErrCorrupt},
		{"length", index, change(indexHeader + entryBytes + 22), ErrCorrupt},
		{"events", index, change(-entryBytes), ErrCorrupt},
		{"checksum", index, change(-1), ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			dst := filepath.Join(dir, "out")
			parts, _ := writeParts(t, dst, 2, 10)
			path := parts[1].Path
			if tc.path != nil {
				path = tc.path(path)
			}
			if err := tc.change(path); err != nil {
				t.Fatal(err)
			}
			before := left(t, dir)
			_, err := Merge(t.Context(), parts, dst)
			var se *SinkError
			if !errors.As(err, &se) || !errors.Is(err, tc.want) || !strings.HasPrefix(se.Path, parts[1].Path) {
				t.Fatal(err)
			}
			if after := left(t, dir); after != before {
				t.Errorf("left: %s, before: %s", after, before)
			}
			if err := RemoveParts(parts); err != nil || left(t, dir) != "" {
				t.Error(err, left(t, dir))
			}
		})
	}
}

func index(part string) string { return part + indexSuffix }

func TestMergeStops(t *testing.T) {
	dir := t.TempDir()
	dst := filepath.Join(dir, "out")
	parts, whole := writeParts(t, dst, 3, 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := left(t, dir)
	if _, err := Merge(ctx, parts, dst); !errors.Is(err, context.Canceled) || left(t, dir) != before {
		t.Fatal(err, left(t, dir))
	}
	r, err := Merge(t.Context(), parts, dst)
	if err != nil || !bytes.Equal(read(t, dst), whole) || r.MEPs != 20 || r.Missing != 0 {
		t.Fatal(err, r)
	}
	if r, err := Merge(t.Context(), nil, dst); err != nil || r.MEPs != 0 || len(read(t, dst)) != 0 {
		t.Error("no parts make an empty file", err, r)
	}
}

func TestMergeOfDifferentFormats(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "out")
	parts, _ := writeParts(t, dst, 1, 2)
	f := newFile(t, FileConfig{Path: PartPath(dst, 7), Format: MDF, Part: true})
	if _, err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(t.Context(), append(parts, Part{PartPath(dst, 7)}), dst); !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "it is mdf, the others are mep") {
		t.Error(err)
	}
}

// FuzzIndex reads damaged indexes: no panic, no entry outside the part, never more than the file has.
func FuzzIndex(f *testing.F) {
	parts, whole := writeParts(f, filepath.Join(f.TempDir(), "out"), 1, 3)
	sound := read(f, index(parts[0].Path))
	f.Add(sound)
	f.Add(sound[:indexHeader])
	f.Add([]byte{})
	path := filepath.Join(f.TempDir(), "x.idx")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := openIndex(path, int64(len(whole)))
		if err != nil {
			return
		}
		defer func() { _ = x.close() }()
		for {
			e, ok, err := x.next()
			if err != nil || !ok {
				return
			}
			if e.offset < 0 || e.length < 0 || e.offset+e.length > int64(len(whole)) {
				t.Fatalf("%+v", e)
			}
		}
	})
}
