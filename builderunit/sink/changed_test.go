package sink

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/recording"
	"ringlet/testkit/must"
)

func cutTo(size int64) func(string) error {
	return func(path string) error { return os.Truncate(path, size) }
}

func moved(path string) error { return os.Rename(path, path+".old") }

// TestAnotherProgramChangesASegment has somebody cut, remove or replace a file while it is written. The output ends
// with a sentence that names the file, and what is listed in the manifest is what is there.
func TestAnotherProgramChangesASegment(t *testing.T) {
	p := testPattern(t)
	for name, c := range map[string]struct {
		change func(path string) error
		says   string
		before bool // MEPs follow the change
	}{
		"cut, and more follows":     {cutTo(100), "changed it to 100 bytes", true},
		"cut at the end":            {cutTo(100), "changed it to 100 bytes", false},
		"grown":                     {cutTo(1 << 30), "to 1073741824 bytes", false},
		"removed, and more follows": {os.Remove, "removed or replaced it", true},
		"removed at the end":        {os.Remove, "removed or replaced it", false},
		"moved":                     {moved, "removed or replaced it", false},
		"replaced": {func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, b, 0o600))
		}, "removed or replaced it", false},
	} {
		for _, gap := range []int{0, 30_000} { // small and large pieces
			t.Run(name, func(t *testing.T) {
				r := newRun(t, t.TempDir(), recording.FormatMEP)
				s := newTestSegments(t, r.config(0, recording.DurabilityFile), hook{})
				write := func(k uint64) error {
					m, mep := buildMEP(t, p, k, testPacking, gap)
					return errors.Join(s.Write(t.Context(), m, mep), s.Flush())
				}
				for k := range uint64(3) {
					must.OK(t, write(k))
				}
				path := filepath.Join(r.runDir, "bu0-00001.mep"+recording.OpenSuffix)
				must.OK(t, c.change(path))
				var err error
				if c.before {
					if err = write(3); err == nil {
						t.Error("the next MEP is written as if nothing had happened")
					}
				}
				_, finished := s.Finish()
				var changed *changedError
				if !errors.As(finished, &changed) || !strings.Contains(finished.Error(), "output "+path) ||
					!strings.Contains(finished.Error(), c.says) {
					t.Errorf("%v, then %v", err, finished)
				}
				m, err := recording.Load(r.runDir)
				must.OK(t, err)
				if b := m.Builder(0); b.State != recording.StateGivenUp || len(b.Segments) != 0 {
					t.Errorf("the manifest has %+v", b)
				}
			})
		}
	}
}
