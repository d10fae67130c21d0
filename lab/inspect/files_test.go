package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// eudaqEvent is an event of EUDAQ 2 with sub-events.
func eudaqEvent(name string, number uint32, subs ...[]byte) []byte {
	var b []byte
	for _, w := range []uint32{0x8026656D, 2, 0, 0, 7, number, number, 0, 0, 0, 0, 0, uint32(len(name))} {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	b = append(b, name...)
	for _, w := range []uint32{0, 0, uint32(len(subs))} {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return append(b, bytes.Join(subs, nil)...)
}

func TestFilesOfEUDAQAreLookedInto(t *testing.T) {
	var data []byte
	for n := range uint32(3) {
		data = append(data, eudaqEvent("Sync", n, eudaqEvent("Plane", n))...)
	}
	path := filepath.Join(t.TempDir(), "e.raw")
	for cut, want := range map[int]string{0: "eudaq, 3 events", 5: "eudaq, 2 events"} {
		if err := os.WriteFile(path, data[:len(data)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := Inspect(t.Context(), &out, path, Options{})
		var bad *BadInputError
		if (cut > 0) != errors.As(err, &bad) || !strings.Contains(out.String(), want) ||
			!strings.Contains(out.String(), `"Plane" device 0`) {
			t.Errorf("without %d bytes: %v\n%s", cut, err, out.String())
		}
		out.Reset()
		if err := Inspect(t.Context(), &out, path, Options{Mode: ModeDump, JSON: true, Limit: 2}); err != nil ||
			strings.Count(out.String(), "\n") != 2 {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
}

func TestUnknownFilesAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.raw")
	if err := os.WriteFile(path, []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Inspect(t.Context(), &bytes.Buffer{}, path, Options{}); err == nil ||
		!strings.Contains(err.Error(), "gzip") {
		t.Error(err)
	}
}

func TestFilesOfDirectories(t *testing.T) {
	dir := t.TempDir()
	want := []string{"run-2/b.mep", "run-2/c.mep.open", "x.mdf"}
	for _, name := range append(want, "run.json", "run-2/run.json", "run-2/b.idx") {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range want {
		want[i] = filepath.Join(dir, want[i])
	}
	got, err := Files([]string{dir, "not-there"})
	if err != nil || !slices.Equal(got, append(want, "not-there")) {
		t.Error(got, err)
	}
	if _, err := Files([]string{t.TempDir()}); err == nil {
		t.Error("nothing is found in an empty directory, and nothing said")
	}
}
