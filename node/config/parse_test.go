package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/internal/registry"
)

func TestParse(t *testing.T) {
	got, err := readText("run.yaml", []byte(`# a run
nodes: 8
duration: 1m30s
packing: 65535
rate: 1.5e6
slot-size: 4MiB
phase-end: central
loop: true
debug:
  drop: 0.01
`))
	if err != nil {
		t.Fatal(err)
	}
	want := configWith(func(c *Config) {
		c.Nodes, c.Duration, c.Packing, c.Rate = 8, 90*time.Second, 65535, 1.5e6
		c.SlotSize, c.PhaseEnd, c.Loop, c.Debug.Drop = 4<<20, "central", true, 0.01
	})
	if d := cmp.Diff(want.Config, got); d != "" {
		t.Error(d)
	}
}

func TestParseNothingIsTheDefault(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "~\n"} {
		if got, err := readText("x", []byte(text)); err != nil || got != Default() {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown", "nodes: 4\nfragment_size: 100\n",
			`run.yaml:2: fragment_size: there is no such setting; the nearest one is "fragment-size"`},
		{"what is no setting", `"-": true`, `run.yaml:1: -: there is no such setting; the nearest one is "rus"`},
		{"swapped letters", "pakcing: 1", `run.yaml:1: pakcing: there is no such setting; the nearest one is "packing"`},
		{"nested unknown", "debug:\n  dorp: 0.1\n",
			`run.yaml:2: debug.dorp: there is no such setting; the nearest one is "debug.drop"`},
		{"group as value", "debug: 0.1", "run.yaml:1: debug: expected settings"},
		{"flag of a group", "debug-drop: 0.1", `run.yaml:1: debug-drop: there is no such setting; the nearest one is`},
		{"value as group", "nodes:\n  a: 1\n", "run.yaml:2: nodes: expected a single value"},
		{"list", "nodes: [1]", "run.yaml:1: nodes: expected a single value"},
		{"nothing", "nodes:\n", "run.yaml:1: nodes: has no value"},
		{"twice", "nodes: 1\nseed: 2\nnodes: 3\n", "run.yaml:3: nodes: is given twice, first on line 1"},
		{"word", "nodes: four", `run.yaml:1: nodes: "four" is not a whole number`},
		{"fraction", "nodes: 1.5", `"1.5" is not a whole number`},
		{"negative", "events: -1", `"-1" is not a whole number that is not negative and fits 64 bits`},
		{"too big", "run-number: 4294967296", `fits 32 bits`},
		{"time", "duration: 10 seconds", `"10 seconds" is not a time such as 10s`},
		{"bool", "loop: maybe", `"maybe" is not true or false`},
		{"size", "slot-size: 4 stones", `size "4 stones" is not a number with a unit`},
		{"enum", "verify: wall", `run.yaml:1: verify: "wall" is not one of off, crc, full`},
		{"list at top", "- nodes", "run.yaml:1: expected settings"},
		{"text", "nodes", "run.yaml:1: expected settings"},
		{"two documents", "nodes: 1\n---\nnodes: 2\n", "a second document begins here"},
		{"no yaml", "nodes: 1\nseed: [", "run.yaml:2: did not find"},
		{"alias", "nodes: &a 4\nrus: *a\n", "run.yaml:2: rus: expected a single value"},
		{"merge", "<<: {nodes: 4}\n", "there is no such setting"},
		{"huge", strings.Repeat("# nothing here\n", 5000), "this is no configuration"},
	} {
		_, err := readText("run.yaml", []byte(c.text))
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one saying %q", c.name, err, c.want)
		}
	}
}

func TestParseReportsAll(t *testing.T) {
	_, err := readText("f", []byte("nods: 1\nrate: x\nbarrier: y\n"))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Problems) != 3 {
		t.Errorf("want three problems, got %v", err)
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.yaml")
	if _, err := loadFile(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte("nodes: 2\nwhat: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadFile(file); err == nil || !strings.HasPrefix(err.Error(), file+":2: what: ") {
		t.Errorf("error %v does not name file, line and key", err)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "4096": 4096, "4096B": 4096, "4KiB": 4096, "4 kib": 4096, "4kB": 4000, "1.5GB": 1_500_000_000,
		"4MiB": 4 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40, "0.5KiB": 512, " 7 ": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "B", "MiB", "-1", "-0.5kB", "1e3", "0x10", "inf", "nan", "9e18GiB", "9223372036854775807KiB", "1.5.2kB",
		"4 stones", "99999999999999.5TB",
	} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q: accepted as %d", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Min(0).Draw(t, "size"))
		if back, err := ParseBytes(b.String()); err != nil || back != b {
			t.Fatalf("%d prints as %q, which reads as %d, %v", int64(b), b, back, err)
		}
	})
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"bus", "rus", 1}, {"pakcing", "packing", 1}, {"fragment_size", "fragment-size", 1},
		{"abc", "cab", 2}} {
		if got := registry.Distance(c.a, c.b); got != c.want || registry.Distance(c.b, c.a) != got {
			t.Errorf("%q %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzParse holds that no text panics, and that what is accepted and complete prints back to itself.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "nodes: 4\n", "debug: {drop: 0.5}\n", "a: &a [*a]\n", "slot-size: 1.5GB\nrate: .inf\n", "? [nodes]\n: 4\n",
		"--- 1\n...\n",
	} {
		f.Add([]byte(seed))
	}
	c := Default()
	f.Add(c.Effective())
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readText("fuzz", text)
		if err != nil {
			var invalid *InvalidError
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("error is not a list of problems: %v", err)
			}
			return
		}
		if c.Complete() != nil {
			return
		}
		back, err := readText("effective", c.Effective())
		if err != nil || back != c {
			t.Fatalf("does not read back: %v\n%s", err, c.Effective())
		}
	})
}

// readText reads a text over the defaults, and completes nothing.
func readText(name string, text []byte) (Config, error) {
	c, _, err := read(name, bytes.NewReader(text))
	return c, err
}

// loadFile reads a file over the defaults, and completes nothing.
func loadFile(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	return readText(path, text)
}
