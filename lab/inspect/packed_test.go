package inspect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/lab/inspect"
	"ringlet/testkit/must"
	"ringlet/testkit/rootzip"
)

// TestCompressedRecordsAreInspected holds that all modes look into compressed records.
func TestCompressedRecordsAreInspected(t *testing.T) {
	plain := handMade(t, "mdf.hex")
	var file []byte
	for _, pack := range rootzip.Packers() {
		file = append(file, rootzip.Record(plain, event.MDFHeaderSize, pack(t, plain[event.MDFHeaderSize:]))...)
	}
	path := filepath.Join(t.TempDir(), "packed.mdf")
	must.OK(t, os.WriteFile(path, file, 0o600))
	for mode, want := range map[inspect.Mode]string{
		inspect.ModeSummary: "banks",
		inspect.ModeDump:    "compression 6",
		inspect.ModeVerify:  "0 bad units, 0 bytes skipped, 0 problems",
	} {
		var out bytes.Buffer
		must.OK(t, inspect.Inspect(t.Context(), &out, path, inspect.Options{Mode: mode}))
		got := out.String()
		if !strings.Contains(got, want) || mode == inspect.ModeDump && strings.Count(got, "  bank ") != 4*4 {
			t.Errorf("%s:\n%s", mode, got)
		}
	}
}
