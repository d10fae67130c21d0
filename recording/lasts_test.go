package recording

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ringlet/testkit/must"
)

// TestASegmentThatWasCutIsFoundQuickly holds that the end of a run sees what somebody has done to a closed segment:
// its events do not count, and the file is named once.
func TestASegmentThatWasCutIsFoundQuickly(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string, size int64) error
		events uint64 // that are left
		kind   ProblemKind
		n      uint64 // problems
	}{
		"cut":     {func(path string, size int64) error { return os.Truncate(path, size-1) }, 4, WrongSize, 3},
		"removed": {func(path string, _ int64) error { return os.Remove(path) }, 0, MissingFile, 1},
		"cut and grown again": {func(path string, size int64) error {
			return errors.Join(os.Truncate(path, 0), os.Truncate(path, size))
		}, 4, DamagedData, 1},
		"of zeros": {func(path string, size int64) error { return os.WriteFile(path, make([]byte, size), 0o600) }, 4,
			DamagedData, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, must.MemoryDir(t), FormatMDF)
			id := r.closed(0, mep(0, 1), mep(1, 1))
			r.closed(0, mep(2, 1))
			r.verdict(12, 12)
			path := filepath.Join(r.done(), id.Name())
			st, err := os.Stat(path)
			must.OK(t, err)
			must.OK(t, c.change(path, st.Size()))
			got, err := Read(t.Context(), r.dir)
			must.OK(t, err)
			if got.Events() != c.events+4 || !got.Builders[0].Segments[0].Problems.contains(c.kind) ||
				got.ProblemCount() != c.n {
				t.Errorf("%d events, %+v", got.Events(), got.Builders[0].Segments[0].Problems)
			}
			if v := verified(t, r.dir, VerifyOptions{}); v.IsGood {
				t.Error(said(v))
			}
		})
	}
}
