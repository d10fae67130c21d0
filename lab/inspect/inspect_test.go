package inspect_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/lab/inspect"
	"ringlet/testkit/mfp"
)

var update = flag.Bool("update", false, "write the golden outputs anew; review them as prose")

// handMade reads a golden file of the event package, written there by hand.
func handMade(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "event", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// replayedMEP is the record of mdf.hex as a MEP of two sources.
func replayedMEP(t testing.TB) []byte {
	t.Helper()
	b := make([]byte, event.MEPHeaderSize(2), 512)
	var offsets []uint32
	for source, name := range []string{"replay-0.hex", "replay-1.hex"} {
		offsets = append(offsets, uint32(len(b)/4))
		b = append(b, mfp.Build(event.MFPHeader{
			FirstEvent: 5,
			Source:     uint16(source),
			Align:      2,
		}, mfp.Fragment{Type: event.FragmentContainer, Data: handMade(t, name)})...)
	}
	if _, err := event.PutMEPHeader(b, []uint16{0, 1}, offsets, uint32(len(b)/4)); err != nil {
		t.Fatal(err)
	}
	return b
}

func spoil(b []byte, at int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], v)
	return b
}

// TestGoldenOutputs shows each mode each kind of file, sound and spoiled, and
// compares the text with testdata/<name>.<mode>.txt.
func TestGoldenOutputs(t *testing.T) {
	mdf, mep, mfp, end := handMade(t, "mdf.hex"), handMade(t, "mep.hex"), handMade(t, "mfp.hex"),
		handMade(t, "mfp-end.hex")
	replayed := replayedMEP(t)
	for name, content := range map[string][]byte{
		"sound.mdf":   bytes.Join([][]byte{mdf, handMade(t, "generated.hex")}, nil),
		"spoiled.mdf": bytes.Join([][]byte{mdf, spoil(mdf, 60, 0), spoil(mdf, 4, 89), spoil(mdf, 12, 1), mdf[:50]}, nil),
		"sound.mep":   append(bytes.Clone(mep), replayed...),
		"spoiled.mep": bytes.Join([][]byte{spoil(mep, 120, 1), spoil(replayed, 172, 0), spoil(replayed, 120, 0),
			spoil(mep, 10, 3), mep}, nil),
		"sound.mfp":    bytes.Join([][]byte{mfp, spoil(mfp, 8, 0xEB), end}, nil),
		"spoiled.mfp":  bytes.Join([][]byte{mfp, mfp, end, end, spoil(mfp, 28, 9), mfp[:30]}, nil),
		"rubbish.mfp":  []byte("neither one nor the other"),
		"empty.mdf":    {},
		"truncate.mfp": mfp[:5],
		"giant.mep":    spoil(mep, 4, 255, 255, 255, 255),
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, mode := range []inspect.Mode{inspect.ModeSummary, inspect.ModeDump, inspect.ModeVerify} {
				golden(t, name, mode)
			}
		})
	}
}

var here, _ = os.Getwd() // before t.Chdir

func golden(t *testing.T, name string, mode inspect.Mode) {
	t.Helper()
	var out bytes.Buffer
	err := inspect.Inspect(context.Background(), &out, name, inspect.Options{Mode: mode})
	var bad *inspect.BadInputError
	switch sound := strings.HasPrefix(name, "sound") || strings.HasPrefix(name, "empty"); {
	case sound && err != nil:
		t.Errorf("%s: %v", mode, err)
	case !sound && !errors.As(err, &bad):
		t.Errorf("%s: got %v, want a BadInputError", mode, err)
	case !sound:
		out.WriteString("error: " + err.Error() + "\n")
	}
	path := filepath.Join(here, "testdata", name+"."+string(mode)+".txt")
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("%s of %s:\n%s\nwant\n%s", mode, name, out.String(), want)
	}
}

func TestJSONIsJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.mdf")
	if err := os.WriteFile(path, append(handMade(t, "mdf.hex"), 1, 2), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []inspect.Mode{inspect.ModeSummary, inspect.ModeDump, inspect.ModeVerify} {
		var out bytes.Buffer
		err := inspect.Inspect(context.Background(), &out, path, inspect.Options{Mode: mode, JSON: true})
		if !errors.Is(err, event.ErrTruncated) {
			t.Errorf("%s: got %v, want a truncated record", mode, err)
		}
		objects := 0
		for dec := json.NewDecoder(&out); ; objects++ {
			var v map[string]any
			if err := dec.Decode(&v); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
		}
		if want := map[inspect.Mode]int{inspect.ModeDump: 6}[mode]; want != 0 && objects != want || objects == 0 {
			t.Errorf("%s: %d objects", mode, objects)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, opts := range []inspect.Options{{Format: "root"}, {Mode: "repair"}, {Limit: -1}} {
		var oe *inspect.OptionError
		if err := inspect.Inspect(context.Background(), io.Discard, "x.mdf", opts); !errors.As(err, &oe) {
			t.Errorf("%+v: got %v, want an OptionError", opts, err)
		}
	}
	if err := inspect.Inspect(context.Background(), io.Discard, "absent.mdf", inspect.Options{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("got %v for a file that is not there", err)
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bin")
	if err := os.WriteFile(path, []byte("what is this"), 0o600); err != nil {
		t.Fatal(err)
	}
	var bad *inspect.BadInputError
	if err := inspect.Inspect(context.Background(), io.Discard, path, inspect.Options{}); !errors.As(err, &bad) {
		t.Errorf("got %v, want a BadInputError", err)
	}
}

func TestLimitAndCancel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.mfp")
	if err := os.WriteFile(path, bytes.Repeat(handMade(t, "mfp.hex"), 5), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := inspect.Inspect(context.Background(), &out, path,
		inspect.Options{Mode: inspect.ModeDump, Limit: 2}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "mfp "); n != 2 {
		t.Errorf("%d packets shown, the limit is 2", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := inspect.Inspect(ctx, io.Discard, path, inspect.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after cancelling", err)
	}
}

func TestSample(t *testing.T) {
	path := os.Getenv("RINGLET_MDF_SAMPLE")
	if path == "" {
		path = "../shared/data/minbias-10.mdf"
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join("..", "..", path)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no reference sample (%v); set RINGLET_MDF_SAMPLE", err)
	}
	var out bytes.Buffer
	for _, mode := range []inspect.Mode{inspect.ModeSummary, inspect.ModeVerify} {
		if err := inspect.Inspect(context.Background(), &out, path, inspect.Options{Mode: mode}); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.ReplaceAll(out.String(), path, "minbias-10.mdf")
	file := filepath.Join("testdata", "sample.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
