package conversion_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringlet/convert/conversion"
	"ringlet/recording"
)

// overlapping are two runs of one measurement, of which the second begins 4 MEPs before the end of the first, and the
// rows of both together, each once.
func overlapping(t testing.TB, format recording.Format) (dirs []string, rows []row) {
	t.Helper()
	in := t.TempDir()
	first, rows := recordedFrom(t, in, 7, format, 0, 20)
	second, more := recordedFrom(t, in, 8, format, 16, 20)
	return []string{first, second}, append(rows, more[4*packing*sources:]...)
}

// Of the fragments that two runs of one measurement have, each comes once, and what is left out is counted by source.
func TestFragmentsOfTwoRunsComeOnce(t *testing.T) {
	for _, format := range []recording.Format{recording.FormatMEP, recording.FormatMDF, recording.FormatMFP} {
		dirs, want := overlapping(t, format)
		dropped := map[uint16]uint64{}
		for s := range sources {
			dropped[uint16(s*20000)] = 4 * packing
		}
		for _, inputs := range [][]string{dirs, {filepath.Dir(dirs[0])}} {
			out := filepath.Join(t.TempDir(), "x.parquet")
			r := convert(t, out, func(o *conversion.Options) { o.Once = true }, inputs...)
			same(t, back(t, out), want)
			if !maps.Equal(r.Dropped, dropped) || r.Rows != uint64(len(want)) {
				t.Errorf("%s: %+v", format, r)
			}
			if _, err := run(out, func(o *conversion.Options) { o.Force = true }, inputs...); err == nil ||
				!strings.Contains(err.Error(), "--once") {
				t.Errorf("without Once: got %v", err)
			}
		}
	}
}

// Files can be joined with runs. What an earlier input cannot give, a later one gives.
func TestFilesAndRunsComeOnce(t *testing.T) {
	dirs, want := overlapping(t, recording.FormatMEP)
	file, _ := filepath.Glob(filepath.Join(dirs[0], "bu0-*.mep")) // half of the first run
	out := filepath.Join(t.TempDir(), "x.jsonl")
	r := convert(t, out, func(o *conversion.Options) { o.Once, o.Run = true, 7 }, file[0], dirs[1], dirs[0])
	rows := back(t, out)
	slices.SortFunc(rows, func(a, b row) int {
		if a.Event != b.Event {
			return int(a.Event) - int(b.Event)
		}
		return int(a.Source) - int(b.Source)
	})
	for i := range rows {
		rows[i].Run, want[i].Run = 0, 0
	}
	same(t, rows, want)
	if r.Dropped[0] != 14*packing {
		t.Errorf("dropped %v", r.Dropped)
	}
	_, err := run(out, func(o *conversion.Options) { o.Once, o.Force = true, true }, newFile(t, "x.mdf", nil))
	if err == nil || !strings.Contains(err.Error(), "do not say the number of their event") {
		t.Errorf("MDF records once: got %v", err)
	}
}

// A name that ends like a file which nobody writes is refused with those that are written; --to or / at its end makes a
// directory of it.
func TestUnknownEndingIsRefused(t *testing.T) {
	path, want := meps(t, 2)
	dir := t.TempDir()
	for _, name := range []string{"x.csv", "x.Parquet", "rows.1", "x.root.gz"} {
		var refused *conversion.NameError
		if _, err := run(filepath.Join(dir, name), nil, path); !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), "a file ends with .parquet, .root, .jsonl, .h5 or .npz") {
			t.Errorf("%s: got %v", name, err)
		}
		convert(t, filepath.Join(dir, name), func(o *conversion.Options) { o.To = "jsonl" }, path)
		same(t, back(t, filepath.Join(dir, name)), want)
		convert(t, filepath.Join(dir, name)+"/", func(o *conversion.Options) { o.Force = true }, path)
		same(t, back(t, filepath.Join(dir, name)), want)
	}
	for _, name := range []string{"rows", ".rows", "x.jsonl"} {
		convert(t, filepath.Join(dir, name), nil, path)
	}
}
