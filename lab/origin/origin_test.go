package origin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/lab/gen"
	"ringlet/recording"
	"ringlet/testkit/origintest"
)

func full(t *testing.T, dir string) (*recording.Verification, string) {
	t.Helper()
	v, err := recording.Verify(t.Context(), dir, recording.VerifyOptions{
		Content: func(m *recording.Manifest) (recording.Content, error) { return Find(t.Context(), m) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if _, err := v.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return v, b.String()
}

var formats = []recording.Format{recording.FormatMEP, recording.FormatMDF, recording.FormatMFP}

func TestGeneratedDataAreThoseOfTheGenerator(t *testing.T) {
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			dir := t.TempDir()
			text := "nodes: 2\nevents: 1005\npacking: 100\nseed: 7\n"
			runDir, n, err := origintest.Record(t.Context(), filepath.Join(dir, "out"), text, 5, f)
			if err != nil || n != 1005 {
				t.Fatal(n, err)
			}
			if v, says := full(t, runDir); !v.IsGood() || v.Runs[0].EventsFound != 1005 || !strings.Contains(says,
				"compared with their origin") {
				t.Fatal(says)
			}
			// Another seed has other bytes, in every MEP.
			err = recording.UpdateManifest(runDir, func(m *recording.Manifest) error {
				m.Configuration = strings.Replace(m.Configuration, "seed: 7", "seed: 8", 1)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if v, says := full(t, runDir); v.IsGood() || v.Runs[0].EventsFound != 0 || !strings.Contains(says, "wrong content") {
				t.Fatal(says)
			}
		})
	}
}

func TestReplayedDataAreThoseOfTheInput(t *testing.T) {
	for _, f := range formats {
		for _, loop := range []bool{false, true} {
			t.Run(fmt.Sprint(f, loop), func(t *testing.T) {
				dir := t.TempDir()
				in := filepath.Join(dir, "in.mdf")
				_, err := gen.Generate(t.Context(), gen.Config{
					Path:         in,
					Format:       recording.FormatMDF,
					Events:       130,
					Packing:      10,
					Streams:      6,
					FragmentSize: 50,
				})
				if err != nil {
					t.Fatal(err)
				}
				text := "nodes: 2\npacking: 20\ninput: " + in + "\n"
				want := uint64(130)
				if loop {
					text, want = text+"loop: true\nevents: 333\n", 333
				}
				runDir, n, err := origintest.Record(t.Context(), filepath.Join(dir, "out"), text, 5, f)
				if err != nil || n != want {
					t.Fatal(n, err)
				}
				if v, says := full(t, runDir); !v.IsGood() || v.Runs[0].EventsFound != want {
					t.Fatal(says)
				}
				// Another input, in which the data of one event are others.
				_, err = gen.Generate(context.Background(), gen.Config{
					Path:         in,
					Format:       recording.FormatMDF,
					Events:       130,
					Packing:      10,
					Streams:      6,
					FragmentSize: 50,
					Seed:         1,
					Overwrite:    true,
				})
				if err != nil {
					t.Fatal(err)
				}
				if v, says := full(t, runDir); v.IsGood() || !strings.Contains(says, "the input has") {
					t.Fatal(says)
				}
			})
		}
	}
}

func TestOfRefusesWhatCannotBeCompared(t *testing.T) {
	dir := t.TempDir()
	mfp := filepath.Join(dir, "mfp")
	if err := os.WriteFile(mfp, []byte{0xCE, 0x40}, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, says string }{
		"packets":        {"input: file:" + mfp + "\n", "mfp is a file of MFPs, and only replays of MDF are compared"},
		"prepared":       {"prepared: 3\n", "prepared"},
		"skipped":        {"input: x.mdf\non-bad-record: skip\n", "could skip records"},
		"no input":       {"input: " + filepath.Join(dir, "x.mdf") + "\n", "no such file"},
		"a directory":    {"input: " + dir + "\n", "not a regular file"},
		"no YAML":        {"{", "run 9 cannot be compared"},
		"an unknown key": {"pakcing: 4\n", "packing"},
	} {
		_, err := Find(t.Context(), &recording.Manifest{Run: 9, Configuration: c.text})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
