package sweep

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runFake runs a sweep with the test binary in place of the program.
func runFake(t *testing.T, s *Sweep, cfg Config) *Summary {
	t.Helper()
	cfg.Spawn, cfg.Version = spawnFake, "test"
	sum, err := Run(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func load(t *testing.T, dir string) *Results {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fileResults))
	if err != nil {
		t.Fatal(err)
	}
	out, whole, err := parseResults(fileResults, text)
	if err != nil || whole != len(text) {
		t.Fatalf("%d of %d bytes are lines: %v", whole, len(text), err)
	}
	return out
}

func TestASweepLeavesLinesAndATable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "out")
	s := parse(t, barriers)
	s.ReferenceEvery = 3
	references, shown := 0, []Progress{}
	sum := runFake(t, s, Config{
		Dir: dir, Progress: func(p Progress) { shown = append(shown, p) },
		Reference: func(context.Context, *Cell) ([]Measured, error) {
			if references++; references == 2 {
				return nil, errors.New("nobody listened")
			}
			return []Measured{{"TCP", 40}}, nil
		},
	})
	if sum.Runs != 8 || sum.Of != 8 || sum.Failed != 0 || sum.Interrupted {
		t.Errorf("%+v", sum)
	}
	got := load(t, dir)
	if len(got.Starts) != 1 || len(got.Runs) != 8 || len(got.References) != 3 || got.References[1].Error != "nobody listened" {
		t.Errorf("%d starts, %d runs, %+v", len(got.Starts), len(got.Runs), got.References)
	}
	if m := got.Starts[0].Machine; m.Cores == 0 || m.Kernel == "" || m.Go == "" || m.Processes != 4 {
		t.Errorf("%+v", m)
	}
	if r := string(got.Runs[0].Report); !strings.Contains(r, `"ru.phases":7`) || strings.Contains(r, "dummies") || strings.Contains(r, "accounts\"") {
		t.Errorf("%s", r)
	}
	if first, last := shown[0], shown[len(shown)-1]; len(shown) != 9 || first.Done != 0 || first.Of != 8 || last.Done != 8 || last.Left != 0 || first.Left == 0 {
		t.Errorf("%d shown: %+v … %+v", len(shown), first, last)
	}
	table, err := os.ReadFile(filepath.Join(dir, fileCSV))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "barriers.csv", regexp.MustCompile(`20\d\d-[0-9T:-]+Z`).ReplaceAll(table, []byte("TIME")))
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, "name: x\n")
	runFake(t, s, Config{Dir: dir})
	var unusable *ResultsError
	if _, err := Run(t.Context(), s, Config{Dir: dir, Spawn: spawnFake}); !errors.As(err, &unusable) || !strings.Contains(err.Error(), "continue it with --resume") {
		t.Error(err)
	}
	if _, err := Run(t.Context(), s, Config{Dir: t.TempDir(), Resume: true, Spawn: spawnFake}); !errors.As(err, &unusable) || !strings.Contains(err.Error(), "leave out --resume") {
		t.Error(err)
	}
	changed := parse(t, "name: x\n# another\n")
	if _, err := Run(t.Context(), changed, Config{Dir: dir, Resume: true, Spawn: spawnFake}); !errors.As(err, &unusable) || !strings.Contains(err.Error(), "it was changed") {
		t.Error(err)
	}
}

// A sweep that was broken off, by a signal or by the machine in the middle of a line, goes on where it was.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, barriers)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	sum, err := Run(ctx, s, Config{Dir: dir, Spawn: func(ctx context.Context, args []string) ([]byte, error) {
		if n++; n == 4 {
			cancel()
			return nil, ctx.Err()
		}
		return spawnFake(ctx, args)
	}})
	if err != nil || !sum.Interrupted || sum.Runs != 3 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if _, err := os.Stat(filepath.Join(dir, fileCSV)); err != nil {
		t.Error(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, fileResults), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"kind":"run","series":"barr`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	before := torn(t, dir)
	if sum := runFake(t, s, Config{Dir: dir, Resume: true}); sum.Runs != 8 || sum.Interrupted {
		t.Errorf("%+v", sum)
	}
	got := load(t, dir)
	if len(got.Starts) != 2 || len(got.Runs) != 8 {
		t.Errorf("%d starts, %d runs", len(got.Starts), len(got.Runs))
	}
	seen := map[turnKey]bool{}
	for i, r := range got.Runs {
		seen[turnKey{r.Cell, r.Round}] = true
		if i < 3 && !r.Started.Equal(before[i].Started) {
			t.Errorf("run %d was run again", i)
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d different runs", len(seen))
	}
	// More rounds of the same file are more of the same sweep.
	if sum := runFake(t, s, Config{Dir: dir, Resume: true, Rounds: 3}); sum.Runs != 12 || sum.Of != 12 {
		t.Errorf("%+v", sum)
	}
}

func torn(t *testing.T, dir string) []Record {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fileResults))
	if err != nil {
		t.Fatal(err)
	}
	out, whole, err := parseResults(fileResults, text)
	if err != nil || whole == len(text) || len(out.Runs) != 3 {
		t.Fatalf("%d of %d bytes, %v", whole, len(text), err)
	}
	return out.Runs
}

// A run that failed is a line with its sentence, no result, and is run again by the next who resumes.
func TestFailedRunsSayWhy(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, "name: x\nrepeat: 1\nvary: {run-number: [1, 13, 14, 15, 16]}\n")
	sum := runFake(t, s, Config{Dir: dir})
	if sum.Runs != 1 || sum.Failed != 4 {
		t.Errorf("%+v", sum)
	}
	for _, r := range load(t, dir).Runs {
		want := map[string]string{"13": "exit status 1", "14": "printed what is no report", "15": "its accounts do not balance", "16": "was not: ip: no such device", "1": ""}[r.value("run-number")]
		if (r.Error == "") != (want == "") || !strings.Contains(r.Error, want) {
			t.Errorf("%s: %q", r.Cell, r.Error)
		}
	}
	table, err := os.ReadFile(filepath.Join(dir, fileCSV))
	if err != nil || strings.Count(string(table), "\n") != 6 {
		t.Errorf("%s, %v", table, err)
	}
	if sum := runFake(t, s, Config{Dir: dir, Resume: true}); sum.Runs != 1 || sum.Failed != 4 {
		t.Errorf("%+v", sum)
	}
	if got := load(t, dir); len(got.Runs) != 9 {
		t.Errorf("%d lines of runs, not 5 and 4 again", len(got.Runs))
	}
}

func TestResultsOfAnotherKindAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{\n":                                  "r:1: this is no line of a sweep",
		"{\"kind\":\"dream\"}\n":               `r:1: a line of kind "dream" is not known here`,
		"{\"kind\":\"run\",\"round\":\"x\"}\n": "r:1: this is no line of a sweep",
	} {
		if _, _, err := parseResults("r", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseResults(f *testing.F) {
	f.Add([]byte("{\"kind\":\"run\",\"cell\":\"a\",\"round\":1,\"report\":{\"goodput_gbps\":1,\"accounting_ok\":true}}\n{\"kind\":\"sweep\"}\n"))
	f.Add([]byte("{\"kind\":\"reference\",\"gbps\":3}\n{\"ki"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, whole, err := parseResults("r", text)
		if err != nil {
			return
		}
		if whole > len(text) || whole > 0 && text[whole-1] != '\n' {
			t.Errorf("%d of %d bytes are lines", whole, len(text))
		}
		for _, o := range outputs {
			if err := o.make(io.Discard, out); err != nil {
				t.Errorf("%s: %v", o.name, err)
			}
		}
	})
}
