package inspect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/lab/inspect"
	"ringlet/recording"
)

// An open segment ends for its readers at the last MEP that its index has, whatever stands behind.
func TestInspectOfAnOpenSegment(t *testing.T) {
	dir := t.TempDir()
	complete := replayedMEP(t)
	id := recording.SegmentID{Builder: 0, Number: 1, Format: recording.FormatMEP}
	path := filepath.Join(dir, id.Name()+recording.OpenSuffix)
	if err := os.WriteFile(path, append(bytes.Clone(complete), complete[:len(complete)/2]...), 0o666); err != nil {
		t.Fatal(err)
	}
	look := func(o inspect.Options) string {
		t.Helper()
		var b strings.Builder
		if err := inspect.Inspect(t.Context(), &b, path, o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if says := look(inspect.Options{}); !strings.Contains(says, "mep, 0 bytes") || !strings.Contains(says,
		"the 0 MEPs in its index") {
		t.Fatal(says)
	}
	h := recording.Header{Segment: id}
	e := recording.Entry{Length: int64(len(complete))}
	if err := os.WriteFile(filepath.Join(dir, id.Index()), e.Append(h.Append(nil)), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []inspect.Mode{inspect.ModeSummary, inspect.ModeDump, inspect.ModeVerify} {
		if says := look(inspect.Options{Mode: mode}); !strings.Contains(says, "the 1 MEPs in its index; ") {
			t.Errorf("%s: %s", mode, says)
		}
		if says := look(inspect.Options{Mode: mode, JSON: true}); !strings.Contains(says, `"open_segment":`) {
			t.Errorf("%s: %s", mode, says)
		}
	}
}
