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

	"ringlet/lab/trial"
	"ringlet/testkit/transcript"
)

// runFake runs a sweep with the test binary in place of the program.
func runFake(t *testing.T, s *Sweep, cfg Config) *Summary {
	t.Helper()
	return runFakeBy(t, s, cfg, spawnFake)
}

// runFakeBy is runFake with one's own way to spawn.
func runFakeBy(t *testing.T, s *Sweep, cfg Config, spawn func(context.Context, Turn) ([]byte, error)) *Summary {
	t.Helper()
	cfg.Spawn, cfg.Version = spawn, "test"
	sum, err := Run(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func load(t *testing.T, dir string) *results {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fileResults))
	if err != nil {
		t.Fatal(err)
	}
	out, completeLen, err := parseResults(fileResults, text)
	if err != nil || completeLen != len(text) {
		t.Fatalf("%d of %d bytes are lines: %v", completeLen, len(text), err)
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
		MeasureReferences: func(context.Context, *Cell) ([]ReferenceGoodput, error) {
			if references++; references == 2 {
				return nil, errors.New("nobody listened")
			}
			return []ReferenceGoodput{{"TCP", 40}}, nil
		},
	})
	var text strings.Builder
	if err := sum.WriteText(&text); err != nil {
		t.Error(err)
	}
	transcript.Expect(t, "testdata/barriers.txt", text.String())
	if sum.GoodRuns != 8 || sum.TotalRuns != 8 || sum.FailedRuns != 0 || sum.Interrupted {
		t.Errorf("%+v", sum)
	}
	got := load(t, dir)
	if len(got.Starts) != 1 || len(got.Runs) != 8 || len(got.References) != 3 ||
		got.References[1].Error != "nobody listened" {
		t.Errorf("%d starts, %d runs, %+v", len(got.Starts), len(got.Runs), got.References)
	}
	if m := got.Starts[0].Machine; m.Cores == 0 || m.Kernel == "" || m.Go == "" || m.Processes != 4 {
		t.Errorf("%+v", m)
	}
	if r := string(got.Runs[0].Report); !strings.Contains(r, `"ru.phases":7`) || strings.Contains(r, "dummies") ||
		strings.Contains(r, "accounts\"") {
		t.Errorf("%s", r)
	}
	if first, last := shown[0], shown[len(shown)-1]; len(shown) != 9 || first.Done != 0 || first.Total != 8 ||
		last.Done != 8 || last.Remaining != 0 || first.Remaining == 0 {
		t.Errorf("%d shown: %+v … %+v", len(shown), first, last)
	}
	table, err := os.ReadFile(filepath.Join(dir, fileCSV))
	if err != nil {
		t.Fatal(err)
	}
	transcript.Expect(t, "testdata/barriers.csv", regexp.MustCompile(`20\d\d-[0-9T:-]+Z`).ReplaceAllString(string(table),
		"TIME"))
}

// A sweep judges its runs beside references and other runs of the same round, also after it was broken off.
func TestBoundsAreJudged(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, `name: judged
repeat: 3
references: [tcp, pigeon]
fixed: {packing: 100}
series:
  - name: slow
    vary: {phase-end: [none, central]}
  - name: fast
    fixed: {nodes: 8}
    vary: {phase-end: [none, central]}
bounds:
  - {path: "fast, {phase-end}", of: fast, over: [slow], least: 1.5}
  - {of: fast phase-end=none, over: [pigeon, tcp], most: 0.5, says: "of {over}"}
  - {of: slow phase-end=central, figure: barrier_us.p99, unit: µs, most: 100}
  - {of: tcp, unit: Gbit/s, least: 3}
`)
	n, last := 0, 0
	measure := func(_ context.Context, name string) (trial.Figures, error) {
		if n++; name == "pigeon" {
			return nil, errors.New("it flew away")
		}
		return trial.Figures{"goodput_gbps": 4}, nil
	}
	sum := runFake(t, s, Config{Dir: dir, MeasureNamed: measure, Progress: func(p Progress) { last = p.Total }})
	var b strings.Builder
	if err := sum.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{ // 1.6 and 0.8 Gbit/s without a barrier; a central one is 20 µs for each node
		"reached      2.00      ≥ 1.5 × slow phase-end=none     fast, none",
		"not reached  1.38      ≥ 1.5 × slow phase-end=central  fast, central",
		"reached      0.40      ≤ 0.5 × of tcp                  fast phase-end=none",
		"not reached  160.00    ≤ 100 µs                        slow phase-end=central",
		"reached      4.00      ≥ 3 Gbit/s                      tcp",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("it does not say %q:\n%s", line, &b)
		}
	}
	if n != 6 || last != 18 || sum.GoodRuns != 12 || sum.TotalRuns != 12 || sum.FailedRuns != 0 {
		t.Errorf("%d references, %d turns, %+v", n, last, sum)
	}
	page, err := os.ReadFile(filepath.Join(dir, fileHTML))
	if err != nil || !strings.Contains(string(page), "<h2>Bounds</h2>") ||
		!strings.Contains(string(page), "it flew away") {
		t.Errorf("the page does not say it: %v", err)
	}
	if sum = runFake(t, s, Config{Dir: dir, Resume: true, MeasureNamed: measure}); n != 9 || len(sum.Verdicts()) != 5 {
		t.Errorf("%d references: those that failed are measured again; %v", n, sum.Verdicts())
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, "name: x\n")
	runFake(t, s, Config{Dir: dir})
	var unusable *ResultsError
	if _, err := Run(t.Context(), s, Config{Dir: dir, Spawn: spawnFake}); !errors.As(err, &unusable) ||
		!strings.Contains(err.Error(), "continue it with --resume") {
		t.Error(err)
	}
	if _, err := Run(t.Context(), s, Config{Dir: t.TempDir(), Resume: true, Spawn: spawnFake}); !errors.As(err,
		&unusable) || !strings.Contains(err.Error(), "leave out --resume") {
		t.Error(err)
	}
	changed := parse(t, "name: x\n# another\n")
	if _, err := Run(t.Context(), changed, Config{Dir: dir, Resume: true, Spawn: spawnFake}); !errors.As(err, &unusable) ||
		!strings.Contains(err.Error(), "it was changed") {
		t.Error(err)
	}
}

// Of two sweeps in one directory the second is refused: it would write over the lines of the first.
func TestOneSweepAtATimeHasADirectory(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, "name: x\nrepeat: 1\n")
	seconds := 0
	runFakeBy(t, s, Config{Dir: dir}, func(ctx context.Context, turn Turn) ([]byte, error) {
		for _, resume := range []bool{false, true} {
			var unusable *ResultsError
			_, err := Run(ctx, s, Config{Dir: dir, Resume: resume, Spawn: spawnFake})
			if seconds++; !errors.As(err, &unusable) || !strings.Contains(err.Error(), "is being written by another sweep") {
				t.Error(err)
			}
		}
		return spawnFake(ctx, turn)
	})
	if got := load(t, dir); seconds != 2 || len(got.Runs) != 1 {
		t.Errorf("%d tries, %d runs", seconds, len(got.Runs))
	}
}

// A sweep that was killed before its first line has left nothing that could be in the way.
func TestAnEmptyFileIsABeginning(t *testing.T) {
	for _, resume := range []bool{false, true} {
		dir := t.TempDir()
		for _, name := range []string{fileResults, fileHTML + ".part"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if sum := runFake(t, parse(t, "name: x\n"), Config{Dir: dir, Resume: resume}); sum.GoodRuns != 3 {
			t.Errorf("resume %v: %+v", resume, sum)
		}
		if leftovers, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(leftovers) > 0 {
			t.Errorf("%v", leftovers)
		}
	}
}

// To resume what is whole is to draw it anew, by the program as it is now: nothing is run, and no line is written that
// says so.
func TestResumingWhatIsWholeDrawsItAnew(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, "name: x\nrepeat: 2\nvary: {run-number: [1, 2]}\n")
	runFake(t, s, Config{Dir: dir})
	lines, err := os.ReadFile(filepath.Join(dir, fileResults))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fileCSV, fileHTML} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	sum := runFakeBy(t, s, Config{Dir: dir, Resume: true, Rounds: 1}, func(context.Context, Turn) ([]byte, error) {
		t.Error("something is run")
		return nil, errors.New("no")
	})
	if sum.GoodRuns != 4 || sum.TotalRuns != 4 { // of the two that one round has there are more
		t.Errorf("%+v", sum)
	}
	page, err := os.ReadFile(filepath.Join(dir, fileHTML))
	if err != nil || !strings.Contains(string(page), "4 of 4 runs") {
		t.Errorf("the page is not there, or tells another number: %v", err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, fileResults)); err != nil || string(now) != string(lines) {
		t.Errorf("the results changed: %v", err)
	}
}

func TestWhatHasChangedSinceIsSaid(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, "name: x\nrepeat: 1\n")
	s.BedsHash = "old"
	var said []string
	cfg := Config{Dir: dir, Notify: func(what string) { said = append(said, what) }}
	runFake(t, s, cfg)
	cfg.Resume, cfg.Rounds = true, 2
	cfg.Spawn, cfg.Version = spawnFake, "another"
	if _, err := Run(t.Context(), s, cfg); err != nil || len(said) != 1 || !strings.Contains(said[0], "are of test") ||
		!strings.Contains(said[0], "follow of another") {
		t.Errorf("%q, %v", said, err)
	}
	s.BedsHash = "new"
	var unusable *ResultsError
	if _, err := Run(t.Context(), s, cfg); !errors.As(err, &unusable) ||
		!strings.Contains(err.Error(), "a test bed's file with the hash old…") {
		t.Error(err)
	}
}

// A file that describes the bed of a sweep belongs to it as much as the sweep's own.
func TestFilesOfBedsAreHashed(t *testing.T) {
	dir := t.TempDir()
	bed, file := filepath.Join(dir, "bed.yaml"), filepath.Join(dir, "s.yaml")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func() *Sweep {
		s, err := Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write(file, "name: x\nvary: {nodes: [2, 4]}\n")
	if s := read(); s.BedsHash != "" {
		t.Errorf("%q of no bed", s.BedsHash)
	}
	write(file, "name: x\ntestbed: {bed: "+bed+"}\nvary: {nodes: [2, 4]}\n")
	write(bed, "hosts: 2\n")
	first := read()
	write(bed, "hosts: 3\n")
	if second := read(); first.BedsHash == second.BedsHash || len(first.BedsHash) != 64 || first.Hash != second.Hash {
		t.Errorf("%q, %q", first.BedsHash, second.BedsHash)
	}
	if err := os.Remove(bed); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A sweep that was broken off, by a signal or by the machine in the middle of a line, goes on where it was.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, barriers)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	sum, err := Run(ctx, s, Config{Dir: dir, Spawn: func(ctx context.Context, turn Turn) ([]byte, error) {
		if n++; n == 4 {
			cancel()
			return nil, ctx.Err()
		}
		return spawnFake(ctx, turn)
	}})
	if err != nil || !sum.Interrupted || sum.GoodRuns != 3 {
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
	if sum := runFake(t, s, Config{Dir: dir, Resume: true}); sum.GoodRuns != 8 || sum.Interrupted {
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
	if sum := runFake(t, s, Config{Dir: dir, Resume: true, Rounds: 3}); sum.GoodRuns != 12 || sum.TotalRuns != 12 {
		t.Errorf("%+v", sum)
	}
}

func torn(t *testing.T, dir string) []runLine {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fileResults))
	if err != nil {
		t.Fatal(err)
	}
	out, completeLen, err := parseResults(fileResults, text)
	if err != nil || completeLen == len(text) || len(out.Runs) != 3 {
		t.Fatalf("%d of %d bytes, %v", completeLen, len(text), err)
	}
	return out.Runs
}

// A run that failed is a line with its sentence, no result, and is run again by the next who resumes.
func TestFailedRunsSayWhy(t *testing.T) {
	dir := t.TempDir()
	s := parse(t, "name: x\nrepeat: 1\nvary: {run-number: [1, 13, 14, 15, 16]}\n")
	sum := runFake(t, s, Config{Dir: dir})
	if sum.GoodRuns != 1 || sum.FailedRuns != 4 {
		t.Errorf("%+v", sum)
	}
	for _, r := range load(t, dir).Runs {
		number, _ := findValue("run-number", r.Varied, r.Fixed)
		want := map[string]string{"13": "exit status 1", "14": "printed no valid report",
			"15": "its accounts do not balance", "16": "a disturbance failed: ip: no such device", "1": ""}[number]
		if (r.Error == "") != (want == "") || !strings.Contains(r.Error, want) {
			t.Errorf("%s: %q", r.Cell, r.Error)
		}
	}
	table, err := os.ReadFile(filepath.Join(dir, fileCSV))
	if err != nil || strings.Count(string(table), "\n") != 6 {
		t.Errorf("%s, %v", table, err)
	}
	if sum := runFake(t, s, Config{Dir: dir, Resume: true}); sum.GoodRuns != 1 || sum.FailedRuns != 4 {
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
	f.Add([]byte(`{"kind":"run","cell":"a","round":1,"report":{"goodput_gbps":1,"accounting_ok":true}}` + "\n" +
		`{"kind":"sweep"}` + "\n"))
	f.Add([]byte("{\"kind\":\"reference\",\"gbps\":3}\n{\"ki"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, completeLen, err := parseResults("r", text)
		if err != nil {
			return
		}
		if completeLen > len(text) || completeLen > 0 && text[completeLen-1] != '\n' {
			t.Errorf("%d of %d bytes are lines", completeLen, len(text))
		}
		for _, o := range outputs {
			if err := o.make(io.Discard, out); err != nil {
				t.Errorf("%s: %v", o.name, err)
			}
		}
	})
}
